import { rightSet } from '../../access/right.js';
import { LdapError, type ResultName } from '../../ldap/ldap-error.js';
import type { Dn } from '../../schema/schema-types.js';
import { printable } from '../words/printable.js';
import { Session } from '../words/session.js';
import { namedIdentity, requestRights } from './access.js';
import type { Context } from './context.js';
import { isBindValid, userIdentity } from './validity.js';

const PROXY = rightSet('proxy');
/** Errors of the look-up that would tell whether an entry exists. */
const TELLING: readonly ResultName[] = ['noSuchObject', 'referral', 'insufficientAccessRights', 'invalidDNSyntax'];

/**
 * Returns the session of the identity that a request runs as (RFC 4370). The client needs the right `proxy` on the
 * entry of the user, and on any entry to be anonymous. Nobody but the administrator becomes the administrator. Throws
 * `authorizationDenied`, also if a bind as the user would not be valid: the account is locked or has expired.
 */
export async function proxiedSession(context: Context, authzId: string): Promise<Session> {
  const { services, session: ownSession } = context;
  const rights = requestRights(context)?.rights;
  const session = new Session(ownSession.connectionNumber);
  // It does less than the user's own password, and would do more by this control.
  if (ownSession.identity.kind === 'user' && ownSession.identity.application) throw deniedError(authzId);
  // Checked before the look-up, so that the result does not tell which users exist.
  if (rights && !rights.mayAnywhere('proxy')) throw deniedError(authzId);
  if (authzId === '') return session;
  const dn = await findIdentity(context, authzId);
  if (dn.norm.equals(services.admin.norm)) {
    if (rights) throw deniedError(authzId);
    session.identity = ownSession.identity;
    return session;
  }
  const found = await services.partition.findRow(dn);
  const sight = found && rights?.sightOf(found);
  if (!found || (sight && !(sight.seen && sight.entryRights & PROXY))) throw deniedError(authzId);
  const credentials = services.credentialReader.read(found.row);
  // The generation is that of no tree, so that `isBindValid` reads the account.
  session.identity = userIdentity(found.id, found.node.dn.toString(), -1, credentials, undefined, undefined);
  if (!(await isBindValid(services, session))) throw deniedError(authzId);
  return session;
}

async function findIdentity(context: Context, authzId: string): Promise<Dn> {
  try {
    return await namedIdentity(context, authzId);
  } catch (error) {
    if (!(error instanceof LdapError) || !TELLING.includes(error.result)) throw error;
    throw deniedError(authzId, error);
  }
}

function deniedError(authzId: string, cause?: LdapError): LdapError {
  const who = authzId === '' ? 'an anonymous client' : `'${printable(authzId)}'`;
  return new LdapError('authorizationDenied', `this client may not act as ${who}`, { cause });
}
