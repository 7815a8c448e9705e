import { Constructed } from 'asn1js';
import { LdapError } from '../../ldap/ldap-error.js';
import { expectEnd, readInteger, readOctets, readSequence, readTagged, writeSequence } from '../asn1.js';
import { MAX_INT } from '../reader.js';
import { ENUMERATED, INTEGER, OCTET_STRING } from '../tags.js';

/** Value of the virtual list view request control (draft-ietf-ldapext-ldapv3-vlv-09 §4.1). */
export interface VirtualListRequest {
  readonly before: number;
  readonly after: number;
  readonly target: VirtualListTarget;
}

export type VirtualListTarget =
  /** Position of the target, from 1, in a list of `contentCount` entries. A `contentCount` of 0: not known. */
  | { readonly offset: number; readonly contentCount: number }
  /** The target is the first entry whose first sort key is not before this value. */
  | { readonly value: Buffer };

const MAX_VALUE = 8 * 1024;
const LABEL = 'virtual list view control';
const OFFSET_TAG = 0;
const VALUE_TAG = 1;

/** Decodes the value. Throws LdapError `protocolError`. The contextID has no effect: the request names the list. */
export function decodeVirtualList(value: Buffer | undefined): VirtualListRequest {
  const elements = readSequence(value, LABEL, MAX_VALUE);
  const before = readInteger(elements[0], LABEL, 0, MAX_INT);
  const after = readInteger(elements[1], LABEL, 0, MAX_INT);
  if (elements.length > 3) readOctets(elements[3], LABEL);
  expectEnd(elements, 4, LABEL);
  const assertion = readTagged(elements[2], VALUE_TAG);
  if (assertion) return { before, after, target: { value: assertion } };
  const byOffset = elements[2];
  if (!(byOffset instanceof Constructed) || byOffset.idBlock.tagNumber !== OFFSET_TAG)
    throw new LdapError('protocolError', `${LABEL}: the target is neither an offset nor a value`);
  const parts = byOffset.valueBlock.value;
  const offset = readInteger(parts[0], LABEL, 0, MAX_INT);
  const contentCount = readInteger(parts[1], LABEL, 0, MAX_INT);
  expectEnd(parts, 2, LABEL);
  return { before, after, target: { offset, contentCount } };
}

/** Encodes the value of the response control (draft-ietf-ldapext-ldapv3-vlv-09 §4.2). `position`: of the target. */
export function encodeVirtualListResponse(
  position: number,
  contentCount: number,
  resultCode: number,
  contextId?: Buffer,
): Buffer {
  return writeSequence((writer) => {
    writer.integer(INTEGER, position);
    writer.integer(INTEGER, contentCount);
    writer.integer(ENUMERATED, resultCode);
    if (contextId) writer.octetString(OCTET_STRING, contextId);
  });
}
