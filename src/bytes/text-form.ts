const CR = 0x0d;
const LF = 0x0a;

/** The error for a text in UTF-16, with or without byte order mark, by its first two bytes; else undefined. */
export function utf16Problem([first, second]: Buffer): string | undefined {
  const hasByteOrderMark = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
  const isAsciiPair = second !== undefined && (first === 0) !== (second === 0);
  if (!hasByteOrderMark && !isAsciiPair) return undefined;
  const encoding = hasByteOrderMark ? 'UTF-16' : first === 0 ? 'UTF-16BE' : 'UTF-16LE';
  return `the text is UTF-16; convert it with iconv -f ${encoding} -t UTF-8`;
}

export const CR_ALONE = "the line ends are CR alone; convert them to LF, with tr '\\r' '\\n'";

export const CR_DOUBLED = "the line ends are CR CR LF; take the CRs out, with tr -d '\\r'";

/** The error for a CR in `bytes[start, end)` that is neither part of a CRLF nor the last byte; else undefined. */
export function crProblem(bytes: Buffer, start: number, end: number): string | undefined {
  let problem: string | undefined;
  for (let offset = bytes.indexOf(CR, start); offset >= 0 && offset < end; offset = bytes.indexOf(CR, offset + 1)) {
    const firstCr = offset;
    while (bytes[offset + 1] === CR) offset++;
    if (offset + 1 < bytes.length && bytes[offset + 1] !== LF) return CR_ALONE;
    if (offset > firstCr) problem = CR_DOUBLED;
  }
  return problem;
}
