/** Percent-decodes text. Returns undefined if the encoding is malformed. */
export function decodePercent(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
}

/** Longer texts (in UTF-16 units) are encoded by a call of the runtime, which is then cheaper than a loop. */
const MAX_LOOP_LENGTH = 64;

/** Returns the text in UTF-8, like `Buffer.from`. Much cheaper for short ASCII texts such as names. */
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
