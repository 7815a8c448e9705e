import { randomFillSync } from 'node:crypto';
import { v4, v7 } from 'uuid';

/** Random bytes for many UUIDs: a call of the generator for each would cost as much as making the UUID. */
const pool = Buffer.alloc(16 * 256);
let poolOffset = pool.length;
/** Random bytes of the UUID that is being made. Reused. */
const uuidBytes = Buffer.alloc(16);

function randomBytes16(): Uint8Array {
  if (poolOffset === pool.length) {
    randomFillSync(pool);
    poolOffset = 0;
  }
  for (let i = 0; i < uuidBytes.length; i++) uuidBytes[i] = pool[poolOffset + i]!;
  poolOffset += uuidBytes.length;
  return uuidBytes;
}

let lastMs = 0;
let sequence = 0;

/**
 * Returns a new entryUUID of 16 bytes. Version 7 by default: within a process the UUIDs rise, so that the embedded
 * store appends (RFC 9562 §5.7, §6.2 method 1). Version 4 (§5.4) if the store spreads rows over servers.
 */
export function newUuid(isSpread = false): Buffer {
  if (isSpread) return v4({ rng: randomBytes16 }, Buffer.allocUnsafe(16));
  const now = Date.now();
  if (now > lastMs) {
    lastMs = now;
    sequence = Math.floor(Math.random() * 0x40000000);
  } else sequence++;
  return v7({ rng: randomBytes16, msecs: lastMs, seq: sequence }, Buffer.allocUnsafe(16));
}

/** Returns the text form in lower case (RFC 4530), also for UUIDs of other servers, of any version. */
export function uuidText(id: Buffer): string {
  const hex = id.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const DIGITS = Buffer.from('0123456789abcdef');
const HYPHENS = [8, 13, 18, 23];

export function uuidTextBytes(id: Buffer): Buffer {
  const text = Buffer.allocUnsafe(36);
  for (const offset of HYPHENS) text[offset] = 0x2d;
  for (let i = 0, target = 0; i < 16; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) target++;
    text[target++] = DIGITS[id[i]! >> 4]!;
    text[target++] = DIGITS[id[i]! & 15]!;
  }
  return text;
}

export function isUuid(text: string): boolean {
  return /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text);
}

/** Parses the text form. Throws `TypeError` if the text is not a UUID. */
export function parseUuid(text: string): Buffer {
  if (!isUuid(text)) throw new TypeError('not a UUID');
  return Buffer.from(text.replaceAll('-', ''), 'hex');
}
