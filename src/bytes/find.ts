/**
 * Longest part, in bytes, that is searched for with `Buffer.indexOf`, which may compare the whole part again at every
 * byte. Longer parts are searched for with the algorithm of Knuth, Morris and Pratt.
 */
const MAX_SIMPLE_BYTES = 64;

/** Results of `bordersOf` by part, because the same part is searched for in many values. */
const bordersByPart = new WeakMap<Buffer, Int32Array>();

/**
 * Offset of the first occurrence of `part` in `bytes`, at or after `from`, that `accept` approves; -1 if there is none.
 * Occurrences may overlap. The running time is linear in the length of `bytes`, whatever the part.
 */
export function findBytes(bytes: Buffer, part: Buffer, from: number, accept?: (at: number) => boolean): number {
  if (part.length > bytes.length - from) return -1;
  if (part.length > MAX_SIMPLE_BYTES) return findByBorders(bytes, part, from, accept);
  for (let at = bytes.indexOf(part, from); at >= 0; at = bytes.indexOf(part, at + 1)) {
    if (!accept || accept(at)) return at;
  }
  return -1;
}

/** Knuth, Morris and Pratt: a byte is examined again only where the beginning of the part may repeat. */
function findByBorders(bytes: Buffer, part: Buffer, from: number, accept?: (at: number) => boolean): number {
  const borders = bordersByPart.get(part) ?? bordersOf(part);
  let matchedLength = 0;
  for (let i = from; i < bytes.length; i++) {
    const byte = bytes[i];
    while (matchedLength > 0 && byte !== part[matchedLength]) matchedLength = borders[matchedLength - 1]!;
    if (byte === part[matchedLength]) matchedLength++;
    if (matchedLength < part.length) continue;
    const at = i + 1 - matchedLength;
    if (!accept || accept(at)) return at;
    matchedLength = borders[matchedLength - 1]!;
  }
  return -1;
}

/** Failure function: length of the longest proper prefix of the part that ends at the offset, too. */
function bordersOf(part: Buffer): Int32Array {
  const borders = new Int32Array(part.length);
  let matchedLength = 0;
  for (let i = 1; i < part.length; i++) {
    while (matchedLength > 0 && part[i] !== part[matchedLength]) matchedLength = borders[matchedLength - 1]!;
    if (part[i] === part[matchedLength]) matchedLength++;
    borders[i] = matchedLength;
  }
  bordersByPart.set(part, borders);
  return borders;
}
