import { LdapError } from '../../../ldap/ldap-error.js';
import type { ExtendedRequest } from '../../../protocol/ldap-messages.js';
import { ExtendedOid } from '../../../protocol/oids.js';
import type { Context } from '../../request/context.js';
import type { Maybe } from '../../words/maybe.js';
import type { Outcome } from '../../words/outcome.js';
import { applicationPasswords } from './application-passwords.js';
import { cancel } from './cancel.js';
import { passwordModify } from './password-modify.js';
import { startTls } from './start-tls.js';
import { whoAmI } from './who-am-i.js';

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
