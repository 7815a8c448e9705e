import { isUtf8 } from 'node:buffer';
import { findBytes } from '../bytes/find.js';
import { certificateFacts, integerText, parseCertificateAssertion } from './certificate.js';
import { hasAllBits, hasSomeBit, integerBits, normalizeInteger } from './number.js';
import {
  isAtEnd,
  isAtStart,
  type Part,
  pad,
  prepareExact,
  prepareIgnore,
  prepareNumeric,
  preparePartExact,
  preparePartIgnore,
  prepareTelephone,
} from './prepare.js';
import type { MatchingRule } from './schema-types.js';
import {
  type Check,
  checkBitString,
  checkDirectoryString,
  checkIa5,
  checkNumericString,
  checkPostalAddress,
  checkPrintable,
  checkTelephone,
  splitDollarLines,
} from './syntax-text.js';
import { type Context, LDAP_SYNTAX, uidStart } from './syntaxes.js';
import { normalizeCsn, normalizeGeneralizedTime, normalizeUuid } from './time.js';

type Normalize = (value: Buffer) => Buffer | undefined;

/** The implementation of a matching rule. Names and assertion syntax come from the LDIF definition. */
export interface RuleCode {
  readonly kind: MatchingRule['kind'];
  readonly normalize: Normalize;
  /** Default: `normalize`. */
  readonly normalizeAssertion?: Normalize;
  readonly normalizePart?: (part: Buffer, where: Part) => Buffer | undefined;
  readonly pad?: (form: Buffer, where: Part) => Buffer;
  readonly test?: (value: Buffer, assertion: Buffer) => boolean;
  readonly inChain?: true;
  /** Syntaxes of the attributes that may use the rule in an extensible match. */
  readonly appliesTo: readonly string[];
}

const syntaxes = (...arcs: number[]): string[] => arcs.map((arc) => `${LDAP_SYNTAX}.${arc}`);

const STRINGS = syntaxes(11, 15, 44, 50, 13, 19);
const IA5 = syntaxes(26);
const DNS = syntaxes(12);
const OCTETS = syntaxes(40, 4, 5, 8, 9, 10, 23, 28, 49);
const DEFINITIONS = syntaxes(3, 16, 30, 31, 35, 37, 54);

/**
 * Restricts `normalize` to values that pass `check`. Used for assertions: an assertion has to conform to the syntax,
 * while values stored by older versions may not.
 */
function onlyIfValid(check: Check, normalize: Normalize): Normalize {
  return (value) => (check(value) === undefined ? normalize(value) : undefined);
}

/**
 * Returns the equality, ordering and substrings rules that share a normal form. `check`: the check of the assertion
 * syntax, for syntaxes that are stricter than `normalize`.
 */
function ruleFamily(
  oids: { equality?: string; ordering?: string; substrings?: string },
  normalize: Normalize,
  appliesTo: readonly string[],
  substringsCode?: Pick<RuleCode, 'normalizePart' | 'pad'>,
  check?: Check,
): [string, RuleCode][] {
  const rules: [string, RuleCode][] = [];
  const normalizers = { normalize, normalizeAssertion: check ? onlyIfValid(check, normalize) : normalize, appliesTo };
  if (oids.equality) rules.push([oids.equality, { kind: 'equality', ...normalizers }]);
  if (oids.ordering) rules.push([oids.ordering, { kind: 'ordering', ...normalizers }]);
  if (oids.substrings && substringsCode)
    rules.push([oids.substrings, { kind: 'substrings', ...normalizers, ...substringsCode }]);
  return rules;
}

const identity: Normalize = (value) => value;

/** Restricts a rule to ASCII values. The rule has no normal form for other values. */
function ia5(prepare: Normalize): Normalize {
  return onlyIfValid(checkIa5, prepare);
}

/** Like `ia5`, for the parts of a substrings assertion. */
function ia5Part(prepare: NonNullable<RuleCode['normalizePart']>): Pick<RuleCode, 'normalizePart' | 'pad'> {
  return { normalizePart: (part, where) => (checkIa5(part) === undefined ? prepare(part, where) : undefined), pad };
}

const TRUE = Buffer.from('TRUE');
const FALSE = Buffer.from('FALSE');

/** Accepts any case, since ABNF literals (RFC 4517 §3.3.3) ignore case. Entries may contain upper case only. */
function normalizeBoolean(value: Buffer): Buffer | undefined {
  const text = value.length <= 5 ? value.toString('latin1').toUpperCase() : '';
  return text === 'TRUE' ? TRUE : text === 'FALSE' ? FALSE : undefined;
}

/** Applies `form` to each line and joins the results with `$`. Keeps escapes, so that lines stay distinct. */
function forEachLine(form: NonNullable<RuleCode['normalizePart']>): NonNullable<RuleCode['normalizePart']> {
  return (value, where) => {
    const lines = splitDollarLines(value) ?? [];
    const lineForms: Buffer[] = [];
    for (const [i, { start, end }] of lines.entries()) {
      const isClosed = i < lines.length - 1 || isAtEnd(where);
      const position = i > 0 || isAtStart(where) ? (isClosed ? 'whole' : 'initial') : isClosed ? 'final' : 'any';
      const line = form(value.subarray(start, end), position);
      if (!line) return undefined;
      if (lineForms.length > 0) lineForms.push(DOLLAR);
      lineForms.push(line);
    }
    return lineForms.length <= 1 ? lineForms[0] : Buffer.concat(lineForms);
  };
}

const listPart = forEachLine(preparePartIgnore);
/** Pads each line. The number of lines needs no check: a normal form never has more lines than a value may have. */
const padLines = forEachLine(pad) as typeof pad;
const normalizeList: Normalize = (value) => listPart(value, 'whole');

const DOLLAR = Buffer.from('$');

/** Returns the first component of a definition in parentheses: `2.5.4.3` for `( 2.5.4.3 NAME …`. */
function firstComponent(value: Buffer): Buffer | undefined {
  if (!isUtf8(value)) return undefined;
  const match = /^\s*\(\s*(?:'([^']*)'|([^\s'()$]+))/.exec(value.toString('utf8', 0, 4096));
  const component = match?.[1] ?? match?.[2];
  return component === undefined ? undefined : Buffer.from(component);
}

/** The `test` of the word rules: whether the value contains the assertion with no letter or digit adjacent to it. */
function hasWord(value: Buffer, assertion: Buffer): boolean {
  if (assertion.length === 0) return false;
  const isWord = (offset: number) => !isWordByte(value[offset - 1]) && !isWordByte(value[offset + assertion.length]);
  return findBytes(value, assertion, 0, isWord) >= 0;
}

function isWordByte(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  return byte >= 0x80 || (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7a);
}

function stringRules(): [string, RuleCode][] {
  const ignoreIa5 = ia5(prepareIgnore);
  const exactIa5 = ia5(prepareExact);
  const wordRule: RuleCode = {
    kind: 'equality',
    normalize: prepareIgnore,
    normalizeAssertion: onlyIfValid(checkDirectoryString, prepareIgnore),
    test: hasWord,
    appliesTo: STRINGS,
  };
  // Parts of a substrings assertion have the assertion syntax of the equality rule (RFC 4511 §4.5.1.7.2).
  const numericPart = onlyIfValid(checkNumericString, prepareNumeric);
  const telephonePart = onlyIfValid(checkPrintable, prepareTelephone);
  return [
    ...ruleFamily(
      { equality: '2.5.13.2', ordering: '2.5.13.3', substrings: '2.5.13.4' },
      prepareIgnore,
      STRINGS,
      { normalizePart: preparePartIgnore, pad },
      checkDirectoryString,
    ),
    ...ruleFamily(
      { equality: '2.5.13.5', ordering: '2.5.13.6', substrings: '2.5.13.7' },
      prepareExact,
      STRINGS,
      { normalizePart: preparePartExact, pad },
      checkDirectoryString,
    ),
    ...ruleFamily(
      { equality: '2.5.13.8', ordering: '2.5.13.9', substrings: '2.5.13.10' },
      prepareNumeric,
      syntaxes(36),
      { normalizePart: numericPart },
      checkNumericString,
    ),
    ...ruleFamily(
      { equality: '2.5.13.11', substrings: '2.5.13.12' },
      normalizeList,
      syntaxes(41),
      { normalizePart: listPart, pad: padLines },
      checkPostalAddress,
    ),
    ...ruleFamily(
      { equality: '2.5.13.20', substrings: '2.5.13.21' },
      prepareTelephone,
      syntaxes(50),
      { normalizePart: telephonePart },
      checkTelephone,
    ),
    ...ruleFamily(
      { equality: '1.3.6.1.4.1.1466.109.114.2', substrings: '1.3.6.1.4.1.1466.109.114.3' },
      ignoreIa5,
      IA5,
      ia5Part(preparePartIgnore),
    ),
    ...ruleFamily(
      { equality: '1.3.6.1.4.1.1466.109.114.1', substrings: '1.3.6.1.4.1.4203.1.2.1' },
      exactIa5,
      IA5,
      ia5Part(preparePartExact),
    ),
    ['2.5.13.32', wordRule],
    ['2.5.13.33', wordRule],
  ];
}

function valueRules(): [string, RuleCode][] {
  const octetPart = { normalizePart: (part: Buffer) => part };
  const integers = syntaxes(27);
  const bits = { kind: 'equality', normalize: integerBits, appliesTo: integers } as const;
  return [
    ...ruleFamily({ equality: '2.5.13.13' }, normalizeBoolean, syntaxes(7)),
    ...ruleFamily({ equality: '2.5.13.14', ordering: '2.5.13.15' }, normalizeInteger, integers),
    ...ruleFamily({ equality: '2.5.13.16' }, onlyIfValid(checkBitString, identity), syntaxes(6)),
    ...ruleFamily(
      { equality: '2.5.13.17', ordering: '2.5.13.18', substrings: '2.5.13.19' },
      identity,
      OCTETS,
      octetPart,
    ),
    ...ruleFamily({ equality: '2.5.13.27', ordering: '2.5.13.28' }, normalizeGeneralizedTime, syntaxes(24)),
    ...ruleFamily({ equality: '1.3.6.1.1.16.2', ordering: '1.3.6.1.1.16.3' }, normalizeUuid, ['1.3.6.1.1.16.1']),
    ...ruleFamily({ equality: '1.3.6.1.4.1.4203.666.11.2.2', ordering: '1.3.6.1.4.1.4203.666.11.2.3' }, normalizeCsn, [
      '1.3.6.1.4.1.4203.666.11.2.1',
    ]),
    ['1.2.840.113556.1.4.803', { ...bits, test: hasAllBits }],
    ['1.2.840.113556.1.4.804', { ...bits, test: hasSomeBit }],
    ...['2.5.13.22', '2.5.13.24'].flatMap((equality) =>
      ruleFamily({ equality }, prepareIgnore, syntaxes(42, 43), undefined, checkDirectoryString),
    ),
  ];
}

const COMMA = 0x2c;

/** Whether the DN `value` is below `base`. Both are `Dn.norm`, in which `,` occurs between RDNs only. */
function isBelow(value: Buffer, base: Buffer): boolean {
  if (base.length === 0) return value.length > 0;
  const baseStart = value.length - base.length;
  return baseStart > 1 && value[baseStart - 1] === COMMA && value.compare(base, 0, base.length, baseStart) === 0;
}

function isChild(value: Buffer, base: Buffer): boolean {
  if (!isBelow(value, base)) return false;
  const partLength = base.length === 0 ? value.length : value.length - base.length - 1;
  const comma = value.indexOf(COMMA);
  return comma < 0 || comma >= partLength;
}

function dnRules(context: Context): [string, RuleCode][] {
  const normalize: Normalize = (value) => (isUtf8(value) ? context.dnNorm(value.toString('utf8')) : undefined);
  const relationRule = (test: (value: Buffer, assertion: Buffer) => boolean): RuleCode => {
    return { kind: 'equality', normalize, test, appliesTo: DNS };
  };
  const normalizeNameAndUid: Normalize = (value) => {
    const hash = uidStart(value);
    const norm = normalize(hash < 0 ? value : value.subarray(0, hash));
    return norm && hash >= 0 ? Buffer.concat([norm, SEPARATOR, value.subarray(hash)]) : norm;
  };
  return [
    ...ruleFamily({ equality: '2.5.13.1' }, normalize, DNS),
    ...ruleFamily({ equality: '2.5.13.23' }, normalizeNameAndUid, syntaxes(34)),
    ['1.3.6.1.4.1.4203.666.4.9', relationRule((value, base) => value.equals(base) || isBelow(value, base))],
    ['1.3.6.1.4.1.4203.666.4.8', relationRule(isChild)],
    ['1.3.6.1.4.1.4203.666.4.10', relationRule(isBelow)],
    ['1.3.6.1.4.1.4203.666.4.11', relationRule((value, below) => isBelow(below, value))],
    ['1.2.840.113556.1.4.1941', { kind: 'equality', normalize, inChain: true, appliesTo: syntaxes(12, 34) }],
  ];
}

/** Between DN and bit string in the form of a NameAndOptionalUID. Unambiguous: no RDN begins with `#`. */
const SEPARATOR = Buffer.from(',');

function oidRules(context: Context): [string, RuleCode][] {
  const normalizeOid: Normalize = (value) =>
    value.length <= 1024 ? context.resolveOid(value.toString('latin1')) : undefined;
  const oidComponent: Normalize = (value) => {
    const component = firstComponent(value);
    return component && normalizeOid(component);
  };
  const integerComponent: Normalize = (value) => {
    const component = firstComponent(value);
    return component && normalizeInteger(component);
  };
  const stringComponent: Normalize = (value) => {
    const component = firstComponent(value);
    return component && prepareIgnore(component);
  };
  const componentRule = (normalize: Normalize, normalizeAssertion: Normalize, appliesTo: string[]): RuleCode => {
    return { kind: 'equality', normalize, normalizeAssertion, appliesTo };
  };
  return [
    ...ruleFamily({ equality: '2.5.13.0' }, normalizeOid, syntaxes(38)),
    ['2.5.13.29', componentRule(integerComponent, normalizeInteger, syntaxes(17))],
    ['2.5.13.30', componentRule(oidComponent, normalizeOid, DEFINITIONS)],
    ['2.5.13.31', componentRule(stringComponent, onlyIfValid(checkDirectoryString, prepareIgnore), DEFINITIONS)],
  ];
}

/** The normal form is the serial number in decimal, `$`, and the issuer's normalized DN. */
function certificateRules(context: Context): [string, RuleCode][] {
  const certificateForm = (serial: string | undefined, issuer: Buffer | undefined): Buffer | undefined => {
    return serial !== undefined && issuer ? Buffer.concat([Buffer.from(`${serial}$`), issuer]) : undefined;
  };
  const normalize: Normalize = (value) => {
    const facts = certificateFacts(value);
    return facts && certificateForm(integerText(facts.serial), context.composeNorm([...facts.issuer].reverse()));
  };
  const normalizeAssertion: Normalize = (assertion) => {
    const parsed = isUtf8(assertion) ? parseCertificateAssertion(assertion.toString('utf8')) : undefined;
    return parsed && certificateForm(parsed.serial, context.looseNorm(parsed.issuer));
  };
  const identityRule = (arc: number): RuleCode => ({ kind: 'equality', normalize: identity, appliesTo: syntaxes(arc) });
  return [
    ['2.5.13.34', { kind: 'equality', normalize, normalizeAssertion, appliesTo: syntaxes(8) }],
    ['2.5.13.36', identityRule(10)],
    ['2.5.13.38', identityRule(9)],
    ['2.5.13.40', identityRule(49)],
  ];
}

/** Returns all matching rules that the server implements, by OID. */
export function ruleCode(context: Context): Map<string, RuleCode> {
  return new Map([
    ...stringRules(),
    ...valueRules(),
    ...dnRules(context),
    ...oidRules(context),
    ...certificateRules(context),
  ]);
}
