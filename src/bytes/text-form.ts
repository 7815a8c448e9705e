const CR = 0x0d;
const LF = 0x0a;

/** What a text whose first two bytes are these is told; undefined where it is not UTF-16, with or without its mark. */
export function utf16Problem([first, second]: Buffer): string | undefined {
  const isMarked = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
  const isAscii = second !== undefined && (first === 0) !== (second === 0);
  if (!isMarked && !isAscii) return undefined;
  const form = isMarked ? 'UTF-16' : first === 0 ? 'UTF-16BE' : 'UTF-16LE';
  return `the text is UTF-16; convert it with iconv -f ${form} -t UTF-8`;
}

export const CR_ALONE = "the line ends are CR alone; convert them to LF, with tr '\\r' '\\n'";

/** Whether a CR in `bytes[from, to)` is no part of a CRLF. */
export function hasLoneCr(bytes: Buffer, from: number, to: number): boolean {
  for (let at = bytes.indexOf(CR, from); at >= 0 && at < to; at = bytes.indexOf(CR, at + 1))
    if (bytes[at + 1] !== LF) return true;
  return false;
}
