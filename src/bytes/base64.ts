const INVALID = 64;
const digitValues = new Uint8Array(256).fill(INVALID);
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
for (let i = 0; i < alphabet.length; i++) digitValues[alphabet.charCodeAt(i)] = i;

const PAD = 0x3d;

/**
 * Decodes the base64 text in `text[start, end)` strictly (RFC 4648 §4, padding required). Node's own decoder skips
 * invalid characters, which would silently change a value. On an error the function returns a message, which contains
 * no character of the text.
 */
export function decodeBase64(text: Buffer, start: number, end: number): Buffer | string {
  const textLength = end - start;
  if (textLength === 0) return Buffer.alloc(0);
  const paddingCount = text[end - 1] !== PAD ? 0 : text[end - 2] !== PAD ? 1 : 2;
  const digitsEnd = end - paddingCount;
  if (textLength % 4 !== 0) {
    for (let offset = start; offset < digitsEnd; offset++)
      if (digitValues[text[offset]!] === INVALID) return characterError(offset - start + 1);
    return lengthError(textLength);
  }
  const decoded = Buffer.allocUnsafe((textLength / 4) * 3 - paddingCount);
  let pendingBits = 0;
  let bitCount = 0;
  let length = 0;
  for (let offset = start; offset < digitsEnd; offset++) {
    const digit = digitValues[text[offset]!]!;
    if (digit === INVALID) return characterError(offset - start + 1);
    pendingBits = ((pendingBits << 6) | digit) & 0xffff;
    bitCount += 6;
    if (bitCount >= 8) {
      bitCount -= 8;
      decoded[length++] = pendingBits >> bitCount;
    }
  }
  return decoded;
}

const MIN_DECODED = 64 * 1024;

/** Decodes base64 text that arrives in chunks. As strict as `decodeBase64`, with the same error messages. */
export class Base64Decoder {
  #pendingBits = 0;
  #bitCount = 0;
  /** Characters received so far. */
  #characterCount = 0;
  #paddingCount = 0;
  /** Position of the first invalid character, counted from 1; 0 while there is none. */
  #invalidAt = 0;
  #decoded = Buffer.allocUnsafeSlow(MIN_DECODED);

  /** Decodes the next chunk. The returned bytes are valid until the next call. */
  push(text: Buffer): Buffer {
    if (text.length > this.#decoded.length) this.#decoded = Buffer.allocUnsafeSlow(text.length);
    const decoded = this.#decoded;
    let out = 0;
    let pendingBits = this.#pendingBits;
    let bitCount = this.#bitCount;
    for (let offset = 0; offset < text.length; offset++) {
      const digit = digitValues[text[offset]!]!;
      if (digit === INVALID || this.#paddingCount > 0) {
        this.#takeNonDigit(text[offset]!, this.#characterCount + offset + 1);
        continue;
      }
      pendingBits = ((pendingBits << 6) | digit) & 0xffff;
      bitCount += 6;
      if (bitCount >= 8) {
        bitCount -= 8;
        decoded[out++] = pendingBits >> bitCount;
      }
    }
    this.#pendingBits = pendingBits;
    this.#bitCount = bitCount;
    this.#characterCount += text.length;
    return decoded.subarray(0, out);
  }

  /** Handles a character that is not a base64 digit: padding or an error. */
  #takeNonDigit(character: number, position: number): void {
    if (character === PAD && this.#paddingCount < 2) this.#paddingCount++;
    else if (this.#invalidAt === 0) this.#invalidAt = position - this.#paddingCount;
  }

  /** Ends the text. Returns an error message, or undefined if the whole text was valid. */
  end(): string | undefined {
    if (this.#invalidAt > 0) return characterError(this.#invalidAt);
    return this.#characterCount % 4 === 0 ? undefined : lengthError(this.#characterCount);
  }
}

function lengthError(length: number): string {
  return `the base64 text behind "::" has ${length} characters; the length must be a multiple of 4: add what is missing`;
}

function characterError(position: number): string {
  return `character ${position} of the text behind "::" is not base64; encode it, or write the text behind one ":"`;
}
