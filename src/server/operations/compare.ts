import { LdapError } from '../../ldap/error.js';
import { verifyPassword } from '../../password/index.js';
import type { CompareRequest } from '../../protocol/messages.js';
import type { Dn } from '../../schema/types.js';
import { isOwn, requireRead, VIEW } from '../access.js';
import type { Context } from '../context.js';
import { compareRow } from '../entry/compare-row.js';
import { chain, type Maybe } from '../maybe.js';
import { COMPARE_FALSE, COMPARE_TRUE, type Outcome } from '../outcome.js';

/** RFC 4511 §4.10. */
export function compare(context: Context, request: CompareRequest): Maybe<Outcome> {
  const { services, session, controls } = context;
  const { schema, partition } = services;
  requireRead(services, session);
  const dn = schema.parseDn(request.dn);
  const asked = schema.requireDescription(request.attribute);
  if (asked.type.secret) return comparePassword(context, dn, request);
  return chain(partition.findHead(dn), (found) => {
    const equal = found && compareRow(services.encoder.table, found.row, asked, request.value);
    if (equal !== undefined) return equal ? COMPARE_TRUE : COMPARE_FALSE;
    const options = { manageDsaIT: controls.manageDsaIT, leaveLong: services.long !== undefined };
    const answer = partition.compare(dn, request.attribute, request.value, VIEW, options);
    return answer.then((same) => (same ? COMPARE_TRUE : COMPARE_FALSE));
  });
}

/** A password is compared by verifying it, for its owner and the administrator; other secrets by nobody. */
async function comparePassword(context: Context, dn: Dn, request: CompareRequest): Promise<Outcome> {
  const { services, session } = context;
  const found = await services.partition.findRow(dn);
  const allowed =
    services.passwords.holdsPasswords(request.attribute) && (session.isAdmin || isOwn(session, found?.id));
  if (!allowed) {
    throw new LdapError(
      'insufficientAccessRights',
      `attribute '${request.attribute}' may be compared by its owner only`,
    );
  }
  if (!found) throw new LdapError('noSuchObject', `there is no entry '${dn.text}'`);
  const { passwords } = services.credentials.ofRow(found.row);
  if (passwords.length === 0) throw new LdapError('noSuchAttribute', `the entry has no '${request.attribute}'`);
  for (const stored of passwords) if (await verifyPassword(stored, request.value)) return COMPARE_TRUE;
  return COMPARE_FALSE;
}
