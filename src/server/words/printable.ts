const MAX_LENGTH = 200;

/** Returns text from the network for a log: control characters escaped, cut to `MAX_LENGTH` characters. */
export function printable(text: string): string {
  const shortened = text.length > MAX_LENGTH ? text.slice(0, MAX_LENGTH) + '…' : text;
  return shortened.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
