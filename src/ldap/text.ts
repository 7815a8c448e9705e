/** Longer texts are encoded by the runtime: a call costs as much as a loop over so many characters. */
const SHORT = 64;

/** UTF-8 of a text: `Buffer.from`, at a fraction of its cost where the text is short and ASCII, as names are. */
export function utf8Bytes(text: string): Buffer {
  const n = text.length;
  if (n > SHORT) return Buffer.from(text);
  const bytes = Buffer.allocUnsafe(n);
  for (let i = 0; i < n; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x80) return Buffer.from(text);
    bytes[i] = code;
  }
  return bytes;
}
