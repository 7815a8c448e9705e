import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import type { Target } from '../../partition/index.js';
import { clearText, givenAs, Matches } from '../../password/index.js';
import type { ModifyRequest } from '../../protocol/ldap-messages.js';
import type { Dn } from '../../schema/schema-types.js';
import { credentialsAfter, isCredential } from '../passwords/credentials.js';
import { resolveDeletedPasswords } from '../passwords/deleted-values.js';
import { PASSWORD_ATTRIBUTES } from '../passwords/operational-changes.js';
import { isPasswordAttribute } from '../passwords/password-hashing.js';
import { refuseCostlier } from '../passwords/refusals.js';
import { actorOf, isOwn, requireConfidential, requireRightsFor, workSource } from '../request/access.js';
import type { Context } from '../request/context.js';
import { passwordChanges, verifyInSession } from '../request/password-change.js';
import { requireOwnPassword, runPasswordChange } from '../request/password-policy.js';
import { keepBindValid, requireValidBind } from '../request/validity.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';

/** RFC 4511 §4.6, increment of RFC 4525. */
export async function modify(context: Context, request: ModifyRequest): Promise<Outcome> {
  const { services, controls } = context;
  requireRightsFor(context, 'modify');
  const dn = services.schema.parseDn(request.dn);
  if (request.changes.some((c) => isPasswordAttribute(services.schema, c.attribute.type))) {
    requireConfidential(context);
    return runPasswordChange(context, async () => {
      requireOwnPassword(context.session.identity);
      await modifyPasswords(context, request, dn);
      return SUCCESS;
    });
  } else {
    const options = { manageDsaIT: controls.manageDsaIT, leaveLong: services.long !== undefined };
    await services.partition.modify(dn, request.changes, actorOf(context), options);
  }
  return SUCCESS;
}

/** What a request does to userPassword itself; undefined: nothing. */
function askedPasswords({ services: { schema } }: Context, { changes }: ModifyRequest) {
  const ofPasswords = changes.filter(({ attribute: { type } }) => isCredential(schema.requireDescription(type)));
  if (ofPasswords.length === 0) return undefined;
  return {
    clear: ofPasswords.flatMap(({ operation, attribute }) =>
      operation === 'delete' ? [] : attribute.values.map(inTheClear),
    ),
    writesReset: changes.some(({ attribute: { type } }) => schema.describe(type)?.type.name === 'pwdReset'),
  };
}

/** The values that `changes` delete and have not added themselves before. */
function deletedBy({ services: { schema } }: Context, changes: readonly Modification[]): Buffer[] {
  const added: Buffer[] = [];
  const deleted: Buffer[] = [];
  for (const { operation, attribute } of changes) {
    if (!isCredential(schema.requireDescription(attribute.type))) continue;
    if (operation === 'delete') deleted.push(...attribute.values.filter((value) => !isAmong(added, value)));
    else added.push(...attribute.values);
  }
  return deleted;
}

function isAmong(values: readonly Buffer[], value: Buffer): boolean {
  return values.some((other) => other.equals(value));
}

function inTheClear(value: Buffer): Buffer | undefined {
  return givenAs(value) === 'clear' ? clearText(value) : undefined;
}

function isOnlyPasswords({ services }: Context, { changes }: ModifyRequest): boolean {
  return changes.every((change) => isPasswordAttribute(services.schema, change.attribute.type));
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
  const { partition, schema, hashing, credentialReader } = services;
  const asked = session.identity;
  const actor = actorOf(context);
  await partition.requireAllowed(dn, request.changes, actor, controls);
  const found = await partition.findRow(dn);
  const siblings = found ? credentialReader.read(found.row).passwords : [];
  const hashed = await hashing.hashChanges(request.changes, siblings, workSource(context));
  const matches = new Matches(hashing.policy, workSource(context));
  const options = {
    manageDsaIT: controls.manageDsaIT,
    leaveLong: services.long !== undefined && !isOnlyPasswords(context, request),
    touches: [...request.changes.map(({ attribute }) => attribute.type), ...PASSWORD_ATTRIBUTES],
  };
  const wanted = askedPasswords(context, request);
  await keepBindValid(session, (willStore) => {
    const changesOf = async (target: Target) => {
      const { id, row } = target;
      const credentials = credentialReader.read(row);
      const { passwords: stored, version } = credentials;
      await requireValidBind(services, session, asked, { id, credentials });
      const changes = await resolveDeletedPasswords(schema, hashed, stored, matches);
      const after = credentialsAfter(schema, stored, changes);
      refuseCostlier(stored, after, hashing.policy);
      const old = deletedBy(context, changes);
      const requireOld = async () => {
        if (!(await verifyInSession(context, id, credentials, () => old.every((value) => isAmong(stored, value)))))
          throw new LdapError('noSuchAttribute', 'the old password is wrong');
      };
      const all = wanted && { ...wanted, requireOld: old.length > 0 ? requireOld : undefined };
      const made = all ? await passwordChanges(context, target, dn.text, credentials, all, changes, matches) : changes;
      if (isOwn(session.identity, id)) willStore(after, version + 1n);
      return made;
    };
    return partition.modify(dn, changesOf, actor, options);
  });
}
