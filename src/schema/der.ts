/**
 * Reads DER (X.690) by offsets, for certificates and revocation lists. Takes linear time and creates no object tree;
 * recursion into data of clients is limited to `MAX_DEPTH`. Malformed input yields undefined, never an exception.
 */

export interface Tlv {
  /** Identifier octet. Multi-byte tags are refused. */
  readonly tag: number;
  /** Offset of the identifier octet. */
  readonly offset: number;
  /** Offset of the first byte of the contents. */
  readonly start: number;
  readonly end: number;
}

export const Tag = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utf8String: 0x0c,
  numericString: 0x12,
  printableString: 0x13,
  teletexString: 0x14,
  ia5String: 0x16,
  utcTime: 0x17,
  generalizedTime: 0x18,
  visibleString: 0x1a,
  universalString: 0x1c,
  bmpString: 0x1e,
  sequence: 0x30,
  set: 0x31,
} as const;

const CONSTRUCTED = 0x20;
const MAX_DEPTH = 32;

/** Returns the element at `offset`; undefined if it exceeds `limit`, or has an indefinite length or a long tag. */
export function readTlv(der: Buffer, offset: number, limit: number): Tlv | undefined {
  if (offset + 2 > limit) return undefined;
  const tag = der[offset]!;
  if ((tag & 0x1f) === 0x1f) return undefined;
  const lengthOctet = der[offset + 1]!;
  let start = offset + 2;
  let length = lengthOctet;
  if (lengthOctet >= 0x80) {
    const lengthBytes = lengthOctet & 0x7f;
    if (lengthBytes === 0 || lengthBytes > 4 || start + lengthBytes > limit) return undefined;
    length = der.readUIntBE(start, lengthBytes);
    start += lengthBytes;
  }
  const end = start + length;
  return end <= limit ? { tag, offset, start, end } : undefined;
}

/** Returns the elements in the range; undefined if they do not fill it exactly, or are more than `max`. */
export function children(der: Buffer, start: number, end: number, max = 1 << 20): Tlv[] | undefined {
  const elements: Tlv[] = [];
  for (let offset = start; offset < end; ) {
    const tlv = readTlv(der, offset, end);
    if (!tlv || elements.length === max) return undefined;
    elements.push(tlv);
    offset = tlv.end;
  }
  return elements;
}

/** Whether the buffer is a single well-formed element, including nested elements. */
export function isWellFormedDer(der: Buffer): boolean {
  const outerElement = readTlv(der, 0, der.length);
  return outerElement !== undefined && outerElement.end === der.length && isNestedWellFormed(der, outerElement, 0);
}

function isNestedWellFormed(der: Buffer, tlv: Tlv, depth: number): boolean {
  if ((tlv.tag & CONSTRUCTED) === 0) return true;
  if (depth === MAX_DEPTH) return false;
  for (let offset = tlv.start; offset < tlv.end; ) {
    const child = readTlv(der, offset, tlv.end);
    if (!child || !isNestedWellFormed(der, child, depth + 1)) return false;
    offset = child.end;
  }
  return true;
}

const MAX_OID = 128;
const MAX_ARC = Number.MAX_SAFE_INTEGER / 128;

/** Returns the dotted text of an OBJECT IDENTIFIER; undefined if truncated, over 128 bytes or with an arc ≥ 2⁵³. */
export function oidText(der: Buffer, start: number, end: number): string | undefined {
  if (end <= start || end - start > MAX_OID || der[end - 1]! >= 0x80) return undefined;
  const arcs: number[] = [];
  let arc = 0;
  for (let i = start; i < end; i++) {
    if (arc > MAX_ARC) return undefined;
    const byte = der[i]!;
    arc = arc * 128 + (byte & 0x7f);
    if (byte < 0x80) {
      if (arcs.length === 0) arcs.push(Math.min(Math.floor(arc / 40), 2), arc - 40 * Math.min(Math.floor(arc / 40), 2));
      else arcs.push(arc);
      arc = 0;
    }
  }
  return arcs.join('.');
}

/** Returns the characters of a string element in UTF-8; undefined if the element is not a valid string. */
export function stringBytes(der: Buffer, tlv: Tlv): Buffer | undefined {
  const contents = der.subarray(tlv.start, tlv.end);
  switch (tlv.tag) {
    case Tag.octetString:
    case Tag.utf8String:
    case Tag.numericString:
    case Tag.printableString:
    case Tag.ia5String:
    case Tag.visibleString:
      return contents;
    case Tag.teletexString:
      return Buffer.from(contents.toString('latin1'), 'utf8');
    case Tag.bmpString:
      return contents.length % 2 === 0 ? Buffer.from(Buffer.from(contents).swap16().toString('utf16le')) : undefined;
    case Tag.universalString:
      return decodeUniversalString(contents);
    default:
      return undefined;
  }
}

function decodeUniversalString(contents: Buffer): Buffer | undefined {
  if (contents.length % 4 !== 0) return undefined;
  const characters: string[] = [];
  for (let i = 0; i < contents.length; i += 4) {
    const point = contents.readUInt32BE(i);
    if (point > 0x10ffff) return undefined;
    characters.push(String.fromCodePoint(point));
  }
  return Buffer.from(characters.join(''));
}
