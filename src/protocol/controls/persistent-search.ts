import { Boolean as BooleanElement } from 'asn1js';
import { LdapError } from '../../ldap/ldap-error.js';
import { expectEnd, readInteger, readSequence, writeSequence } from '../asn1.js';
import { MAX_INT } from '../reader.js';
import { ENUMERATED, INTEGER, OCTET_STRING } from '../tags.js';

/** Types of changes (draft-ietf-ldapext-psearch-03 §4), each a bit of `changeTypes`. */
export const ChangeType = { add: 1, delete: 2, modify: 4, modDN: 8 } as const;

/** Value of the persistent search control. */
export interface PersistentSearch {
  readonly changeTypes: number;
  /** Whether entries are sent only when they change, not at first. */
  readonly changesOnly: boolean;
  /** Whether changed entries have the entry change notification control. */
  readonly returnECs: boolean;
}

const MAX_VALUE = 64;

/** Decodes the value. Throws LdapError `protocolError`. */
export function decodePersistentSearch(value: Buffer | undefined): PersistentSearch {
  const label = 'persistent search control';
  const elements = readSequence(value, label, MAX_VALUE);
  const changeTypes = readInteger(elements[0], label, 1, 15);
  const [changesOnly, returnECs] = elements.slice(1, 3).map((element) => {
    if (!(element instanceof BooleanElement)) throw new LdapError('protocolError', `${label}: a BOOLEAN is missing`);
    return element.valueBlock.value;
  });
  expectEnd(elements, 3, label);
  if (returnECs === undefined) throw new LdapError('protocolError', `${label}: a BOOLEAN is missing`);
  return { changeTypes, changesOnly: changesOnly!, returnECs };
}

/** Encodes the value of the entry change notification control. `previousDn`: of a modDN, UTF-8. */
export function encodeEntryChange(type: number, previousDn: Buffer | undefined, changeNumber: number): Buffer {
  return writeSequence((writer) => {
    writer.integer(ENUMERATED, type);
    if (previousDn) writer.octetString(OCTET_STRING, previousDn);
    if (changeNumber <= MAX_INT) writer.integer(INTEGER, changeNumber);
  });
}
