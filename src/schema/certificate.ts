import { children, isWellFormedDer, oidText, readTlv, stringBytes, Tag, type Tlv } from './der.js';

/** Extracts those fields of X.509 structures that the syntaxes of RFC 4523 and certificateExactMatch use. */

/** An attribute of a name in a certificate. */
export interface NameAva {
  readonly oid: string;
  /** The characters in UTF-8 if the value is a string, otherwise its DER. */
  readonly value: Buffer;
}

export interface CertificateFacts {
  /** Contents of the INTEGER in two's complement, big-endian. */
  readonly serial: Buffer;
  /** RDNs from the root downwards, in the order of X.501. */
  readonly issuer: readonly (readonly NameAva[])[];
}

const MAX_RDNS = 256;
const MAX_AVAS = 64;
const EXPLICIT_0 = 0xa0;

/** Returns the components of `tbs` in SEQUENCE { tbs SEQUENCE, algorithm SEQUENCE, signature BIT STRING }. */
function signedElements(der: Buffer): Tlv[] | undefined {
  const sequence = readTlv(der, 0, der.length);
  if (!sequence || sequence.tag !== Tag.sequence || sequence.end !== der.length || !isWellFormedDer(der))
    return undefined;
  const elements = children(der, sequence.start, sequence.end, 3);
  const [tbs, algorithm, signature] = elements ?? [];
  if (tbs?.tag !== Tag.sequence || algorithm?.tag !== Tag.sequence || signature?.tag !== Tag.bitString)
    return undefined;
  return children(der, tbs.start, tbs.end, MAX_AVAS);
}

/** Whether the tags of `elements`, from index `start` on, begin with `tags`. */
function hasTags(elements: readonly Tlv[], start: number, tags: readonly number[]): boolean {
  return tags.every((tag, i) => elements[start + i]?.tag === tag);
}

/** Tags of a TBSCertificate after the version: serial number, algorithm, issuer, validity, subject, key. */
const CERTIFICATE_TAGS = [Tag.integer, Tag.sequence, Tag.sequence, Tag.sequence, Tag.sequence, Tag.sequence];

function certificateFields(der: Buffer): Tlv[] | undefined {
  const elements = signedElements(der);
  if (!elements) return undefined;
  const fields = elements[0]?.tag === EXPLICIT_0 ? elements.slice(1) : elements;
  return hasTags(fields, 0, CERTIFICATE_TAGS) ? fields : undefined;
}

export function checkCertificate(der: Buffer): string | undefined {
  return certificateFields(der) ? undefined : 'is not an X.509 certificate in DER';
}

export function checkCertificateList(der: Buffer): string | undefined {
  const elements = signedElements(der);
  const start = elements?.[0]?.tag === Tag.integer ? 1 : 0;
  const time = elements?.[start + 2]?.tag;
  const valid = elements && hasTags(elements, start, [Tag.sequence, Tag.sequence]);
  if (valid && (time === Tag.utcTime || time === Tag.generalizedTime)) return undefined;
  return 'is not an X.509 certificate revocation list in DER';
}

/** Checks SEQUENCE { [0] certificate OPTIONAL, [1] certificate OPTIONAL } with at least one certificate. */
export function checkCertificatePair(der: Buffer): string | undefined {
  const top = readTlv(der, 0, der.length);
  const pair = top?.tag === Tag.sequence && top.end === der.length ? children(der, top.start, top.end, 2) : undefined;
  const isPair = pair?.every((tlv, i) => {
    const isTagged = tlv.tag === EXPLICIT_0 || tlv.tag === EXPLICIT_0 + 1;
    return isTagged && (i === 0 || tlv.tag > pair[0]!.tag) && certificateFields(der.subarray(tlv.start, tlv.end));
  });
  return isPair && pair!.length > 0 ? undefined : 'is not a pair of X.509 certificates in DER';
}

export function checkAlgorithm(der: Buffer): string | undefined {
  const top = readTlv(der, 0, der.length);
  const algorithm = top && readTlv(der, top.start, top.end);
  const valid =
    top?.tag === Tag.sequence &&
    (algorithm?.tag === Tag.oid || algorithm?.tag === Tag.sequence) &&
    isWellFormedDer(der);
  return valid ? undefined : 'is not an algorithm identifier in DER';
}

/** Returns serial number and issuer; undefined if `der` is not a certificate or the issuer is malformed. */
export function certificateFacts(der: Buffer): CertificateFacts | undefined {
  const fields = certificateFields(der);
  if (!fields) return undefined;
  const [serial, , issuer] = fields as [Tlv, Tlv, Tlv];
  const issuerRdns = readName(der, issuer);
  return issuerRdns && serial.end > serial.start
    ? { serial: der.subarray(serial.start, serial.end), issuer: issuerRdns }
    : undefined;
}

function readName(der: Buffer, name: Tlv): NameAva[][] | undefined {
  const rdns = children(der, name.start, name.end, MAX_RDNS);
  const rdnAvas = rdns?.map((rdn) => (rdn.tag === Tag.set ? readRdn(der, rdn) : undefined));
  return rdnAvas?.every((rdn) => rdn !== undefined) ? (rdnAvas as NameAva[][]) : undefined;
}

function readRdn(der: Buffer, rdn: Tlv): NameAva[] | undefined {
  const avas: NameAva[] = [];
  for (const ava of children(der, rdn.start, rdn.end, MAX_AVAS) ?? []) {
    const [type, value] = children(der, ava.start, ava.end, 2) ?? [];
    const oid = type?.tag === Tag.oid ? oidText(der, type.start, type.end) : undefined;
    if (ava.tag !== Tag.sequence || oid === undefined || !value) return undefined;
    avas.push({ oid, value: stringBytes(der, value) ?? der.subarray(value.offset, value.end) });
  }
  return avas.length > 0 ? avas : undefined;
}

/** Decimal text of a two's complement integer; undefined for more than 64 bytes. */
export function integerText(contents: Buffer): string | undefined {
  if (contents.length === 0 || contents.length > 64) return undefined;
  return BigInt.asIntN(contents.length * 8, BigInt(`0x${contents.toString('hex')}`)).toString();
}

export interface CertificateAssertion {
  /** In decimal. */
  readonly serial: string;
  /** In the string form of DNs. */
  readonly issuer: string;
}

const MAX_ASSERTION = 65536;
const SERIAL = /serialNumber\s+(-?(?:0|[1-9]\d*)|'[0-9A-Fa-f]{2,128}'H)/y;
const ISSUER = /issuer\s+(?:rdnSequence\s*:\s*)?"((?:[^"]|"")*)"/y;
const SPACES = /\s*/y;

/** Parses `{ serialNumber 1, issuer rdnSequence:"…" }` (RFC 4523 §3.1) or the older form `serial$issuer`. */
export function parseCertificateAssertion(text: string): CertificateAssertion | undefined {
  if (text.length > MAX_ASSERTION) return undefined;
  const dollar = text.indexOf('$');
  if (dollar >= 0 && !text.trimStart().startsWith('{')) {
    const serial = text.slice(0, dollar).trim();
    return isDecimal(serial) ? { serial, issuer: text.slice(dollar + 1).trim() } : undefined;
  }
  return parseGser(text);
}

function isDecimal(text: string): boolean {
  return text.length <= 160 && /^-?(?:0|[1-9]\d*)$/.test(text);
}

function parseGser(text: string): CertificateAssertion | undefined {
  let offset = 0;
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = offset;
    const match = pattern.exec(text);
    if (match) offset = pattern.lastIndex;
    return match ? (match[1] ?? match[0]) : undefined;
  };
  const takeSymbol = (symbol: string): boolean => {
    take(SPACES);
    if (text[offset] !== symbol) return false;
    offset++;
    take(SPACES);
    return true;
  };
  if (!takeSymbol('{')) return undefined;
  let serial = take(SERIAL);
  let issuer = serial === undefined ? take(ISSUER) : undefined;
  if (!takeSymbol(',')) return undefined;
  if (serial === undefined) serial = take(SERIAL);
  else issuer = take(ISSUER);
  if (serial === undefined || issuer === undefined || !takeSymbol('}') || offset !== text.length) return undefined;
  const decimal = serial.startsWith("'") ? integerText(Buffer.from(serial.slice(1, -2), 'hex')) : serial;
  return decimal !== undefined && isDecimal(decimal)
    ? { serial: decimal, issuer: issuer.replaceAll('""', '"') }
    : undefined;
}
