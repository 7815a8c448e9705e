import { createCipheriv, createDecipheriv, hash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Logger } from 'pino';
import { LdapError } from '../../ldap/ldap-error.js';
import { nameSetting } from '../settings/index.js';

/** The attribute with the encrypted TOTP secret of an entry; see `SecondFactor`. */
export const TOTP_SECRET = 'rowanTotpSecret';

const KEY_BYTES = 32;
const KEY_ID_BYTES = 4;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = 'aes-256-gcm';
const SCHEME_PREFIX = Buffer.from('{AES256GCM}');

/** Reads the key from a file. Throws an error that names the setting and the file. */
function readKey(path: string): Buffer {
  let key: Buffer;
  try {
    key = readFileSync(path);
  } catch (cause) {
    throw nameSetting(cause, 'passwords.totpKey', path);
  }
  if (key.length !== KEY_BYTES)
    throw new LdapError(
      'other',
      `passwords.totpKey: ${path} has ${key.length} bytes, and a key has ${KEY_BYTES}; "openssl rand ${KEY_BYTES} > ${path}" makes one`,
    );
  return key;
}

/**
 * Encrypts TOTP secrets for storage with AES-256-GCM. The key is read from a file. A stored value is `{AES256GCM}`
 * followed by base64 of: 4 bytes of the key's SHA-256, 12 bytes nonce, 16 bytes tag, and the encrypted secret.
 */
export class SecondFactor {
  readonly #key: Buffer | undefined;
  readonly #keyId: Buffer | undefined;
  readonly #log: Pick<Logger, 'error'>;
  #hasLoggedFault = false;

  /** `path`: path of the key file; undefined: no key, so that no secret can be read. */
  constructor(path: string | undefined, log: Pick<Logger, 'error'>) {
    this.#key = path === undefined ? undefined : readKey(path);
    this.#keyId = this.#key && hash('sha256', this.#key, 'buffer').subarray(0, KEY_ID_BYTES);
    this.#log = log;
  }

  /** Encrypts a secret. Throws `LdapError` without a key. */
  encryptSecret(secret: Buffer): Buffer {
    if (!this.#key || !this.#keyId)
      throw new LdapError(
        'unwillingToPerform',
        'a second factor needs the setting passwords.totpKey: a file of 32 random bytes under which it is stored',
      );
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, nonce);
    const encryptedSecret = Buffer.concat([cipher.update(secret), cipher.final()]);
    const body = Buffer.concat([this.#keyId, nonce, cipher.getAuthTag(), encryptedSecret]);
    return Buffer.concat([SCHEME_PREFIX, Buffer.from(body.toString('base64'))]);
  }

  /** Decrypts a stored value; undefined when the value is malformed or of another key, which is logged once. */
  decryptSecret(value: Buffer): Buffer | undefined {
    const secret = this.#decrypt(value);
    if (!secret && !this.#hasLoggedFault) {
      this.#hasLoggedFault = true;
      this.#log.error(
        this.#key
          ? 'a second factor cannot be read with the key of passwords.totpKey: nobody binds with it'
          : 'an entry has a second factor, and passwords.totpKey is not set: nobody binds with it',
      );
    }
    return secret;
  }

  #decrypt(value: Buffer): Buffer | undefined {
    if (!this.#key || !this.#keyId || !value.subarray(0, SCHEME_PREFIX.length).equals(SCHEME_PREFIX)) return undefined;
    const body = Buffer.from(value.toString('latin1', SCHEME_PREFIX.length), 'base64');
    if (body.length <= KEY_ID_BYTES + NONCE_BYTES + TAG_BYTES || !body.subarray(0, KEY_ID_BYTES).equals(this.#keyId))
      return undefined;
    const [nonce, tag] = [
      body.subarray(KEY_ID_BYTES, KEY_ID_BYTES + NONCE_BYTES),
      body.subarray(KEY_ID_BYTES + NONCE_BYTES, KEY_ID_BYTES + NONCE_BYTES + TAG_BYTES),
    ];
    try {
      const decipher = createDecipheriv(CIPHER, this.#key, nonce, { authTagLength: TAG_BYTES }).setAuthTag(tag);
      return Buffer.concat([decipher.update(body.subarray(KEY_ID_BYTES + NONCE_BYTES + TAG_BYTES)), decipher.final()]);
    } catch {
      // The tag does not match: the stored bytes were changed.
      return undefined;
    }
  }
}

/** Splits a password from the six-digit code that follows it; undefined: no code. */
export function splitCode(input: Buffer): { readonly password: Buffer; readonly code: string } | undefined {
  const codeStart = input.length - 6;
  const code = input.toString('latin1', Math.max(codeStart, 0));
  return codeStart > 0 && /^\d{6}$/.test(code) ? { password: input.subarray(0, codeStart), code } : undefined;
}
