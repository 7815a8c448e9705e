import { isUtf8 } from 'node:buffer';
import { Sequence } from 'asn1js';
import { LdapError } from '../../ldap/ldap-error.js';
import { expectEnd, readOctets, readSequence } from '../asn1.js';

/** Value of the control for effective rights (draft-ietf-ldapext-acl-model-08 §10, as OpenDJ and UnboundID have it). */
export interface EffectiveRightsRequest {
  /** Whose rights: `dn:` and a DN, or `u:` and a uid; undefined: those of who asks. */
  readonly authzId: string | undefined;
  /** Attributes that are asked about beside those that the search asks for. */
  readonly attributes: readonly string[];
}

const MAX_VALUE = 64 * 1024;
const SEQUENCE_TAG = 0x30;
const what = 'effective rights control';

/**
 * An authzId as it stands, or `SEQUENCE { authzId OCTET STRING, attributes SEQUENCE OF OCTET STRING OPTIONAL }`. Throws
 * LdapError `protocolError`.
 */
export function decodeEffectiveRights(value: Buffer | undefined): EffectiveRightsRequest {
  if (value === undefined || value.length === 0) return { authzId: undefined, attributes: [] };
  if (value[0] !== SEQUENCE_TAG) {
    if (value.length > MAX_VALUE) throw malformed(`a value of ${value.length} bytes; ${MAX_VALUE} are accepted`);
    return { authzId: authzIdOf(value), attributes: [] };
  }
  const elements = readSequence(value, what, MAX_VALUE);
  const authzId = readOctets(elements[0], what);
  expectEnd(elements, 2, what);
  const list = elements[1];
  if (list !== undefined && !(list instanceof Sequence)) throw malformed('the attributes are not a SEQUENCE');
  const attributes = (list?.valueBlock.value ?? []).map((element) => text(readOctets(element, what)));
  return { authzId: authzId.length === 0 ? undefined : authzIdOf(authzId), attributes };
}

function authzIdOf(bytes: Buffer): string {
  const authzId = text(bytes);
  if (!/^(dn|u):/i.test(authzId)) throw malformed("whose rights? 'dn:' with a DN or 'u:' with a uid is wanted");
  return authzId;
}

function text(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw malformed('the value is not valid UTF-8');
  return bytes.toString();
}

function malformed(why: string): LdapError {
  return new LdapError('protocolError', `${what}: ${why}`);
}
