import { isUtf8 } from 'node:buffer';
import { MAX_BCRYPT_COST, MAX_CRYPT_PASSWORD_BYTES, MAX_SHA_CRYPT_ROUNDS } from '../limits.js';

/** The forms of crypt(3) text that are verified. */
export const forms = {
  /** Variant, rounds, salt. */
  sha: /^\$([56])\$(?:rounds=(\d{1,10})\$)?([^$\n]{0,16})\$[./0-9A-Za-z]+$/,
  /** Salt. */
  md5: /^\$1\$([^$\n]{0,8})\$[./0-9A-Za-z]{22}$/,
  /** Logarithm of the rounds. */
  bcrypt: /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/,
  des: /^[./0-9A-Za-z]{13}$/,
};

export const SHA_CRYPT_ROUNDS = 5000;
const MIN_SHA_CRYPT_ROUNDS = 1000;
const MIN_BCRYPT_COST = 4;

/** Rounds that a text of SHA-crypt asks for; undefined where crypt(3) would not write so few, or they are too many. */
export function shaRounds(asked: string | undefined): number | undefined {
  const rounds = asked === undefined ? SHA_CRYPT_ROUNDS : Number(asked);
  return rounds >= MIN_SHA_CRYPT_ROUNDS && rounds <= MAX_SHA_CRYPT_ROUNDS ? rounds : undefined;
}

/** Whether the text has one of the forms, with a setting that is sound and within the limits. */
export function isCryptSound(stored: string): boolean {
  const sha = forms.sha.exec(stored);
  if (sha) return shaRounds(sha[2]) !== undefined;
  const bcrypt = forms.bcrypt.exec(stored);
  if (bcrypt) return Number(bcrypt[1]) >= MIN_BCRYPT_COST && Number(bcrypt[1]) <= MAX_BCRYPT_COST;
  return forms.md5.test(stored) || forms.des.test(stored);
}

/**
 * Whether the password is worked on with the setting of `stored`. A NUL ends a password for crypt(3), so one with a NUL
 * inside would match by its beginning: it never does here.
 */
export function isWorkedOn(stored: string, clear: Buffer): boolean {
  if (clear.includes(0) || !isCryptSound(stored)) return false;
  if (forms.bcrypt.test(stored)) return isUtf8(clear);
  return forms.des.test(stored) || clear.length <= MAX_CRYPT_PASSWORD_BYTES;
}
