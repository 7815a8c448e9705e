import { encodeControls, encodeResponse } from '../../src/protocol/encode.js';
import { attributeBytes, nameElement, writeAttributeHead, writeEntryHead } from '../../src/protocol/encode-entry.js';
import type { ResponseMessage } from '../../src/protocol/messages.js';
import { INTEGER, OCTET_STRING } from '../../src/protocol/tags.js';
import { elementBytes, Writer } from '../../src/protocol/writer.js';
import { seq, str, tlv } from './bytes.js';

/** A response as the server writes it; an entry that has controls by hand. */
export function respond({ id, response, controls }: ResponseMessage): Buffer {
  const writer = new Writer();
  if (response.op !== 'searchEntry') {
    encodeResponse(writer, { id, response, controls });
    return writer.take();
  }
  const { dn, attributes } = response;
  if (controls?.length) {
    const list = attributes.map(({ type, values }) => seq(str(type), tlv(0x31, ...values.map(str))));
    writer.integer(INTEGER, id);
    writer.raw(tlv(0x64, str(dn), seq(...list)));
    encodeControls(writer, controls);
    return tlv(0x30, writer.take());
  }
  const sets = attributes.map(({ values }) => values.reduce((sum, value) => sum + elementBytes(value.length), 0));
  const names = attributes.map(({ type }) => nameElement(type));
  const list = names.reduce((sum, name, i) => sum + elementBytes(attributeBytes(name, sets[i]!)), 0);
  writeEntryHead(writer, id, Buffer.from(dn), list);
  for (const [i, { values }] of attributes.entries()) {
    writeAttributeHead(writer, names[i]!, sets[i]!);
    for (const value of values) writer.octetString(OCTET_STRING, value);
  }
  return writer.take();
}
