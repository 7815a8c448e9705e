import { INTEGER, OCTET_STRING, opTags, SEQUENCE, SET } from './tags.js';
import { copyShort, elementBytes, integerBytes, putHeader, Writer } from './writer.js';

/** A SearchResultEntry (RFC 4511 §4.5.2) is written from the outside in: what it holds is measured first. */

/**
 * Bytes of the message whose attributes take `list` bytes and whose controls so many, its outermost header left out.
 */
export function entryBytes(messageId: number, dn: Buffer, list: number, controls: number): number {
  return integerBytes(messageId) + elementBytes(elementBytes(dn.length) + elementBytes(list)) + controls;
}

/** All of it that comes before the attributes; the controls come behind them. */
export function writeEntryHead(writer: Writer, messageId: number, dn: Buffer, list: number, controls: number): void {
  writer.header(SEQUENCE, entryBytes(messageId, dn, list, controls));
  writer.integer(INTEGER, messageId);
  writer.header(opTags.searchEntry, elementBytes(dn.length) + elementBytes(list));
  writer.octetString(OCTET_STRING, dn);
  writer.header(SEQUENCE, list);
}

/** Content bytes of a PartialAttribute (RFC 4511 §4.1.7) with the name and `set` bytes of values. */
export function attributeBytes(name: Buffer, set: number): number {
  return name.length + elementBytes(set);
}

/** All of it that comes before the values; `name` from `nameElement`. */
export function writeAttributeHead(writer: Writer, name: Buffer, set: number): void {
  writer.reserve(12 + name.length);
  const { buffer } = writer;
  const at = putHeader(buffer, writer.at, SEQUENCE, attributeBytes(name, set));
  copyShort(buffer, at, name, 0, name.length);
  writer.at = putHeader(buffer, at + name.length, SET, set);
}

/** The OCTET STRING with a description. */
export function nameElement(description: string): Buffer {
  const writer = new Writer();
  writer.text(OCTET_STRING, description);
  return Buffer.from(writer.take());
}
