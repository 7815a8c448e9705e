import { isUtf8 } from 'node:buffer';
import { LdapError } from '../../ldap/ldap-error.js';

const MAX_VALUE = 8 * 1024;

/**
 * Decodes the proxied authorization control (RFC 4370 §3). Returns the authzId: `dn:` with a DN, `u:` with a uid, or ''
 * for an anonymous client. The control must be critical. Throws LdapError `protocolError`.
 */
export function decodeProxiedAuthorization(value: Buffer | undefined, isCritical: boolean): string {
  if (!isCritical) throw malformedError('it has to be critical');
  if (value === undefined) throw malformedError('the value is missing');
  if (value.length > MAX_VALUE) throw malformedError(`a value of ${value.length} bytes; ${MAX_VALUE} are accepted`);
  const authzId = isUtf8(value) ? value.toString() : undefined;
  if (authzId === undefined || !/^(dn:|u:|$)/i.test(authzId))
    throw malformedError("as whom? 'dn:' with a DN, 'u:' with a uid, or nothing for an anonymous client is wanted");
  return /^dn:\s*$/i.test(authzId) ? '' : authzId;
}

function malformedError(reason: string): LdapError {
  return new LdapError('protocolError', `proxied authorization control: ${reason}`);
}
