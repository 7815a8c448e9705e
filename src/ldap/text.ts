/** Longest text, in UTF-16 units, to encode in a loop. For longer texts a call of the runtime is cheaper. */
const MAX_LOOP_LENGTH = 64;

/** The text in UTF-8, like `Buffer.from`. Much cheaper for short ASCII texts such as names. */
export function utf8Bytes(text: string): Buffer {
  const n = text.length;
  if (n > MAX_LOOP_LENGTH) return Buffer.from(text);
  const bytes = Buffer.allocUnsafe(n);
  for (let i = 0; i < n; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x80) return Buffer.from(text);
    bytes[i] = code;
  }
  return bytes;
}
