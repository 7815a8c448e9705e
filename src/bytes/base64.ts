const INVALID = 64;
const digits = new Uint8Array(256).fill(INVALID);
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
for (let i = 0; i < alphabet.length; i++) digits[alphabet.charCodeAt(i)] = i;

const PAD = 0x3d;

/**
 * Decodes the base64 text in `text[from, to)` strictly (RFC 4648 §4, padding required). Node's own decoder skips
 * invalid characters, which would silently change a value. On an error the function returns a message, which contains
 * no character of the text.
 */
export function decodeBase64(text: Buffer, from: number, to: number): Buffer | string {
  const length = to - from;
  if (length === 0) return Buffer.alloc(0);
  const padding = text[to - 1] !== PAD ? 0 : text[to - 2] !== PAD ? 1 : 2;
  const end = to - padding;
  if (length % 4 !== 0) {
    for (let at = from; at < end; at++) if (digits[text[at]!] === INVALID) return badCharacter(at - from + 1);
    return badLength(length);
  }
  const bytes = Buffer.allocUnsafe((length / 4) * 3 - padding);
  let bits = 0;
  let held = 0;
  let out = 0;
  for (let at = from; at < end; at++) {
    const digit = digits[text[at]!]!;
    if (digit === INVALID) return badCharacter(at - from + 1);
    bits = ((bits << 6) | digit) & 0xffff;
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes[out++] = bits >> held;
    }
  }
  return bytes;
}

const DECODED = 64 * 1024;

/** Decodes base64 text that arrives in parts. As strict as `decodeBase64`, with the same error messages. */
export class Base64Decoder {
  #bits = 0;
  #held = 0;
  /** Characters received so far. */
  #count = 0;
  #padding = 0;
  /** Position of the first invalid character, counted from 1; 0 while there is none. */
  #invalidAt = 0;
  #out = Buffer.allocUnsafeSlow(DECODED);

  /** Decodes one more part. The returned bytes are valid until the next call. */
  push(text: Buffer): Buffer {
    if (text.length > this.#out.length) this.#out = Buffer.allocUnsafeSlow(text.length);
    const bytes = this.#out;
    let out = 0;
    let bits = this.#bits;
    let held = this.#held;
    for (let at = 0; at < text.length; at++) {
      const digit = digits[text[at]!]!;
      if (digit === INVALID || this.#padding > 0) {
        this.#takeNonDigit(text[at]!, this.#count + at + 1);
        continue;
      }
      bits = ((bits << 6) | digit) & 0xffff;
      held += 6;
      if (held >= 8) {
        held -= 8;
        bytes[out++] = bits >> held;
      }
    }
    this.#bits = bits;
    this.#held = held;
    this.#count += text.length;
    return bytes.subarray(0, out);
  }

  /** Handles a character that is not a base64 digit: padding or an error. */
  #takeNonDigit(character: number, position: number): void {
    if (character === PAD && this.#padding < 2) this.#padding++;
    else if (this.#invalidAt === 0) this.#invalidAt = position - this.#padding;
  }

  /** Ends the text. Returns an error message, or undefined if the whole text was valid. */
  end(): string | undefined {
    if (this.#invalidAt > 0) return badCharacter(this.#invalidAt);
    return this.#count % 4 === 0 ? undefined : badLength(this.#count);
  }
}

function badLength(length: number): string {
  return `the base64 text behind "::" has ${length} characters; the length must be a multiple of 4: add what is missing`;
}

function badCharacter(position: number): string {
  return `character ${position} of the text behind "::" is not base64; encode it, or write the text behind one ":"`;
}
