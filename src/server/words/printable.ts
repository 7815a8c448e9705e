const LONGEST = 200;

/** Text from the network as it may stand in a log: control characters escaped, cut to `LONGEST` characters. */
export function printable(text: string): string {
  const cut = text.length > LONGEST ? text.slice(0, LONGEST) + '…' : text;
  return cut.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
