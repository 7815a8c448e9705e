import { isUtf8 } from 'node:buffer';
import { LdapError } from '../ldap/ldap-error.js';
import { checkAlgorithm, checkCertificate, checkCertificateList, checkCertificatePair } from './certificate.js';
import { DefinitionError, type DefinitionKind, parseDefinition } from './definition.js';
import { isCanonical } from './dn-text.js';
import { checkInteger } from './number.js';
import type { Dn } from './schema-types.js';
import type { Check } from './syntax-text.js';
import * as text from './syntax-text.js';
import { checkCsn, checkGeneralizedTime, checkUtcTime, checkUuid } from './time.js';

/** The parts of a schema that syntaxes and matching rules depend on. */
export interface Context {
  /** Throws LdapError invalidDNSyntax. */
  parseDn(text: string): Dn;
  /** Returns `norm` of a DN in text form; undefined if the text is not a DN. */
  dnNorm(text: string): Buffer | undefined;
  /** Returns the numeric OID of a name or OID as ASCII bytes; undefined for an unknown name. */
  resolveOid(text: string): Buffer | undefined;
  /**
   * Returns `norm` of a DN, given by the OIDs and values of its RDNs, leftmost first. Values of types that are not in
   * the schema are normalized by caseIgnoreMatch.
   */
  composeNorm(rdns: readonly (readonly { oid: string; value: Buffer }[])[]): Buffer | undefined;
  /** Like `dnNorm`, but accepts types that are not in the schema. Their values are normalized by caseIgnoreMatch. */
  looseNorm(text: string): Buffer | undefined;
}

/** The OID below which RFC 4517 defines its syntaxes. */
export const LDAP_SYNTAX = '1.3.6.1.4.1.1466.115.121.1';

export interface SyntaxCode {
  readonly check: Check;
  readonly binary: boolean;
  readonly ber: boolean;
  readonly proper?: Canonicalize;
}

/** See `Syntax.proper`. */
type Canonicalize = (value: Buffer) => Buffer;

const MAX_DEFINITION = 65536;

/** Checks values that are schema definitions, such as attributeTypes. */
function definitionCheck(kind: DefinitionKind): Check {
  return (value) => {
    if (value.length > MAX_DEFINITION) return 'is too long for a definition';
    if (!isUtf8(value)) return 'is not UTF-8';
    try {
      parseDefinition(kind, value.toString('utf8'));
      return undefined;
    } catch (error) {
      if (error instanceof DefinitionError) return `is not a definition of ${kind} as RFC 4512 §4.1 writes it`;
      throw error;
    }
  };
}

function dnCheck(context: Context): Check {
  return (value) => {
    if (!isUtf8(value)) return 'is not UTF-8';
    try {
      context.parseDn(value.toString('utf8'));
      return undefined;
    } catch (error) {
      if (error instanceof LdapError) return `is not a DN: ${error.message}`;
      throw error;
    }
  };
}

/** Returns a function that removes line ends after valid DER, which values read from files may have. */
function withoutLineEnd(check: Check): Canonicalize {
  return (value) => {
    let end = value.length;
    while (end > 0 && (value[end - 1] === 0x0a || value[end - 1] === 0x0d)) end--;
    if (end === value.length || check(value) === undefined) return value;
    const withoutEnd = value.subarray(0, end);
    return check(withoutEnd) === undefined ? withoutEnd : value;
  };
}

/** Converts a DN to the notation of RFC 4514. */
function canonicalDn(context: Context): Canonicalize {
  return (value) => {
    if (value.length === 0 || isCanonical(value, 0, value.length) || !isUtf8(value)) return value;
    try {
      const dnText = value.toString('utf8');
      const { text } = context.parseDn(dnText);
      return text === dnText ? value : Buffer.from(text);
    } catch (error) {
      if (error instanceof LdapError) return value;
      throw error;
    }
  };
}

/** Returns the offset of `#` before the bit string of a NameAndOptionalUID (RFC 4517 §3.3.21); -1 if none. */
export function uidStart(value: Buffer): number {
  const n = value.length;
  if (n < 4 || value[n - 1] !== 0x42 || value[n - 2] !== 0x27) return -1;
  const hash = value.lastIndexOf(0x23);
  if (hash < 0 || value[hash - 1] === 0x5c) return -1;
  return text.checkBitString(value.subarray(hash + 1)) === undefined ? hash : -1;
}

/** Checks GSER values such as `{ base …, minimum … }` (RFC 3672) for balanced braces and quotes only. */
function checkBraces(value: Buffer): string | undefined {
  if (!isUtf8(value)) return 'is not UTF-8';
  let depth = 0;
  let isQuoted = false;
  for (let i = 0; i < value.length; i++) {
    const byte = value[i]!;
    if (byte === 0x22) isQuoted = !isQuoted;
    else if (!isQuoted && byte === 0x7b) depth++;
    else if (!isQuoted && byte === 0x7d && --depth < 0) break;
    if (depth === 0 && !isQuoted && byte > 0x20 && byte !== 0x7d) return 'is not a specification in braces';
  }
  return depth === 0 && !isQuoted && value.length > 1 ? undefined : 'has braces or quotes without their partner';
}

function textSyntaxes(): Record<string, Check> {
  return {
    '6': text.checkBitString,
    '7': text.checkBoolean,
    '11': text.checkCountry,
    '13': text.checkDirectoryString,
    '14': text.checkDeliveryMethod,
    '15': text.checkDirectoryString,
    '19': text.checkDirectoryString,
    '21': text.checkEnhancedGuide,
    '22': text.checkFaxNumber,
    '24': checkGeneralizedTime,
    '25': text.checkGuide,
    '26': text.checkIa5,
    '27': checkInteger,
    '33': text.checkIa5,
    '36': text.checkNumericString,
    '38': text.checkOid,
    '39': text.checkOtherMailbox,
    '41': text.checkPostalAddress,
    '42': text.checkDirectoryString,
    '43': text.checkDirectoryString,
    '44': text.checkPrintable,
    '45': checkBraces,
    '50': text.checkTelephone,
    '51': text.checkTeletex,
    '52': text.checkTelex,
    '53': checkUtcTime,
    '58': text.checkDirectoryString,
  };
}

const BINARY: Record<string, Check> = {
  '4': text.checkOctets,
  '5': text.checkOctets,
  '8': checkCertificate,
  '9': checkCertificateList,
  '10': checkCertificatePair,
  '23': text.checkOctets,
  '28': text.checkJpeg,
  '49': checkAlgorithm,
};

/** Certificate syntaxes (RFC 4523 §2), and Binary, which RFC 2798 uses with `;binary`. */
const BER = new Set(['5', '8', '9', '10', '49'].map((arc) => `${LDAP_SYNTAX}.${arc}`));

const DEFINITIONS: Record<string, DefinitionKind> = {
  '3': 'attributeTypes',
  '16': 'dITContentRules',
  '17': 'dITStructureRules',
  '30': 'matchingRules',
  '31': 'matchingRuleUse',
  '35': 'nameForms',
  '37': 'objectClasses',
  '54': 'ldapSyntaxes',
};

/** Returns the implementations of all supported syntaxes, by OID. The LDIF definitions select among them. */
export function syntaxCode(context: Context): Map<string, SyntaxCode> {
  const code = new Map<string, SyntaxCode>();
  const add = (oid: string, check: Check, binary = false, proper?: Canonicalize) => {
    code.set(oid, { check, binary, ber: BER.has(oid), ...(proper && { proper }) });
  };
  for (const [arc, check] of Object.entries(textSyntaxes())) add(`${LDAP_SYNTAX}.${arc}`, check);
  for (const [arc, check] of Object.entries(BINARY)) add(`${LDAP_SYNTAX}.${arc}`, check, true);
  for (const arc of ['8', '9', '10']) {
    const check = BINARY[arc]!;
    add(`${LDAP_SYNTAX}.${arc}`, check, true, withoutLineEnd(check));
  }
  for (const [arc, kind] of Object.entries(DEFINITIONS)) add(`${LDAP_SYNTAX}.${arc}`, definitionCheck(kind));
  const checkDn = dnCheck(context);
  const writeDn = canonicalDn(context);
  add(`${LDAP_SYNTAX}.12`, checkDn, false, writeDn);
  const checkNameAndUid: Check = (value) => {
    const hash = uidStart(value);
    return checkDn(hash < 0 ? value : value.subarray(0, hash));
  };
  const writeNameAndUid: Canonicalize = (value) => {
    const hash = uidStart(value);
    if (hash < 0) return writeDn(value);
    const dnBytes = value.subarray(0, hash);
    const canonicalDnBytes = writeDn(dnBytes);
    return canonicalDnBytes === dnBytes ? value : Buffer.concat([canonicalDnBytes, value.subarray(hash)]);
  };
  add(`${LDAP_SYNTAX}.34`, checkNameAndUid, false, writeNameAndUid);
  add(`${LDAP_SYNTAX}.40`, text.checkOctets, true);
  for (const arc of [1, 2, 3, 4, 5, 6, 7]) add(`1.3.6.1.1.15.${arc}`, text.checkDirectoryString);
  add('1.3.6.1.1.16.1', checkUuid);
  add('1.3.6.1.1.1.0.0', text.checkNetgroupTriple);
  add('1.3.6.1.1.1.0.1', text.checkBootParameter);
  add('1.3.6.1.4.1.4203.666.11.2.1', checkCsn);
  add('1.3.6.1.4.1.4203.1.1.2', text.checkIa5);
  return code;
}
