import { randomBytes } from 'node:crypto';
import { decodePercent } from '../ldap/text.js';

export interface FileName {
  /** The name as dropped. */
  readonly name: string;
  readonly id: string;
  /** 0 to 9. Files of a higher priority are processed first. */
  readonly priority: number;
  readonly class: string;
  /** Time in milliseconds since 1970 after which the file is not applied. Undefined: the file never expires. */
  readonly expiry: number | undefined;
  readonly correlation: string;
  readonly replyTo: string;
  readonly type: string;
  readonly properties: string;
  readonly isCsv: boolean;
}

/** Longest name in bytes. Prefixes and suffixes have to fit into the 255 bytes of the file system, too. */
export const MAX_NAME = 180;
const DEFAULT_PRIORITY = 4;
/** Prefix of a file whose own name was taken in the final folder. */
const COLLISION_PREFIX = /^[0-9a-f]{8}~/;

/**
 * Parses `priority.id.class.expiry.correlation.replyTo.type.properties`. Fields from the fourth on may be missing. A
 * field may encode any character as `%` and two hexadecimal digits. Any other name is an id without further fields.
 */
export function parseFileName(fileName: string): FileName {
  const name = fileName.replace(COLLISION_PREFIX, '');
  const [priority, id, kind, expiry = '', correlation = '', replyTo = '', type = '', ...properties] = name.split('.');
  const isMessage = /^\d$/.test(priority!) && id && kind !== undefined && /^[A-Za-z]?$/.test(kind);
  const fields =
    isMessage && /^\d{0,15}$/.test(expiry) ? [id, correlation, replyTo, type].map(decodePercent) : [undefined];
  const isCsv = /\.csv$/i.test(name) || fields[3]?.toLowerCase() === 'csv';
  if (fields.includes(undefined)) {
    const emptyFields = { class: '', expiry: undefined, correlation: '', replyTo: '', type: '', properties: '' };
    return { name: fileName, id: name, priority: DEFAULT_PRIORITY, ...emptyFields, isCsv };
  }
  return {
    name: fileName,
    id: fields[0]!,
    priority: Number(priority),
    class: kind!,
    // 0 means no expiry, as in JMS.
    expiry: Number(expiry) === 0 ? undefined : Number(expiry),
    correlation: fields[1]!,
    replyTo: fields[2]!,
    type: fields[3]!,
    properties: properties.join('.'),
    isCsv,
  };
}

/** Returns the reason to refuse a file name; undefined when the name is acceptable. */
export function nameFault(name: Buffer): string | undefined {
  const text = name.toString();
  if (!Buffer.from(text).equals(name)) return 'its name is not UTF-8; rename it';
  if (/\p{Cc}/u.test(text)) return 'its name has a control character; rename it';
  if (parseClaim(text))
    return 'its name is one that files have in processing, and its records may have been applied; rename it if they shall be';
  if (name.length > MAX_NAME) return `its name has ${name.length} bytes, and may have ${MAX_NAME}; rename it`;
  return undefined;
}

export function isExpired({ expiry }: FileName): boolean {
  return expiry !== undefined && expiry <= Date.now();
}

/** The fields of a file name in `processing`. */
export interface Claim {
  /** Identifies the delivery: 32 hexadecimal digits, the same until the file is finished. */
  readonly token: string;
  /** Whether the row of the file was created. A begun file without a row is finished. */
  readonly isBegun: boolean;
  /** Identifies the process that has claimed the file: 12 hexadecimal digits. */
  readonly claimant: string;
  /** Time of the claim, in milliseconds since 1970. Only for people to read. */
  readonly timeMs: number;
  /** The name as dropped. */
  readonly name: string;
}

/** The claimant in the name of a released claim. */
export const NO_CLAIMANT = '0'.repeat(12);

export function newToken(): string {
  return randomBytes(16).toString('hex');
}

export function newClaimant(): string {
  return randomBytes(6).toString('hex');
}

export function formatClaim({ token, isBegun, claimant, timeMs, name }: Claim): string {
  return `${token}.${isBegun ? 'b' : 'c'}.${claimant}.${timeMs.toString(36)}~${name}`;
}

/** Parses a file name in `processing`. Returns undefined when it is not the name of a claim. */
export function parseClaim(text: string): Claim | undefined {
  const match = /^([0-9a-f]{32})\.([bc])\.([0-9a-f]{12})\.([0-9a-z]{1,11})~(.+)$/s.exec(text);
  if (!match) return undefined;
  const [, token, state, claimant, time, name] = match as unknown as [string, string, string, string, string, string];
  return { token, isBegun: state === 'b', claimant, timeMs: Number.parseInt(time, 36), name };
}
