/** Bytes that are written often, stored as 32-bit words: copying takes a quarter of the steps of a copy by bytes. */
export interface FixedBytes {
  readonly words: Int32Array;
  /** Number of meaningful bytes. `putFixed` writes up to three more bytes behind them. */
  readonly length: number;
}

/** Maximum number of bytes that `putFixed` writes beyond `length`. */
export const FIXED_EXCESS = 3;

export function fixedBytes(...byteStrings: readonly Uint8Array[]): FixedBytes {
  const bytes = Buffer.concat(byteStrings);
  const paddedBytes = Buffer.alloc((bytes.length + FIXED_EXCESS) & ~FIXED_EXCESS);
  paddedBytes.set(bytes);
  const words = new Int32Array(paddedBytes.length / 4);
  for (let i = 0; i < words.length; i++) words[i] = paddedBytes.readInt32BE(i * 4);
  return { words, length: bytes.length };
}

/** Writes the bytes at `offset` and returns the offset behind them. Needs `FIXED_EXCESS` more bytes of room. */
export function putFixed(view: DataView, offset: number, { words, length }: FixedBytes): number {
  for (let i = 0, outEnd = offset; i < words.length; i++, outEnd += 4) view.setInt32(outEnd, words[i]!);
  return offset + length;
}

/** Most bytes that are copied in a loop. A call of `set` costs as much as a loop over this many bytes. */
const MAX_LOOP_BYTES = 64;

/** Writes `source` at `offset` and returns the offset behind it. */
export function putBytes(bytes: Uint8Array, offset: number, source: Uint8Array): number {
  const n = source.length;
  if (n > MAX_LOOP_BYTES) bytes.set(source, offset);
  else for (let i = 0; i < n; i++) bytes[offset + i] = source[i]!;
  return offset + n;
}
