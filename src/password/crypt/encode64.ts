const cryptAlphabet = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/**
 * Encodes a digest in the base 64 of crypt(3), least significant six bits first. `order` has groups of up to three
 * indices into the digest, most significant byte first. A group of n bytes gives n + 1 characters.
 */
export function encode64(digest: Buffer, order: readonly (readonly number[])[]): string {
  let text = '';
  for (const group of order) {
    let bits = 0;
    for (const index of group) bits = (bits << 8) | digest[index]!;
    for (let i = 0; i <= group.length; i++) {
      text += cryptAlphabet[bits & 63];
      bits >>= 6;
    }
  }
  return text;
}

/** Returns the number from 0 to 63 that a character of the alphabet stands for, or -1. */
export function digit64(character: string): number {
  return cryptAlphabet.indexOf(character);
}

/** Decodes base 64 as `encode64` writes it. Undefined for text that it does not write. */
export function decode64(text: string): Buffer | undefined {
  const bytes: number[] = [];
  for (let start = 0; start < text.length; start += 4) {
    const group = text.slice(start, start + 4);
    let bits = 0;
    for (let i = 0; i < group.length; i++) bits |= digit64(group[i]!) << (6 * i);
    for (let i = 1; i < group.length; i++, bits >>>= 8) bytes.push(bits & 0xff);
    if (bits !== 0) return undefined;
  }
  return text.length % 4 === 1 ? undefined : Buffer.from(bytes);
}
