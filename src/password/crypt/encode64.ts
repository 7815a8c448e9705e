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
