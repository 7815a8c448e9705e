const INVALID = 64;
const digits = new Uint8Array(256).fill(INVALID);
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
for (let i = 0; i < alphabet.length; i++) digits[alphabet.charCodeAt(i)] = i;

const PAD = 0x3d;

/**
 * Decodes the base64 text in `text[from, to)` strictly (RFC 4648 §4, padding required). What is wrong comes back as a
 * string: Node's own decoder skips what it does not know, which would change a value without a word.
 */
export function decodeBase64(text: Buffer, from: number, to: number): Buffer | string {
  const length = to - from;
  if (length === 0) return Buffer.alloc(0);
  if (length % 4 !== 0) return `base64 of ${length} characters; the length must be a multiple of 4`;
  const padding = text[to - 1] !== PAD ? 0 : text[to - 2] !== PAD ? 1 : 2;
  const end = to - padding;
  const bytes = Buffer.allocUnsafe((length / 4) * 3 - padding);
  let bits = 0;
  let held = 0;
  let out = 0;
  for (let at = from; at < end; at++) {
    const digit = digits[text[at]!]!;
    if (digit === INVALID) return `character ${at - from + 1} of the base64 text is not base64`;
    bits = ((bits << 6) | digit) & 0xffff;
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes[out++] = bits >> held;
    }
  }
  return bytes;
}
