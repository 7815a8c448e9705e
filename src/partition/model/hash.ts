const FNV_OFFSET = 0x811c9dc5;

/** Returns the 32-bit FNV-1a hash of the range, continued from `hash`. Faster than native code for short keys. */
export function hashBytes(bytes: Buffer, start = 0, end = bytes.length, hash = FNV_OFFSET): number {
  let result = hash;
  for (let i = start; i < end; i++) result = Math.imul(result ^ bytes[i]!, 0x01000193);
  return result;
}
