/** Bytes of the identifier and length octets before `length` content octets. */
export function headerBytes(length: number): number {
  if (length < 0x80) return 2;
  if (length < 0x100) return 3;
  if (length < 0x10000) return 4;
  return length < 0x1000000 ? 5 : 6;
}

/** Bytes of the INTEGER element of a number that is not negative. */
export function integerBytes(value: number): number {
  if (value < 0x80) return 3;
  if (value < 0x8000) return 4;
  return value < 0x800000 ? 5 : 6;
}

/** Bytes of an element with `length` content octets. */
export function elementBytes(length: number): number {
  return headerBytes(length) + length;
}
