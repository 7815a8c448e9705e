/** A line of a file, with those that continue it. */
export interface LogicalLine {
  /** Where it begins, from 1. */
  readonly line: number;
  readonly text: string;
}

/**
 * Joins lines with those that begin by white space. LDIF takes one space away (RFC 2849); slapd.conf keeps the white
 * space between words. Comments are left out; blank lines stay, as empty ones.
 */
export function logicalLines(text: string, isLdif: boolean): LogicalLine[] {
  const found: { line: number; text: string }[] = [];
  let comment = false;
  text.split(/\r?\n/).forEach((physical, i) => {
    const last = found.at(-1);
    if (/^[ \t]/.test(physical) && (comment || last?.text)) {
      if (!comment) last!.text += isLdif ? physical.slice(1) : ` ${physical.trim()}`;
      return;
    }
    comment = physical.startsWith('#');
    if (!comment) found.push({ line: i + 1, text: isLdif ? physical : physical.trim() });
  });
  return found;
}
