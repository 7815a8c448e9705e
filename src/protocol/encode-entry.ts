import { INTEGER, OCTET_STRING, opTags, SEQUENCE, SET } from './tags.js';
import { copyShort, elementBytes, integerBytes, putHeader, Writer } from './writer.js';

/** Writes a SearchResultEntry (RFC 4511 §4.5.2) from the outside in: the caller computes the lengths first. */

/** Returns the length of the message without its header. `list`, `controls`: bytes of attributes and controls. */
export function entryBytes(messageId: number, dn: Buffer, list: number, controls: number): number {
  return integerBytes(messageId) + elementBytes(elementBytes(dn.length) + elementBytes(list)) + controls;
}

/** Writes the beginning of the message, up to the attributes. The caller writes attributes and controls. */
export function writeEntryHead(writer: Writer, messageId: number, dn: Buffer, list: number, controls: number): void {
  writer.header(SEQUENCE, entryBytes(messageId, dn, list, controls));
  writer.integer(INTEGER, messageId);
  writer.header(opTags.searchEntry, elementBytes(dn.length) + elementBytes(list));
  writer.octetString(OCTET_STRING, dn);
  writer.header(SEQUENCE, list);
}

/** Returns the length of the content of a PartialAttribute (RFC 4511 §4.1.7) with `set` bytes of values. */
export function attributeBytes(name: Buffer, set: number): number {
  return name.length + elementBytes(set);
}

/** Writes the beginning of a PartialAttribute, up to the values. `name` is a result of `nameElement`. */
export function writeAttributeHead(writer: Writer, name: Buffer, set: number): void {
  writer.reserve(12 + name.length);
  const { buffer } = writer;
  const nameStart = putHeader(buffer, writer.at, SEQUENCE, attributeBytes(name, set));
  copyShort(buffer, nameStart, name, 0, name.length);
  writer.at = putHeader(buffer, nameStart + name.length, SET, set);
}

/** Returns the OCTET STRING element of an attribute description. */
export function nameElement(description: string): Buffer {
  const writer = new Writer();
  writer.text(OCTET_STRING, description);
  return Buffer.from(writer.take());
}
