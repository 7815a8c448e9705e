const MAX_LENGTH = 200;

/** Returns text from the network for a log: control and bidi characters escaped, cut to `maxLength` characters. */
export function printable(text: string, maxLength = MAX_LENGTH): string {
  const shortened = text.length > maxLength ? text.slice(0, maxLength) + '…' : text;
  return shortened.replace(
    /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
