/** A line of a file, joined with its continuation lines. */
export interface LogicalLine {
  /** Number of the first physical line, from 1. */
  readonly line: number;
  readonly text: string;
}

/**
 * Joins lines with continuation lines, which begin with white space. LDIF removes one space (RFC 2849); slapd.conf
 * keeps white space between words. Comments are dropped; blank lines stay as empty lines.
 */
export function logicalLines(text: string, isLdif: boolean): LogicalLine[] {
  const lines: { line: number; text: string }[] = [];
  let isComment = false;
  text.split(/\r?\n/).forEach((physical, i) => {
    const lastLine = lines.at(-1);
    if (/^[ \t]/.test(physical) && (isComment || lastLine?.text)) {
      if (!isComment) lastLine!.text += isLdif ? physical.slice(1) : ` ${physical.trim()}`;
      return;
    }
    isComment = physical.startsWith('#');
    if (!isComment) lines.push({ line: i + 1, text: isLdif ? physical : physical.trim() });
  });
  return lines;
}
