import { randomBytes } from 'node:crypto';

/** What the name of a file says. */
export interface FileName {
  /** As it was dropped. */
  readonly name: string;
  readonly id: string;
  /** The higher the earlier, 0 to 9. */
  readonly priority: number;
  readonly class: string;
  /** Milliseconds since 1970; undefined: never. */
  readonly expiry: number | undefined;
  readonly correlation: string;
  readonly replyTo: string;
  readonly type: string;
  readonly properties: string;
  readonly isCsv: boolean;
}

/** Bytes of a name: what is put before and behind it must fit into 255. */
export const MAX_NAME = 180;
const DEFAULT_PRIORITY = 4;
/** Of a file whose name another had when it was done. */
const AGAIN = /^[0-9a-f]{8}~/;

/**
 * `priority.id.class.expiry.correlation.replyTo.type.properties`, from the third on as many as there are; a field may
 * have any character as `%` and two hexadecimal digits. Any other name is its own id.
 */
export function parseFileName(given: string): FileName {
  const name = given.replace(AGAIN, '');
  const [priority, id, kind, expiry = '', correlation = '', replyTo = '', type = '', ...properties] = name.split('.');
  const isMessage = /^\d$/.test(priority!) && id && kind !== undefined && /^[A-Za-z]?$/.test(kind);
  const fields = isMessage && /^\d{0,15}$/.test(expiry) ? [id, correlation, replyTo, type].map(decoded) : [undefined];
  const isCsv = /\.csv$/i.test(name) || fields[3]?.toLowerCase() === 'csv';
  if (fields.includes(undefined)) {
    const nothing = { class: '', expiry: undefined, correlation: '', replyTo: '', type: '', properties: '' };
    return { name: given, id: name, priority: DEFAULT_PRIORITY, ...nothing, isCsv };
  }
  return {
    name: given,
    id: fields[0]!,
    priority: Number(priority),
    class: kind!,
    // As in JMS, 0 is never.
    expiry: Number(expiry) === 0 ? undefined : Number(expiry),
    correlation: fields[1]!,
    replyTo: fields[2]!,
    type: fields[3]!,
    properties: properties.join('.'),
    isCsv,
  };
}

function decoded(field: string): string | undefined {
  try {
    return decodeURIComponent(field);
  } catch {
    return undefined;
  }
}

/** What is wrong with a name; undefined: nothing. */
export function nameFault(name: Buffer): string | undefined {
  const text = name.toString();
  if (!Buffer.from(text).equals(name)) return 'its name is not UTF-8; rename it';
  if (/\p{Cc}/u.test(text)) return 'its name has a control character; rename it';
  if (parseClaim(text))
    return 'its name is one that files have in processing, and its records may have been applied; rename it if they shall be';
  if (name.length > MAX_NAME) return `its name has ${name.length} bytes, and may have ${MAX_NAME}; rename it`;
  return undefined;
}

/** The name of a file in `processing`: who has claimed it, and how far that is. */
export interface Claim {
  /** Of the delivery: 32 hexadecimal digits, the same until the file is done. */
  readonly token: string;
  /** Whether the row of the file was made: if it is not there, the file is done. */
  readonly begun: boolean;
  /** 12 hexadecimal digits. */
  readonly claimant: string;
  /** When, for people: milliseconds since 1970. */
  readonly time: number;
  /** As it was dropped. */
  readonly name: string;
}

/** Claimant of a file that who had it has left to others. */
export const NOBODY = '0'.repeat(12);

export function newToken(): string {
  return randomBytes(16).toString('hex');
}

export function newClaimant(): string {
  return randomBytes(6).toString('hex');
}

export function claimText({ token, begun, claimant, time, name }: Claim): string {
  return `${token}.${begun ? 'b' : 'c'}.${claimant}.${time.toString(36)}~${name}`;
}

/** Undefined: it is the name of no claim. */
export function parseClaim(text: string): Claim | undefined {
  const match = /^([0-9a-f]{32})\.([bc])\.([0-9a-f]{12})\.([0-9a-z]{1,11})~(.+)$/s.exec(text);
  if (!match) return undefined;
  const [, token, state, claimant, time, name] = match as unknown as [string, string, string, string, string, string];
  return { token, begun: state === 'b', claimant, time: Number.parseInt(time, 36), name };
}
