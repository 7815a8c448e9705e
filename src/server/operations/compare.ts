import { LdapError } from '../../ldap/ldap-error.js';
import type { CompareRequest } from '../../protocol/messages.js';
import type { Dn } from '../../schema/schema-types.js';
import { isOwn, requireConfidential, sourceOf, viewerOf } from '../request/access.js';
import type { Context } from '../request/context.js';
import { requireHeld } from '../request/validity.js';
import { chain, type Maybe } from '../words/maybe.js';
import { COMPARE_FALSE, COMPARE_TRUE, type Outcome } from '../words/outcome.js';

/** RFC 4511 §4.10. */
export function compare(context: Context, request: CompareRequest): Maybe<Outcome> {
  const { services, controls } = context;
  const { schema, partition } = services;
  const viewer = viewerOf(context);
  const dn = schema.parseDn(request.dn);
  const asked = schema.requireAsked(request.attribute);
  if (asked.type.secret) {
    requireConfidential(context);
    return comparePassword(context, dn, request);
  }
  const options = { manageDsaIT: controls.manageDsaIT, leaveLong: services.long !== undefined };
  const same = partition.compare(dn, request.attribute, request.value, viewer, options);
  return chain(same, (equal) => (equal ? COMPARE_TRUE : COMPARE_FALSE));
}

/** A password is compared by verifying it, for its owner and the administrator; other secrets by nobody. */
async function comparePassword(context: Context, dn: Dn, request: CompareRequest): Promise<Outcome> {
  const { services, session } = context;
  const asked = session.identity;
  const found = await services.partition.findRow(dn);
  const allowed =
    services.passwords.holdsPasswords(request.attribute) && (session.isAdmin || isOwn(session.identity, found?.id));
  if (!allowed) {
    throw new LdapError(
      'insufficientAccessRights',
      `attribute '${request.attribute}' may be compared by its owner only`,
    );
  }
  if (!found) throw new LdapError('noSuchObject', `there is no entry '${dn.text}'`);
  const own = services.credentials.ofRow(found.row);
  const { passwords } = own;
  await requireHeld(services, session, asked, own);
  if (passwords.length === 0) throw new LdapError('noSuchAttribute', `the entry has no '${request.attribute}'`);
  const matched = await services.passwords.matches(sourceOf(context)).find(request.value, passwords);
  return matched ? COMPARE_TRUE : COMPARE_FALSE;
}
