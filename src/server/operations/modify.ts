import type { Change } from '../../ldap/types.js';
import type { ModifyRequest } from '../../protocol/messages.js';
import { actorOf, isOwn, requireAdmin, requireBound, requireConfidential } from '../access.js';
import type { Context } from '../context.js';
import { type Outcome, SUCCESS } from '../outcome.js';
import { renew } from '../validity.js';

/** RFC 4511 §4.6, increment of RFC 4525. */
export async function modify(context: Context, request: ModifyRequest): Promise<Outcome> {
  const { services, session, controls } = context;
  requireBound(session, 'modify entries');
  const dn = services.schema.parseDn(request.dn);
  const touchesPasswords = request.changes.some((c) => services.passwords.holdsPasswords(c.attribute.type));
  if (touchesPasswords) requireConfidential(context);
  const found = touchesPasswords ? await services.partition.findRow(dn) : undefined;
  const own = isOwn(session, found?.id);
  if (!own || !onlyPasswords(context, request)) requireAdmin(session, 'modify anything but their own password');
  const stored = found ? services.credentials.ofRow(found.row).passwords : [];
  const changes = touchesPasswords ? await protectAll(context, request.changes, stored) : request.changes;
  await services.partition.modify(dn, changes, actorOf(session), {
    manageDsaIT: controls.manageDsaIT,
    leaveLong: services.long !== undefined,
  });
  if (own) await renew(services, session);
  return SUCCESS;
}

function onlyPasswords({ services }: Context, request: ModifyRequest): boolean {
  return request.changes.every((change) => services.passwords.holdsPasswords(change.attribute.type));
}

/** Clear passwords become what is to be stored; one that is to be deleted becomes the stored value that it verifies against. */
async function protectAll(
  { services }: Context,
  changes: readonly Change[],
  stored: readonly Buffer[],
): Promise<readonly Change[]> {
  const { passwords } = services;
  const protectedChanges: Change[] = [];
  for (const change of changes) {
    const { operation, attribute } = change;
    if (operation !== 'delete') protectedChanges.push({ operation, attribute: await passwords.protect(attribute) });
    else if (!passwords.holdsPasswords(attribute.type)) protectedChanges.push(change);
    else {
      const values: Buffer[] = [];
      for (const value of attribute.values) values.push(await passwords.storedFor(value, stored));
      protectedChanges.push({ operation, attribute: { type: attribute.type, values } });
    }
  }
  return protectedChanges;
}
