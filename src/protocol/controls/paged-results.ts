import { expectEnd, readInteger, readOctets, readSequence, writeSequence } from '../asn1.js';
import { MAX_INT } from '../reader.js';
import { INTEGER, OCTET_STRING } from '../tags.js';

/** Value of the paged results control (RFC 2696 §2). */
export interface PagedResults {
  /** Request: entries per page; 0 ends the paging. Response: estimated size of the result; 0 if unknown. */
  readonly size: number;
  /** Empty in the first request and in the last response. */
  readonly cookie: Buffer;
}

const MAX_VALUE = 8 * 1024;

/** Decodes the value. Throws LdapError `protocolError` if the value is missing, malformed or longer than 8 KiB. */
export function decodePagedResults(value: Buffer | undefined): PagedResults {
  const label = 'paged results control';
  const elements = readSequence(value, label, MAX_VALUE);
  const size = readInteger(elements[0], label, 0, MAX_INT);
  const cookie = readOctets(elements[1], label);
  expectEnd(elements, 2, label);
  return { size, cookie };
}

export function encodePagedResults({ size, cookie }: PagedResults): Buffer {
  return writeSequence((writer) => {
    writer.integer(INTEGER, size);
    writer.octetString(OCTET_STRING, cookie);
  });
}
