import { INTEGER, OCTET_STRING, opTags, SEQUENCE } from '../../protocol/tags.js';
import type { Writer } from '../../protocol/writer.js';
import { elementBytes, integerBytes } from './lengths.js';

/** Bytes of the SearchResultEntry message (RFC 4511 §4.5.2) whose attributes take `list` bytes, its outermost header left out. */
export function messageBytes(messageId: number, dn: Buffer, list: number): number {
  return integerBytes(messageId) + elementBytes(elementBytes(dn.length) + elementBytes(list));
}

/** All of it that comes before the attributes. */
export function writeEntryHeader(writer: Writer, messageId: number, dn: Buffer, list: number): void {
  writer.header(SEQUENCE, messageBytes(messageId, dn, list));
  writer.integer(INTEGER, messageId);
  writer.header(opTags.searchEntry, elementBytes(dn.length) + elementBytes(list));
  writer.octetString(OCTET_STRING, dn);
  writer.header(SEQUENCE, list);
}
