import { isUtf8 } from 'node:buffer';
import { Sequence } from 'asn1js';
import { LdapError } from '../../ldap/ldap-error.js';
import { expectEnd, readOctets, readSequence } from '../asn1.js';

/** Value of the effective rights control (draft-ietf-ldapext-acl-model-08 §10, in the form of OpenDJ and UnboundID). */
export interface EffectiveRightsRequest {
  /** The user whose rights are requested: `dn:` and a DN, or `u:` and a uid. Undefined: the requester. */
  readonly authzId: string | undefined;
  /** Attributes to report rights on, in addition to the attributes that the search requests. */
  readonly attributes: readonly string[];
}

const MAX_VALUE = 64 * 1024;
const SEQUENCE_TAG = 0x30;
const CONTROL_NAME = 'effective rights control';

/** Decodes an authzId or `SEQUENCE { authzId, attributes SEQUENCE OF … OPTIONAL }`. Throws `protocolError`. */
export function decodeEffectiveRights(value: Buffer | undefined): EffectiveRightsRequest {
  if (value === undefined || value.length === 0) return { authzId: undefined, attributes: [] };
  if (value[0] !== SEQUENCE_TAG) {
    if (value.length > MAX_VALUE) throw malformedError(`a value of ${value.length} bytes; ${MAX_VALUE} are accepted`);
    return { authzId: parseAuthzId(value), attributes: [] };
  }
  const elements = readSequence(value, CONTROL_NAME, MAX_VALUE);
  const authzId = readOctets(elements[0], CONTROL_NAME);
  expectEnd(elements, 2, CONTROL_NAME);
  const list = elements[1];
  if (list !== undefined && !(list instanceof Sequence)) throw malformedError('the attributes are not a SEQUENCE');
  const attributes = (list?.valueBlock.value ?? []).map((element) => text(readOctets(element, CONTROL_NAME)));
  return { authzId: authzId.length === 0 ? undefined : parseAuthzId(authzId), attributes };
}

function parseAuthzId(bytes: Buffer): string {
  const authzId = text(bytes);
  if (!/^(dn|u):/i.test(authzId)) throw malformedError("whose rights? 'dn:' with a DN or 'u:' with a uid is wanted");
  return authzId;
}

function text(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw malformedError('the value is not valid UTF-8');
  return bytes.toString();
}

function malformedError(reason: string): LdapError {
  return new LdapError('protocolError', `${CONTROL_NAME}: ${reason}`);
}
