import type { Target } from '../../partition/index.js';
import type { ModifyRequest } from '../../protocol/messages.js';
import type { Dn } from '../../schema/schema-types.js';
import { actorOf, isOwn, requireAdmin, requireConfidential, requireKind, sourceOf } from '../request/access.js';
import type { Context } from '../request/context.js';
import { keepingBind, requireHeld } from '../request/validity.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';

/** RFC 4511 §4.6, increment of RFC 4525. */
export async function modify(context: Context, request: ModifyRequest): Promise<Outcome> {
  const { services, session, controls } = context;
  requireKind(session, 'modify');
  const dn = services.schema.parseDn(request.dn);
  if (request.changes.some((c) => services.passwords.holdsPasswords(c.attribute.type))) {
    requireConfidential(context);
    await modifyPasswords(context, request, dn);
  } else {
    requireRight(context, request, undefined);
    const options = { manageDsaIT: controls.manageDsaIT, leaveLong: services.long !== undefined };
    await services.partition.modify(dn, request.changes, actorOf(session), options);
  }
  return SUCCESS;
}

function isOnlyPasswords({ services }: Context, { changes }: ModifyRequest): boolean {
  return changes.every((change) => services.passwords.holdsPasswords(change.attribute.type));
}

/**
 * For changing the entry `id`, undefined where it is not known: users may change their own passwords, and nothing else.
 */
function requireRight(context: Context, request: ModifyRequest, id: Buffer | undefined): void {
  const { session } = context;
  if (!isOnlyPasswords(context, request) || !isOwn(session.identity, id))
    requireAdmin(session, 'modify anything but their own password');
}

/**
 * The right is asked for twice: before anything is hashed, and in each attempt for the entry that it changes, as the
 * attempt has read it. Between the two the entry may have been renamed, another have taken its name, and its passwords
 * have changed: then the bind may hold no longer.
 *
 * Where nothing but passwords is changed, that is done here however long the entry is: what other requests of the
 * session store meanwhile, with which its bind goes on, is known here alone.
 */
async function modifyPasswords(context: Context, request: ModifyRequest, dn: Dn): Promise<void> {
  const { services, session, controls } = context;
  const { partition, passwords, credentials } = services;
  const asked = session.identity;
  const found = await partition.findRow(dn);
  requireRight(context, request, found?.id);
  const beside = found ? credentials.ofRow(found.row).passwords : [];
  const hashed = await passwords.protectChanges(request.changes, beside, sourceOf(context));
  const matches = passwords.matches(sourceOf(context));
  const options = {
    manageDsaIT: controls.manageDsaIT,
    leaveLong: services.long !== undefined && !isOnlyPasswords(context, request),
    touches: request.changes.map(({ attribute }) => attribute.type),
  };
  await keepingBind(session, (willStore) => {
    const changesOf = async ({ id, row }: Target) => {
      const own = credentials.ofRow(row);
      const { passwords: stored, version } = own;
      await requireHeld(services, session, asked, own);
      const changes = await passwords.resolveDeleted(hashed, stored, matches);
      passwords.refuseDearer(stored, changes);
      if (isOwn(session.identity, id)) willStore(passwords.credentialsAfter(stored, changes), version + 1n);
      return changes;
    };
    return partition.modify(dn, changesOf, actorOf(session), options);
  });
}
