import { isUtf8 } from 'node:buffer';

/** Checks of character syntaxes (RFC 4517 §3.3). Each makes one pass; messages do not contain the value. */

export type Check = (value: Buffer) => string | undefined;

const SPACE = 0x20;
const HYPHEN = 0x2d;
const DOLLAR = 0x24;
const BACKSLASH = 0x5c;

function byteTable(...ranges: (string | [number, number])[]): Uint8Array {
  const table = new Uint8Array(256);
  for (const range of ranges) {
    if (typeof range === 'string') for (const byte of Buffer.from(range, 'latin1')) table[byte] = 1;
    else table.fill(1, range[0], range[1] + 1);
  }
  return table;
}

const DIGITS: [number, number] = [0x30, 0x39];
const LETTERS: [number, number][] = [
  [0x41, 0x5a],
  [0x61, 0x7a],
];
const PRINTABLE_BYTES = byteTable(DIGITS, ...LETTERS, " '()+,-./:?=");
const NUMERIC_BYTES = byteTable(DIGITS, ' ');
const DESCRIPTOR_BYTES = byteTable(DIGITS, ...LETTERS, '-');

/** Returns the offset of the first byte in the range that is not in the table, or -1. */
function firstOutside(value: Buffer, table: Uint8Array, start = 0, end = value.length): number {
  for (let i = start; i < end; i++) if (table[value[i]!] === 0) return i;
  return -1;
}

function checkBytes(value: Buffer, table: Uint8Array, label: string): string | undefined {
  if (value.length === 0) return 'is empty';
  const offset = firstOutside(value, table);
  return offset < 0 ? undefined : `byte ${offset + 1} is not ${label}`;
}

export function checkOctets(): undefined {
  return undefined;
}

const MAX_LOOP_BYTES = 128;

/** UTF-8 with at least one character. */
export function checkDirectoryString(value: Buffer): string | undefined {
  const n = value.length;
  if (n === 0) return 'is empty; at least one character is needed';
  if (n <= MAX_LOOP_BYTES) {
    let i = 0;
    while (i < n && value[i]! < 0x80) i++;
    if (i === n) return undefined;
  }
  return isUtf8(value) ? undefined : 'is not UTF-8';
}

export function checkIa5(value: Buffer): string | undefined {
  for (let i = 0; i < value.length; i++) if (value[i]! >= 0x80) return `byte ${i + 1} is not an ASCII character`;
  return undefined;
}

export function checkPrintable(value: Buffer): string | undefined {
  return checkBytes(value, PRINTABLE_BYTES, "a printable-string character (letters, digits, space and '()+,-./:?=)");
}

export function checkNumericString(value: Buffer): string | undefined {
  return checkBytes(value, NUMERIC_BYTES, 'a digit or space');
}

/** A printable string (RFC 4517 §3.3.31) with characters other than spaces and hyphens. */
export function checkTelephone(value: Buffer): string | undefined {
  const wrong = checkPrintable(value);
  if (wrong) return wrong;
  for (let i = 0; i < value.length; i++) if (value[i] !== SPACE && value[i] !== HYPHEN) return undefined;
  return 'has no digit';
}

export function checkCountry(value: Buffer): string | undefined {
  if (value.length !== 2) return 'is not a country code of two letters';
  return checkBytes(value, PRINTABLE_BYTES, 'a printable-string character');
}

export function checkBoolean(value: Buffer): string | undefined {
  const text = value.length <= 5 ? value.toString('latin1') : '';
  return text === 'TRUE' || text === 'FALSE' ? undefined : 'is not TRUE or FALSE, in capital letters';
}

/** Syntax: `'0101'B`. */
export function checkBitString(value: Buffer): string | undefined {
  const n = value.length;
  const isQuoted = n >= 3 && value[0] === 0x27 && value[n - 2] === 0x27 && value[n - 1] === 0x42;
  if (!isQuoted) return "is not a bit string like '0101'B";
  for (let i = 1; i < n - 2; i++) {
    if (value[i] !== 0x30 && value[i] !== 0x31) return `byte ${i + 1} of the bit string is not 0 or 1`;
  }
  return undefined;
}

/** Whether the range is a numeric OID: at least two arcs without leading zeros, separated by dots. */
export function isNumericOid(value: Buffer, start = 0, end = value.length): boolean {
  let arcs = 0;
  for (let i = start; i <= end; i++) {
    const arcStart = i;
    while (i < end && value[i]! >= 0x30 && value[i]! <= 0x39) i++;
    if (i === arcStart || (i - arcStart > 1 && value[arcStart] === 0x30)) return false;
    if (i < end && value[i] !== 0x2e) return false;
    arcs++;
  }
  return arcs >= 2;
}

function isDescriptor(value: Buffer, start: number, end: number): boolean {
  const firstLetter = (value[start] ?? 0) | 0x20;
  return (
    end > start && firstLetter >= 0x61 && firstLetter <= 0x7a && firstOutside(value, DESCRIPTOR_BYTES, start, end) < 0
  );
}

/** numericoid or descr (RFC 4512 §1.4). */
export function checkOid(value: Buffer): string | undefined {
  if (isDescriptor(value, 0, value.length) || isNumericOid(value)) return undefined;
  return 'is not an object identifier: a name or dotted numbers';
}

const MAX_LINES = 1000;
const TOO_MANY = 'has more than 1,000 parts between dollar signs';

/** Returns the offsets of the lines of a value, which `$` separates; undefined for more than 1,000 lines. */
export function splitDollarLines(value: Buffer): { start: number; end: number }[] | undefined {
  const lines: { start: number; end: number }[] = [];
  let start = 0;
  for (let offset = value.indexOf(DOLLAR); offset >= 0; offset = value.indexOf(DOLLAR, start)) {
    if (lines.length === MAX_LINES - 1) return undefined;
    lines.push({ start, end: offset });
    start = offset + 1;
  }
  lines.push({ start, end: value.length });
  return lines;
}

/** Directory strings separated by `$`, with escapes `\24` and `\5C` (§3.3.28). Empty lines are common. */
export function checkPostalAddress(value: Buffer): string | undefined {
  if (value.length === 0) return 'is empty';
  if (!isUtf8(value)) return 'is not UTF-8';
  if (!splitDollarLines(value)) return TOO_MANY;
  for (let offset = value.indexOf(BACKSLASH); offset >= 0; offset = value.indexOf(BACKSLASH, offset + 1)) {
    const escapedCode = value.toString('latin1', offset + 1, offset + 3);
    if (!/^(?:24|5c)$/i.test(escapedCode))
      return `byte ${offset + 1}: a backslash is written \\5C and a dollar sign \\24`;
  }
  return undefined;
}

const DELIVERY = new Set([
  'any',
  'mhs',
  'physical',
  'telex',
  'teletex',
  'g3fax',
  'g4fax',
  'ia5',
  'videotex',
  'telephone',
]);

/** Delivery methods separated by `$` (§3.3.5), in any case, like ABNF literals. */
export function checkDeliveryMethod(value: Buffer): string | undefined {
  if (value.length > 1024) return 'is too long';
  const unknown = value
    .toString('latin1')
    .split('$')
    .find((method) => !DELIVERY.has(method.trim().toLowerCase()));
  return unknown === undefined ? undefined : `names a method other than ${[...DELIVERY].join(', ')}`;
}

const FAX = new Set([
  'twodimensional',
  'fineresolution',
  'unlimitedlength',
  'b4length',
  'a3width',
  'b4width',
  'uncompressed',
]);

/** Telephone number and fax parameters, separated by `$` (§3.3.11). */
export function checkFaxNumber(value: Buffer): string | undefined {
  const [number, ...parameters] = splitDollarLines(value) ?? [];
  if (!number) return TOO_MANY;
  for (const { start, end } of parameters) {
    if (!FAX.has(value.toString('latin1', start, Math.min(end, start + 32)).toLowerCase()))
      return 'has an unknown fax parameter';
  }
  return checkTelephone(value.subarray(number.start, number.end));
}

const TELETEX = /^(?:graphic|control|misc|page|private):/s;

/** Terminal identifier and parameters `key:value`, separated by `$` (§3.3.32). */
export function checkTeletex(value: Buffer): string | undefined {
  const [terminal, ...parameters] = splitDollarLines(value) ?? [];
  if (!terminal) return TOO_MANY;
  const areKnown = parameters.every(({ start }) => TELETEX.test(value.toString('latin1', start, start + 16)));
  if (!areKnown) return 'has an unknown teletex parameter';
  return checkPrintable(value.subarray(terminal.start, terminal.end));
}

/** Number, country and answerback as printable strings, separated by `$` (§3.3.33). */
export function checkTelex(value: Buffer): string | undefined {
  const lines = splitDollarLines(value);
  if (lines?.length !== 3) return 'is not number$country$answerback';
  for (const { start, end } of lines) {
    const wrong = checkPrintable(value.subarray(start, end));
    if (wrong) return wrong;
  }
  return undefined;
}

/** Mailbox type as printable string, `$`, mailbox in IA5 (§3.3.27). */
export function checkOtherMailbox(value: Buffer): string | undefined {
  const dollar = value.indexOf(DOLLAR);
  if (dollar < 1) return 'is not type$mailbox';
  return checkPrintable(value.subarray(0, dollar)) ?? checkIa5(value.subarray(dollar + 1));
}

/** Accepts any non-empty value: pictures in other formats are common, and clients can display them. */
export function checkJpeg(value: Buffer): string | undefined {
  return value.length === 0 ? 'is empty' : undefined;
}

/** `host,user,domain` in parentheses. Each part may be empty or `-` (RFC 2307 §2.4). */
export function checkNetgroupTriple(value: Buffer): string | undefined {
  const n = value.length;
  const commas = value.toString('latin1', 0, Math.min(n, 2048)).split(',').length - 1;
  const isParenthesized = n > 1 && n <= 2048 && value[0] === 0x28 && value[n - 1] === 0x29;
  if (!isParenthesized || commas !== 2) return 'is not a netgroup triple (host,user,domain)';
  return checkIa5(value);
}

/** `key=server:path` (RFC 2307 §2.4). */
export function checkBootParameter(value: Buffer): string | undefined {
  const equals = value.indexOf(0x3d);
  const colon = value.indexOf(0x3a, equals + 1);
  if (equals < 1 || colon < 0) return 'is not a boot parameter key=server:path';
  return checkIa5(value);
}

/** Checks Guide and Enhanced Guide (RFC 4517 §3.3.14, §3.3.10): suggested search attributes for a class. */

const MAX_GUIDE = 65536;

/** A whole term, or `!` or `(` at the beginning of a term. Spaces are allowed as in RFC 2252 §6.15. */
const TERM = / *(?:([!(])|\?(?:true|false)|(?:[a-z][a-z0-9-]*|\d+(?:\.\d+)+) *\$ *(?:eq|substr|ge|le|approx)) */iy;

/** Whether the text is made of terms, `&`, `|`, `!` and parentheses. Makes one pass at any nesting depth. */
function isCriteria(text: string): boolean {
  let depth = 0;
  for (let offset = 0; offset < text.length; ) {
    TERM.lastIndex = offset;
    const term = TERM.exec(text);
    if (!term) return false;
    offset = TERM.lastIndex;
    if (term[1] === '(') depth++;
    if (term[1]) continue;
    for (; text[offset] === ')' || text[offset] === ' '; offset++) if (text[offset] === ')') depth--;
    if (depth < 0) return false;
    if (offset === text.length) return depth === 0;
    if (text[offset] !== '&' && text[offset] !== '|') return false;
    offset++;
  }
  return false;
}

function isClass(text: string): boolean {
  return checkOid(Buffer.from(text.trim())) === undefined;
}

export function checkGuide(value: Buffer): string | undefined {
  if (value.length > MAX_GUIDE) return 'is too long';
  const sections = value.toString('latin1').split('#');
  const criteria = sections.pop()!;
  if (sections.length <= 1 && sections.every(isClass) && isCriteria(criteria)) return undefined;
  return 'is not a guide like person#sn$EQ';
}

export function checkEnhancedGuide(value: Buffer): string | undefined {
  if (value.length > MAX_GUIDE) return 'is too long';
  const [className, criteria, subset, ...extraSections] = value.toString('latin1').split('#');
  const isSubset = subset !== undefined && /^ *(?:baseobject|oneLevel|wholeSubtree) *$/i.test(subset);
  if (isSubset && extraSections.length === 0 && isClass(className!) && isCriteria(criteria!)) return undefined;
  return 'is not an enhanced guide like person#(sn$EQ)#oneLevel';
}
