/** Bytes that are written again and again, four in a number: a quarter of the steps that a copy byte by byte takes. */
export interface Fixed {
  readonly words: Int32Array;
  /** Bytes that count. `putFixed` writes up to three more behind them. */
  readonly length: number;
}

/** What `putFixed` may write beyond its bytes. */
export const FIXED_EXCESS = 3;

export function fixed(...parts: readonly Uint8Array[]): Fixed {
  const bytes = Buffer.concat(parts);
  const padded = Buffer.alloc((bytes.length + FIXED_EXCESS) & ~FIXED_EXCESS);
  padded.set(bytes);
  const words = new Int32Array(padded.length / 4);
  for (let i = 0; i < words.length; i++) words[i] = padded.readInt32BE(i * 4);
  return { words, length: bytes.length };
}

/** Writes the bytes at `at`; gives the offset behind them. There must be room for `FIXED_EXCESS` more. */
export function putFixed(view: DataView, at: number, { words, length }: Fixed): number {
  for (let i = 0, to = at; i < words.length; i++, to += 4) view.setInt32(to, words[i]!);
  return at + length;
}

/** Longer runs are copied by the runtime: a call costs as much as a loop over so many bytes. */
const LOOP = 64;

/** Writes `from` at `at`; gives the offset behind it. */
export function putBytes(bytes: Uint8Array, at: number, from: Uint8Array): number {
  const n = from.length;
  if (n > LOOP) bytes.set(from, at);
  else for (let i = 0; i < n; i++) bytes[at + i] = from[i]!;
  return at + n;
}
