import { LdapError } from '../../../ldap/ldap-error.js';
import type { ExtendedRequest } from '../../../protocol/ldap-messages.js';
import { ExtendedOid } from '../../../protocol/oids.js';
import type { Context } from '../../request/context.js';
import { type Outcome, SUCCESS } from '../../words/outcome.js';

/** StartTLS (RFC 4511 §4.14). The handshake begins after the response has been sent. */
export function startTls({ id, transport, outstanding }: Context, request: ExtendedRequest): Outcome {
  if (request.value !== undefined) throw new LdapError('protocolError', 'StartTLS: the request has no value');
  if (transport.isEncrypted) throw new LdapError('operationsError', 'StartTLS: TLS is in place already');
  if (outstanding.hasOthers(id)) throw new LdapError('operationsError', 'StartTLS: other operations are outstanding');
  transport.startTls();
  return { ...SUCCESS, oid: ExtendedOid.startTls };
}
