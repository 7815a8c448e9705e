import { encodeControls, encodeResponse } from '../../src/protocol/encode.js';
import { attributeBytes, nameElement, writeAttributeHead, writeEntryHead } from '../../src/protocol/encode-entry.js';
import type { ResponseMessage } from '../../src/protocol/ldap-messages.js';
import { OCTET_STRING } from '../../src/protocol/tags.js';
import { elementBytes, Writer } from '../../src/protocol/writer.js';

/** A response as the server writes it. */
export function respond({ id, response, controls }: ResponseMessage): Buffer {
  const writer = new Writer();
  if (response.op !== 'searchEntry') {
    encodeResponse(writer, { id, response, controls });
    return writer.take();
  }
  const { dn, attributes } = response;
  const sets = attributes.map(({ values }) => values.reduce((sum, value) => sum + elementBytes(value.length), 0));
  const names = attributes.map(({ type }) => nameElement(type));
  const list = names.reduce((sum, name, i) => sum + elementBytes(attributeBytes(name, sets[i]!)), 0);
  const told = new Writer();
  if (controls?.length) encodeControls(told, controls);
  const tail = Buffer.from(told.take());
  writeEntryHead(writer, id, Buffer.from(dn), list, tail.length);
  for (const [i, { values }] of attributes.entries()) {
    writeAttributeHead(writer, names[i]!, sets[i]!);
    for (const value of values) writer.octetString(OCTET_STRING, value);
  }
  writer.raw(tail);
  return writer.take();
}
