/**
 * The check at the end of every value that LMDB holds: 32 bits over its key and the bytes before, kept in the machine's
 * byte order as LMDB's own numbers are. It takes a quarter of the time that the copy out of LMDB takes, so it is
 * verified at every read (docs/formats/lmdb.md).
 *
 * Each step (xor, odd multiplication, rotation) is a bijection of what it has in hand and of the word it takes in, so a
 * change of one word is always noticed, any other but once in 2³² times.
 */
export const CHECK_BYTES = 4;

const PRIME = 0x9e3779b1 | 0;
/** Four lanes, which a processor works on at once. */
const LANES = [0x243f6a88 | 0, 0x85a308d3 | 0, 0x13198a2e | 0, 0x03707344 | 0] as const;

/** The value in hand as words, from `start` on; of the read buffer, which stays the same, they are kept. */
let memory: ArrayBufferLike | undefined;
let words: Int32Array = new Int32Array(0);

/** Sets `words`; gives the index of the first one. */
function openWords(bytes: Buffer, length: number): number {
  const { buffer, byteOffset } = bytes;
  if ((byteOffset & 3) !== 0) {
    memory = undefined;
    words = new Int32Array((length + 3) >>> 2);
    bytes.copy(new Uint8Array(words.buffer), 0, 0, length);
    return 0;
  }
  if (buffer !== memory) {
    memory = buffer;
    words = new Int32Array(buffer, 0, buffer.byteLength >>> 2);
  }
  return byteOffset >>> 2;
}

/** The check of the value `bytes[0, length)` under the key `keys[from, to)`. */
export function checkOf(keys: Buffer, from: number, to: number, bytes: Buffer, length: number): number {
  let a: number = LANES[0];
  let b: number = LANES[1];
  let c: number = LANES[2];
  let d: number = LANES[3];
  let at = from;
  for (; at + 4 <= to; at += 4) {
    const word = keys[at]! | (keys[at + 1]! << 8) | (keys[at + 2]! << 16) | (keys[at + 3]! << 24);
    a = rotated(Math.imul(a ^ word, PRIME));
  }
  for (; at < to; at++) b = rotated(Math.imul(b ^ keys[at]!, PRIME));
  let i = openWords(bytes, length);
  const run = words;
  const end = i + (length >>> 2);
  for (const last = end - 3; i < last; i += 4) {
    a = rotated(Math.imul(a ^ run[i]!, PRIME));
    b = rotated(Math.imul(b ^ run[i + 1]!, PRIME));
    c = rotated(Math.imul(c ^ run[i + 2]!, PRIME));
    d = rotated(Math.imul(d ^ run[i + 3]!, PRIME));
  }
  for (; i < end; i++) a = rotated(Math.imul(a ^ run[i]!, PRIME));
  for (let rest = length & ~3; rest < length; rest++) c = rotated(Math.imul(c ^ bytes[rest]!, PRIME));
  b = Math.imul(b ^ rotated(a), PRIME);
  d = Math.imul(d ^ rotated(c), PRIME);
  const all = Math.imul(rotated(b) ^ d ^ length, PRIME);
  return all ^ (all >>> 15);
}

function rotated(word: number): number {
  return (word << 13) | (word >>> 19);
}

/** Where values are put together with their checks; longer ones get their own memory. */
let scratch = Buffer.allocUnsafeSlow(32 * 1024);

/** Shorter values are copied here, longer ones by the runtime, whose call costs as much. */
const LOOP = 64;

/** A value and the check behind it: `bytes[0, length)`, good until the next one is made. */
export interface Sealed {
  bytes: Buffer;
  length: number;
}

const last: Sealed = { bytes: scratch, length: 0 };

/** The value `bytes[start, end)` under `keys[from, to)`, with its check. */
export function sealRun(keys: Buffer, from: number, to: number, bytes: Buffer, start: number, end: number): Sealed {
  const length = end - start;
  if (length + CHECK_BYTES > scratch.length) scratch = Buffer.allocUnsafeSlow(2 * length);
  const out = scratch;
  if (length > LOOP) bytes.copy(out, 0, start, end);
  else for (let i = 0; i < length; i++) out[i] = bytes[start + i]!;
  out.writeInt32LE(checkOf(keys, from, to, out, length), length);
  last.bytes = out;
  last.length = length + CHECK_BYTES;
  return last;
}

/** The same as a buffer; good until the next one is made. */
export function sealed(key: Buffer, value: Buffer): Buffer {
  const { bytes, length } = sealRun(key, 0, key.length, value, 0, value.length);
  return bytes.subarray(0, length);
}

/** Whether `bytes[0, length)`, read under the key, ends with its check. By elements: right in LMDB's read buffer. */
export function isSound(keys: Buffer, from: number, to: number, bytes: Buffer, length: number): boolean {
  const end = length - CHECK_BYTES;
  if (end < 0) return false;
  const check = bytes[end]! | (bytes[end + 1]! << 8) | (bytes[end + 2]! << 16) | (bytes[end + 3]! << 24);
  return check === checkOf(keys, from, to, bytes, end);
}
