import { LdapError } from '../../../ldap/ldap-error.js';
import type { ExtendedRequest } from '../../../protocol/ldap-messages.js';
import type { Context } from '../../request/context.js';
import { type Outcome, SUCCESS } from '../../words/outcome.js';

/** Who Am I (RFC 4532): returns the authorization identity; empty when anonymous. */
export function whoAmI({ session }: Context, request: ExtendedRequest): Outcome {
  if (request.value !== undefined) throw new LdapError('protocolError', 'who am I: the request has no value');
  const { dn } = session;
  return { ...SUCCESS, value: Buffer.from(dn === '' ? '' : `dn:${dn}`) };
}
