/**
 * The checksum at the end of every stored value: 32 bits over the key and the value, in host byte order like LMDB's own
 * numbers. Computing the checksum takes a quarter of the time of the copy out of LMDB, so every read verifies it
 * (docs/formats/lmdb.md).
 *
 * Each step (xor, odd multiplication, rotation) is a bijection of the state and of the next input word. So a change of
 * a single word is always detected; any other change is missed once in 2³² times.
 */
export const CHECKSUM_BYTES = 4;

const PRIME = 0x9e3779b1 | 0;
/** Initial values of four independent lanes, which a processor computes in parallel. */
const LANE_SEEDS = [0x243f6a88 | 0, 0x85a308d3 | 0, 0x13198a2e | 0, 0x03707344 | 0] as const;

/** The memory that `memoryWords` shows as 32-bit words. Cached, because LMDB's read buffer stays the same. */
let viewedMemory: ArrayBufferLike | undefined;
let memoryWords: Int32Array = new Int32Array(0);

/** Makes `memoryWords` cover the value. Returns the index of the value's first word. */
function openWords(bytes: Buffer, length: number): number {
  const { buffer, byteOffset } = bytes;
  if ((byteOffset & 3) !== 0) {
    viewedMemory = undefined;
    memoryWords = new Int32Array((length + 3) >>> 2);
    bytes.copy(new Uint8Array(memoryWords.buffer), 0, 0, length);
    return 0;
  }
  if (buffer !== viewedMemory) {
    viewedMemory = buffer;
    memoryWords = new Int32Array(buffer, 0, buffer.byteLength >>> 2);
  }
  return byteOffset >>> 2;
}

/** Computes the checksum of the value `bytes[0, length)` with key `keys[keyStart, keyEnd)`. */
export function computeChecksum(keys: Buffer, keyStart: number, keyEnd: number, bytes: Buffer, length: number): number {
  let a: number = LANE_SEEDS[0];
  let b: number = LANE_SEEDS[1];
  let c: number = LANE_SEEDS[2];
  let d: number = LANE_SEEDS[3];
  let offset = keyStart;
  for (; offset + 4 <= keyEnd; offset += 4) {
    const word = keys[offset]! | (keys[offset + 1]! << 8) | (keys[offset + 2]! << 16) | (keys[offset + 3]! << 24);
    a = rotate(Math.imul(a ^ word, PRIME));
  }
  for (; offset < keyEnd; offset++) b = rotate(Math.imul(b ^ keys[offset]!, PRIME));
  let i = openWords(bytes, length);
  const valueWords = memoryWords;
  const end = i + (length >>> 2);
  for (const lastQuad = end - 3; i < lastQuad; i += 4) {
    a = rotate(Math.imul(a ^ valueWords[i]!, PRIME));
    b = rotate(Math.imul(b ^ valueWords[i + 1]!, PRIME));
    c = rotate(Math.imul(c ^ valueWords[i + 2]!, PRIME));
    d = rotate(Math.imul(d ^ valueWords[i + 3]!, PRIME));
  }
  for (; i < end; i++) a = rotate(Math.imul(a ^ valueWords[i]!, PRIME));
  for (let byteIndex = length & ~3; byteIndex < length; byteIndex++)
    c = rotate(Math.imul(c ^ bytes[byteIndex]!, PRIME));
  b = Math.imul(b ^ rotate(a), PRIME);
  d = Math.imul(d ^ rotate(c), PRIME);
  const checksum = Math.imul(rotate(b) ^ d ^ length, PRIME);
  return checksum ^ (checksum >>> 15);
}

function rotate(word: number): number {
  return (word << 13) | (word >>> 19);
}

/** Buffer for a value with its checksum. Grows with longer values. */
let scratch = Buffer.allocUnsafeSlow(32 * 1024);

/** Shorter values are copied byte by byte, because `copy` costs as much as a loop over this many bytes. */
const MAX_LOOP_BYTES = 64;

/** A value and its checksum in `bytes[0, length)`. Valid until the next call of `appendChecksum` or `withChecksum`. */
export interface ChecksummedValue {
  bytes: Buffer;
  length: number;
}

const checksummedValue: ChecksummedValue = { bytes: scratch, length: 0 };

/** Appends the checksum to the value `bytes[start, end)` with key `keys[keyStart, keyEnd)`. */
export function appendChecksum(
  keys: Buffer,
  keyStart: number,
  keyEnd: number,
  bytes: Buffer,
  start: number,
  end: number,
): ChecksummedValue {
  const length = end - start;
  if (length + CHECKSUM_BYTES > scratch.length) scratch = Buffer.allocUnsafeSlow(2 * length);
  const out = scratch;
  if (length > MAX_LOOP_BYTES) bytes.copy(out, 0, start, end);
  else for (let i = 0; i < length; i++) out[i] = bytes[start + i]!;
  out.writeInt32LE(computeChecksum(keys, keyStart, keyEnd, out, length), length);
  checksummedValue.bytes = out;
  checksummedValue.length = length + CHECKSUM_BYTES;
  return checksummedValue;
}

/** Returns the value with its checksum, valid until the next call of `withChecksum` or `appendChecksum`. */
export function withChecksum(key: Buffer, value: Buffer): Buffer {
  const { bytes, length } = appendChecksum(key, 0, key.length, value, 0, value.length);
  return bytes.subarray(0, length);
}

/** Whether `bytes[0, length)` ends with the right checksum. By element access: `bytes` may be LMDB's read buffer. */
export function hasValidChecksum(keys: Buffer, start: number, stop: number, bytes: Buffer, length: number): boolean {
  const end = length - CHECKSUM_BYTES;
  if (end < 0) return false;
  const checksum = bytes[end]! | (bytes[end + 1]! << 8) | (bytes[end + 2]! << 16) | (bytes[end + 3]! << 24);
  return checksum === computeChecksum(keys, start, stop, bytes, end);
}
