import { type AsnType, Sequence } from 'asn1js';
import { LdapError } from '../../ldap/ldap-error.js';
import { expectEnd, readOctets, readSequence, readTagged, writeSequence } from '../asn1.js';
import { contextTag, ENUMERATED } from '../tags.js';

/** A key of the server-side sort request control (RFC 2891 §1.1). */
export interface RequestedSortKey {
  readonly attribute: string;
  /** Name or OID of the ordering rule. Undefined: the one of the attribute type. */
  readonly rule: string | undefined;
  readonly isReverse: boolean;
}

const MAX_VALUE = 8 * 1024;
const MAX_KEYS = 10;
const LABEL = 'sort control';

/** Decodes the keys. Throws LdapError `protocolError` if the value is malformed or has no key, or more than ten. */
export function decodeSortRequest(value: Buffer | undefined): RequestedSortKey[] {
  const elements = readSequence(value, LABEL, MAX_VALUE);
  if (elements.length === 0 || elements.length > MAX_KEYS)
    throw new LdapError('protocolError', `${LABEL}: ${elements.length} keys; 1 to ${MAX_KEYS} are accepted`);
  return elements.map(decodeKey);
}

function decodeKey(element: AsnType): RequestedSortKey {
  if (!(element instanceof Sequence)) throw new LdapError('protocolError', `${LABEL}: a key is not a SEQUENCE`);
  const parts = element.valueBlock.value;
  const attribute = readOctets(parts[0], LABEL).toString();
  const rule = readTagged(parts[1], 0)?.toString();
  const reverseIndex = rule === undefined ? 1 : 2;
  const reverse = readTagged(parts[reverseIndex], 1);
  expectEnd(parts, reverse === undefined ? reverseIndex : reverseIndex + 1, LABEL);
  return { attribute, rule, isReverse: reverse?.some((byte) => byte !== 0) ?? false };
}

/** Encodes the value of the response control (RFC 2891 §1.2). `attribute`: the one that causes an error. */
export function encodeSortResponse(resultCode: number, attribute?: string): Buffer {
  return writeSequence((writer) => {
    writer.integer(ENUMERATED, resultCode);
    if (attribute !== undefined) writer.text(contextTag(0), attribute);
  });
}
