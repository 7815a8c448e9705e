// The schemes of stored passwords. A stored value is `{SCHEME}` followed by a text in the scheme's format (RFC 3112, in
// OpenLDAP's spelling, which all directories and their LDIF use).

/** How a scheme is verified. Values of `foreign` schemes (SASL, one-time passwords) are stored but never verified. */
export type SchemeKind = 'clear' | 'digest' | 'argon2' | 'pbkdf2' | 'crypt' | 'foreign';

export interface Scheme {
  /** Name in upper case, without braces. */
  readonly name: string;
  readonly kind: SchemeKind;
  /** The digest's name in node:crypto, for `digest` and `pbkdf2`. */
  readonly digest: string;
  readonly digestBytes: number;
  readonly isSalted: boolean;
  /** Strength: 0 clear, 1 unsalted or MD5, 2 salted and fast, 3 slow by design, 4 memory-hard. */
  readonly strength: number;
}

const NO_DIGEST = { digest: '', digestBytes: 0, isSalted: true };

function digestSchemes(): Scheme[] {
  const schemes: Scheme[] = [];
  const addPair = (plain: string, salted: string, digest: string, digestBytes: number): void => {
    const strength = digest === 'md5' ? 1 : 2;
    schemes.push({ name: plain, kind: 'digest', digest, digestBytes, isSalted: false, strength: 1 });
    schemes.push({ name: salted, kind: 'digest', digest, digestBytes, isSalted: true, strength });
  };
  addPair('MD5', 'SMD5', 'md5', 16);
  addPair('SHA', 'SSHA', 'sha1', 20);
  addPair('SHA256', 'SSHA256', 'sha256', 32);
  addPair('SHA384', 'SSHA384', 'sha384', 48);
  addPair('SHA512', 'SSHA512', 'sha512', 64);
  return schemes;
}

function pbkdf2Scheme(name: string, digest: string, digestBytes: number): Scheme {
  return { name, kind: 'pbkdf2', digest, digestBytes, isSalted: true, strength: 3 };
}

const foreignNames = [
  'SASL KERBEROS GSSAPI UNIX LANMAN NTHASH NS-MTA-MD5 RADIUS PKCS5S2 PBKDF2_SHA256 GOST_YESCRYPT SCRYPT',
  'TOTP1 TOTP256 TOTP512 TOTP1ANDPW TOTP256ANDPW TOTP512ANDPW',
].flatMap((names) => names.split(' '));

const schemes: readonly Scheme[] = [
  ...digestSchemes(),
  { name: 'CLEARTEXT', kind: 'clear', ...NO_DIGEST, strength: 0 },
  { name: 'CLEAR', kind: 'clear', ...NO_DIGEST, strength: 0 },
  { name: 'ARGON2', kind: 'argon2', ...NO_DIGEST, strength: 4 },
  pbkdf2Scheme('PBKDF2', 'sha1', 20),
  pbkdf2Scheme('PBKDF2-SHA1', 'sha1', 20),
  pbkdf2Scheme('PBKDF2-SHA256', 'sha256', 32),
  pbkdf2Scheme('PBKDF2-SHA512', 'sha512', 64),
  { name: 'CRYPT', kind: 'crypt', ...NO_DIGEST, strength: 2 },
  { name: 'BCRYPT', kind: 'crypt', ...NO_DIGEST, strength: 3 },
  ...foreignNames.map((name): Scheme => ({ name, kind: 'foreign', ...NO_DIGEST, strength: 0 })),
];

const schemesByName = new Map(schemes.map((scheme) => [scheme.name, scheme]));

const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const MAX_NAME_LENGTH = 32;

/** Returns the offset of the byte after `{SCHEME}`, or 0 when the value has no such prefix. */
export function bodyStart(storedValue: Buffer): number {
  if (storedValue[0] !== OPEN_BRACE) return 0;
  const lastIndex = Math.min(storedValue.length - 1, MAX_NAME_LENGTH + 1);
  for (let offset = 1; offset <= lastIndex; offset++) {
    const byte = storedValue[offset]!;
    if (byte === CLOSE_BRACE) return offset > 1 ? offset + 1 : 0;
    const isNameByte =
      (byte >= 0x30 && byte <= 0x39) ||
      (byte >= 0x41 && byte <= 0x5a) ||
      (byte >= 0x61 && byte <= 0x7a) ||
      byte === 0x2d;
    if (!isNameByte && byte !== 0x5f && byte !== 0x2f && byte !== 0x2e) return 0;
  }
  return 0;
}

/** Returns the scheme of a stored value; undefined for an unknown scheme or none. */
export function knownScheme(storedValue: Buffer): Scheme | undefined {
  const body = bodyStart(storedValue);
  if (body === 0) return undefined;
  const name = storedValue.toString('latin1', 1, body - 1);
  return schemesByName.get(name) ?? schemesByName.get(name.toUpperCase());
}

/** Whether the value has a scheme other than clear text, known or not. Such values are stored unchanged. */
export function isHashed(value: Buffer): boolean {
  return bodyStart(value) !== 0 && knownScheme(value)?.kind !== 'clear';
}

/**
 * Returns the form in which a value is stored. OpenLDAP's pw-argon2 verifies C strings, and stores a NUL and another
 * byte after them: an argon2 value is cut at its first NUL.
 */
export function storedForm(value: Buffer): Buffer {
  const end = knownScheme(value)?.kind === 'argon2' ? value.indexOf(0) : -1;
  return end < 0 ? value : value.subarray(0, end);
}

/** Whether verifying the value takes milliseconds. Slow values are verified off the event loop. */
export function isSlow(storedValue: Buffer): boolean {
  const kind = knownScheme(storedValue)?.kind;
  return kind === 'argon2' || kind === 'pbkdf2' || kind === 'crypt';
}

/** Returns the clear password in a value that is not hashed, without a `{CLEARTEXT}` prefix. */
export function clearText(value: Buffer): Buffer {
  return knownScheme(value)?.kind === 'clear' ? value.subarray(bodyStart(value)) : value;
}
