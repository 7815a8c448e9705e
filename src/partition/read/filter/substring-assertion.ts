export interface Substrings {
  readonly initial: Buffer | undefined;
  readonly any: readonly Buffer[];
  readonly final: Buffer | undefined;
}

/** The most parts (initial, any, final) of an assertion. More are refused. */
const MAX_PARTS = 1000;
const ASTERISK = 0x2a;
const BACKSLASH = 0x5c;

/** Returns the offsets of the asterisks, at most `MAX_PARTS` + 1. */
function asteriskOffsets(value: Buffer): number[] {
  const offsets: number[] = [];
  for (let offset = value.indexOf(ASTERISK); offset >= 0; offset = value.indexOf(ASTERISK, offset + 1)) {
    if (offsets.push(offset) > MAX_PARTS) break;
  }
  return offsets;
}

/** Replaces `\2A` and `\5C` by `*` and `\`. Returns undefined for a backslash without escape. */
function decodeEscapes(part: Buffer): Buffer | undefined {
  if (!part.includes(BACKSLASH)) return part;
  const text = part.toString('latin1');
  if (/\\(?!2a|5c)/i.test(text)) return undefined;
  return Buffer.from(
    text.replace(/\\(2a|5c)/gi, (_, code: string) => (code === '5c' || code === '5C' ? '\\' : '*')),
    'latin1',
  );
}

/**
 * Parses a SubstringAssertion (RFC 4517 §3.3.30), the assertion of a substrings rule in an extensible match. Returns
 * undefined if the value has no asterisk, too many or only asterisks, or an empty part between two.
 */
export function parseSubstrings(value: Buffer): Substrings | undefined {
  const offsets = asteriskOffsets(value);
  if (offsets.length === 0 || offsets.length > MAX_PARTS || value.length === offsets.length) return undefined;
  const parts: Buffer[] = [];
  for (let i = 0; i <= offsets.length; i++) {
    const part = decodeEscapes(value.subarray(i === 0 ? 0 : offsets[i - 1]! + 1, offsets[i] ?? value.length));
    if (!part || (part.length === 0 && i > 0 && i < offsets.length)) return undefined;
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
