/** Parts of a substrings assertion, as a substring filter has them. */
export interface Substrings {
  readonly initial: Buffer | undefined;
  readonly any: readonly Buffer[];
  readonly final: Buffer | undefined;
}

/** More parts are no assertion that anybody means. */
const MAX_PARTS = 1000;
const ASTERISK = 0x2a;
const BACKSLASH = 0x5c;

/** Offsets of the asterisks, no more than are looked at. */
function asterisks(value: Buffer): number[] {
  const found: number[] = [];
  for (let at = value.indexOf(ASTERISK); at >= 0; at = value.indexOf(ASTERISK, at + 1)) {
    if (found.push(at) > MAX_PARTS) break;
  }
  return found;
}

/** `\2A` and `\5C` stand for `*` and `\`; undefined where a backslash begins neither. */
function unescaped(part: Buffer): Buffer | undefined {
  if (!part.includes(BACKSLASH)) return part;
  const text = part.toString('latin1');
  if (/\\(?!2a|5c)/i.test(text)) return undefined;
  return Buffer.from(
    text.replace(/\\(2a|5c)/gi, (_, code: string) => (code === '5c' || code === '5C' ? '\\' : '*')),
    'latin1',
  );
}

/**
 * A SubstringAssertion (RFC 4517 §3.3.30): what a substrings rule is asked with in an extensible match. Undefined when
 * it has no asterisk or too many, an empty part between two, or nothing but asterisks.
 */
export function parseSubstrings(value: Buffer): Substrings | undefined {
  const at = asterisks(value);
  if (at.length === 0 || at.length > MAX_PARTS || value.length === at.length) return undefined;
  const parts: Buffer[] = [];
  for (let i = 0; i <= at.length; i++) {
    const part = unescaped(value.subarray(i === 0 ? 0 : at[i - 1]! + 1, at[i] ?? value.length));
    if (!part || (part.length === 0 && i > 0 && i < at.length)) return undefined;
    parts.push(part);
  }
  const initial = parts[0]!;
  const final = parts[parts.length - 1]!;
  return {
    initial: initial.length > 0 ? initial : undefined,
    any: parts.slice(1, -1),
    final: final.length > 0 ? final : undefined,
  };
}
