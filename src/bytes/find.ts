/**
 * Longest pattern, in bytes, that is searched for by `Buffer.indexOf`, which may compare the whole pattern again at
 * each byte. Longer patterns are searched for with the algorithm of Knuth, Morris and Pratt.
 */
const MAX_SIMPLE_BYTES = 64;

/** Results of `bordersOf` by pattern, because the same pattern is searched for in many values. */
const bordersByPattern = new WeakMap<Buffer, Int32Array>();

/**
 * Offset of the first occurrence of `pattern` in `bytes`, at or after `start`, that `accept` approves, or -1.
 * Occurrences may overlap. The running time is linear in the length of `bytes`, whatever the pattern.
 */
export function findBytes(bytes: Buffer, pattern: Buffer, start: number, accept?: (offset: number) => boolean): number {
  if (pattern.length > bytes.length - start) return -1;
  if (pattern.length > MAX_SIMPLE_BYTES) return findByBorders(bytes, pattern, start, accept);
  for (let offset = bytes.indexOf(pattern, start); offset >= 0; offset = bytes.indexOf(pattern, offset + 1)) {
    if (!accept || accept(offset)) return offset;
  }
  return -1;
}

/** The algorithm of Knuth, Morris and Pratt: on a mismatch, the search goes on with the longest border of the match. */
function findByBorders(bytes: Buffer, pattern: Buffer, start: number, accept?: (offset: number) => boolean): number {
  const borders = bordersByPattern.get(pattern) ?? bordersOf(pattern);
  let matchedLength = 0;
  for (let i = start; i < bytes.length; i++) {
    const byte = bytes[i];
    while (matchedLength > 0 && byte !== pattern[matchedLength]) matchedLength = borders[matchedLength - 1]!;
    if (byte === pattern[matchedLength]) matchedLength++;
    if (matchedLength < pattern.length) continue;
    const offset = i + 1 - matchedLength;
    if (!accept || accept(offset)) return offset;
    matchedLength = borders[matchedLength - 1]!;
  }
  return -1;
}

/** The failure function: by offset, the length of the longest proper prefix of the pattern that also ends there. */
function bordersOf(pattern: Buffer): Int32Array {
  const borders = new Int32Array(pattern.length);
  let matchedLength = 0;
  for (let i = 1; i < pattern.length; i++) {
    while (matchedLength > 0 && pattern[i] !== pattern[matchedLength]) matchedLength = borders[matchedLength - 1]!;
    if (pattern[i] === pattern[matchedLength]) matchedLength++;
    borders[i] = matchedLength;
  }
  bordersByPattern.set(pattern, borders);
  return borders;
}
