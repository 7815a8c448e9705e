import { parse, stringify, v7 } from 'uuid';

/** A new entryUUID, 16 bytes. Version 7: rising, so that the embedded store appends (RFC 9562 §5.7). */
export function newUuid(): Buffer {
  return v7(undefined, Buffer.allocUnsafe(16));
}

/** Text form, lower case (RFC 4530). */
export function uuidText(id: Buffer): string {
  return stringify(id);
}

/** 16 bytes of a text form; throws `TypeError` when it is none. */
export function parseUuid(text: string): Buffer {
  return Buffer.from(parse(text));
}
