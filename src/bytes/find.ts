/** The runtime's own search may compare the whole part again at every byte: longer parts are looked for otherwise. */
const SHORT = 64;

/** `bordersOf` parts: one part is looked for in many values. */
const known = new WeakMap<Buffer, Int32Array>();

/**
 * Offset of the first `part` in `bytes` from `from` on that `accept` takes, -1 when there is none. Parts may overlap.
 * The time grows with the bytes, whatever the part.
 */
export function findBytes(bytes: Buffer, part: Buffer, from: number, accept?: (at: number) => boolean): number {
  if (part.length > bytes.length - from) return -1;
  if (part.length > SHORT) return findLong(bytes, part, from, accept);
  for (let at = bytes.indexOf(part, from); at >= 0; at = bytes.indexOf(part, at + 1)) {
    if (!accept || accept(at)) return at;
  }
  return -1;
}

/** Knuth, Morris and Pratt: no byte is looked at again but for those that the part's beginning repeats. */
function findLong(bytes: Buffer, part: Buffer, from: number, accept?: (at: number) => boolean): number {
  const borders = known.get(part) ?? bordersOf(part);
  let same = 0;
  for (let i = from; i < bytes.length; i++) {
    const byte = bytes[i];
    while (same > 0 && byte !== part[same]) same = borders[same - 1]!;
    if (byte === part[same]) same++;
    if (same < part.length) continue;
    const at = i + 1 - same;
    if (!accept || accept(at)) return at;
    same = borders[same - 1]!;
  }
  return -1;
}

/** How many bytes before each offset, itself included, the part begins with, too: all of them do not count. */
function bordersOf(part: Buffer): Int32Array {
  const borders = new Int32Array(part.length);
  let same = 0;
  for (let i = 1; i < part.length; i++) {
    while (same > 0 && part[i] !== part[same]) same = borders[same - 1]!;
    if (part[i] === part[same]) same++;
    borders[i] = same;
  }
  known.set(part, borders);
  return borders;
}
