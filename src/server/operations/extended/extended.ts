import { LdapError } from '../../../ldap/ldap-error.js';
import { decodeCancel } from '../../../protocol/extended/cancel.js';
import type { ExtendedRequest } from '../../../protocol/ldap-messages.js';
import { ExtendedOid } from '../../../protocol/oids.js';
import type { Context } from '../../request/context.js';
import { chain, type Maybe } from '../../words/maybe.js';
import { type Outcome, SUCCESS } from '../../words/outcome.js';
import { applicationPasswords } from './application-passwords.js';
import { passwordModify } from './password-modify.js';

/** Dispatches an extended operation by its OID (RFC 4511 §4.12). */
export function extendedOperation(context: Context, request: ExtendedRequest): Maybe<Outcome> {
  switch (request.oid) {
    case ExtendedOid.whoAmI:
      return whoAmI(context, request);
    case ExtendedOid.startTls:
      return startTls(context, request);
    case ExtendedOid.passwordModify:
      return passwordModify(context, request);
    case ExtendedOid.applicationPasswords:
      return applicationPasswords(context, request);
    case ExtendedOid.cancel:
      return cancel(context, request);
    default:
      throw new LdapError('protocolError', `extended operation ${request.oid} is not supported`);
  }
}

/** StartTLS (RFC 4511 §4.14). The handshake begins after the response has been sent. */
function startTls({ id, transport, outstanding }: Context, request: ExtendedRequest): Outcome {
  if (request.value !== undefined) throw new LdapError('protocolError', 'StartTLS: the request has no value');
  if (transport.isEncrypted) throw new LdapError('operationsError', 'StartTLS: TLS is in place already');
  if (outstanding.hasOthers(id)) throw new LdapError('operationsError', 'StartTLS: other operations are outstanding');
  transport.startTls();
  return { ...SUCCESS, oid: ExtendedOid.startTls };
}

/** Who Am I (RFC 4532): returns the authorization identity; empty when anonymous. */
function whoAmI({ session }: Context, request: ExtendedRequest): Outcome {
  if (request.value !== undefined) throw new LdapError('protocolError', 'who am I: the request has no value');
  const { dn } = session;
  return { ...SUCCESS, value: Buffer.from(dn === '' ? '' : `dn:${dn}`) };
}

/** Cancel (RFC 3909). Both operations are answered; the canceled operation gets `canceled`. */
function cancel({ id, outstanding }: Context, request: ExtendedRequest): Maybe<Outcome> {
  return chain(outstanding.cancel(decodeCancel(request.value), id), () => SUCCESS);
}
