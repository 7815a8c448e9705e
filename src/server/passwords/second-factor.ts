import { createCipheriv, createDecipheriv, hash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Logger } from 'pino';
import { LdapError } from '../../ldap/ldap-error.js';

/** Holds the secret of an entry's codes: see `SecondFactor`. */
export const TOTP_SECRET = 'rowanTotpSecret';

const KEY = 32;
const KEY_ID = 4;
const NONCE = 12;
const TAG = 16;
const CIPHER = 'aes-256-gcm';
const SCHEME = Buffer.from('{AES256GCM}');

/** The key of the file. Throws LdapError that names the setting. */
function readKey(path: string): Buffer {
  let key: Buffer;
  try {
    key = readFileSync(path);
  } catch (cause) {
    throw new LdapError('other', `passwords.totpKey: ${(cause as Error).message}`, { cause });
  }
  if (key.length !== KEY)
    throw new LdapError(
      'other',
      `passwords.totpKey: ${path} has ${key.length} bytes, and a key has ${KEY}; "openssl rand ${KEY} > ${path}" makes one`,
    );
  return key;
}

/**
 * Secrets of second factors as they are stored: encrypted with AES-256-GCM under the key of a file. A value is
 * `{AES256GCM}` and, in base64, 4 bytes of the key's SHA-256, 12 of nonce, 16 of tag, and the secret.
 */
export class SecondFactor {
  readonly #key: Buffer | undefined;
  readonly #keyId: Buffer | undefined;
  readonly #log: Pick<Logger, 'error'>;
  #told = false;

  /** `path`: of the file; undefined: there is no key, and no secret can be read. */
  constructor(path: string | undefined, log: Pick<Logger, 'error'>) {
    this.#key = path === undefined ? undefined : readKey(path);
    this.#keyId = this.#key && hash('sha256', this.#key, 'buffer').subarray(0, KEY_ID);
    this.#log = log;
  }

  /** The secret as it is stored. Throws LdapError where there is no key. */
  seal(secret: Buffer): Buffer {
    if (!this.#key || !this.#keyId)
      throw new LdapError(
        'unwillingToPerform',
        'a second factor needs the setting passwords.totpKey: a file of 32 random bytes under which it is stored',
      );
    const nonce = randomBytes(NONCE);
    const cipher = createCipheriv(CIPHER, this.#key, nonce);
    const sealed = Buffer.concat([cipher.update(secret), cipher.final()]);
    const body = Buffer.concat([this.#keyId, nonce, cipher.getAuthTag(), sealed]);
    return Buffer.concat([SCHEME, Buffer.from(body.toString('base64'))]);
  }

  /** The secret; undefined where the value is none or of another key, which is told in the log once. */
  open(value: Buffer): Buffer | undefined {
    const secret = this.#open(value);
    if (!secret && !this.#told) {
      this.#told = true;
      this.#log.error(
        this.#key
          ? 'a second factor cannot be read with the key of passwords.totpKey: nobody binds with it'
          : 'an entry has a second factor, and passwords.totpKey is not set: nobody binds with it',
      );
    }
    return secret;
  }

  #open(value: Buffer): Buffer | undefined {
    if (!this.#key || !this.#keyId || !value.subarray(0, SCHEME.length).equals(SCHEME)) return undefined;
    const body = Buffer.from(value.toString('latin1', SCHEME.length), 'base64');
    if (body.length <= KEY_ID + NONCE + TAG || !body.subarray(0, KEY_ID).equals(this.#keyId)) return undefined;
    const [nonce, tag] = [body.subarray(KEY_ID, KEY_ID + NONCE), body.subarray(KEY_ID + NONCE, KEY_ID + NONCE + TAG)];
    try {
      const decipher = createDecipheriv(CIPHER, this.#key, nonce, { authTagLength: TAG }).setAuthTag(tag);
      return Buffer.concat([decipher.update(body.subarray(KEY_ID + NONCE + TAG)), decipher.final()]);
    } catch {
      // The tag is not that of these bytes: somebody has changed them.
      return undefined;
    }
  }
}

/** A password with the code behind it; undefined: there is no code. */
export function passwordAndCode(given: Buffer): { readonly password: Buffer; readonly code: string } | undefined {
  const at = given.length - 6;
  const code = given.toString('latin1', Math.max(at, 0));
  return at > 0 && /^\d{6}$/.test(code) ? { password: given.subarray(0, at), code } : undefined;
}
