import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import type { Target } from '../../partition/index.js';
import type { ModifyOptions } from '../../partition/model/directory-types.js';
import { PasswordMatcher } from '../../password/index.js';
import type { ModifyRequest } from '../../protocol/ldap-messages.js';
import type { Dn } from '../../schema/schema-types.js';
import { credentialsAfter, isCredential } from '../passwords/credentials.js';
import { resolveDeletedPasswords } from '../passwords/deleted-values.js';
import { PASSWORD_ATTRIBUTES } from '../passwords/operational-changes.js';
import { isPasswordAttribute, refuseCostlier } from '../passwords/password-hashing.js';
import { actorOf, isOwn, OperationSource, requireConfidential, requireRightsFor } from '../request/access.js';
import type { Context } from '../request/context.js';
import { clearPassword, passwordChanges, verifyInSession } from '../request/password-change.js';
import { requireOwnPassword, runPasswordChange } from '../request/password-policy.js';
import { keepBindValid, requireValidBind } from '../request/validity.js';
import type { Outcome } from '../words/outcome.js';
import { runWrite } from './entry-controls.js';
import { refuseVirtual } from './search.js';

/** Modify (RFC 4511 §4.6), with increment (RFC 4525). */
export async function modify(context: Context, request: ModifyRequest): Promise<Outcome> {
  const { services } = context;
  requireRightsFor(context, 'modify');
  const dn = services.schema.parseDn(request.dn);
  refuseVirtual(context, dn);
  if (request.changes.some((c) => isPasswordAttribute(services.schema, c.attribute.type))) {
    requireConfidential(context);
    return runPasswordChange(context, async () => {
      requireOwnPassword(context.session.identity);
      return runWrite(context, dn, (options) => modifyPasswords(context, request, dn, options));
    });
  }
  const refuseLong = services.longWorker !== undefined;
  return runWrite(context, dn, (options) =>
    services.partition.modify(dn, request.changes, actorOf(context), { ...options, refuseLong }),
  );
}

/** Returns the new clear passwords of a request, and what else it writes; undefined: it changes no password. */
function requestedPasswords({ services: { schema } }: Context, { changes }: ModifyRequest) {
  const passwordChanges = changes.filter(({ attribute: { type } }) => isCredential(schema.requireDescription(type)));
  if (passwordChanges.length === 0) return undefined;
  const writes = (name: string) => changes.some((c) => schema.describe(c.attribute.type)?.type.name === name);
  return {
    clearPasswords: passwordChanges.flatMap(({ operation, attribute }) =>
      operation === 'delete' ? [] : attribute.values.map(clearPassword),
    ),
    writesReset: writes('pwdReset'),
    writesShadow: writes('shadowLastChange'),
    replacesByNothing: passwordChanges.some((c) => c.operation === 'replace' && c.attribute.values.length === 0),
  };
}

/** Returns the passwords that `changes` delete, without those that earlier changes of the list have added. */
function deletedPasswords({ services: { schema } }: Context, changes: readonly Modification[]): Buffer[] {
  const addedValues: Buffer[] = [];
  const deletedValues: Buffer[] = [];
  for (const { operation, attribute } of changes) {
    if (!isCredential(schema.requireDescription(attribute.type))) continue;
    if (operation === 'delete')
      deletedValues.push(...attribute.values.filter((value) => !includesValue(addedValues, value)));
    else addedValues.push(...attribute.values);
  }
  return deletedValues;
}

function includesValue(values: readonly Buffer[], value: Buffer): boolean {
  return values.some((other) => other.equals(value));
}

function changesOnlyPasswords({ services }: Context, { changes }: ModifyRequest): boolean {
  return changes.every((change) => isPasswordAttribute(services.schema, change.attribute.type));
}

/** Whether the session has bound as the administrator with one of these passwords, those of the entry `dn`. */
function hasBoundByEntry({ services, session: { identity } }: Context, dn: Dn, passwords: readonly Buffer[]): boolean {
  return (
    identity.kind === 'admin' && dn.norm.equals(services.admin.norm) && includesValue(passwords, identity.password)
  );
}

/**
 * Changes an entry with passwords. The rights are checked before passwords are hashed, and again in each attempt for
 * the entry that the attempt has read: in between, the entry may have been renamed, replaced or given other passwords.
 *
 * A change of passwords alone runs in this thread even when the entry is long, because only this thread knows which
 * passwords other requests of the session store meanwhile.
 */
async function modifyPasswords(
  context: Context,
  request: ModifyRequest,
  dn: Dn,
  writeOptions: ModifyOptions,
): Promise<void> {
  const { services, session, controls } = context;
  const { partition, schema, hashing, credentialReader } = services;
  const requester = session.identity;
  const actor = actorOf(context);
  await partition.requireAllowed(dn, request.changes, actor, controls);
  const foundRow = await partition.findRow(dn);
  const siblings = foundRow ? credentialReader.read(foundRow.row).passwords : [];
  const hashedChanges = await hashing.hashChanges(request.changes, siblings, new OperationSource(context));
  const matcher = new PasswordMatcher(hashing.policy, new OperationSource(context));
  const options = {
    ...writeOptions,
    refuseLong: services.longWorker !== undefined && !changesOnlyPasswords(context, request),
    touchedDescriptions: [...request.changes.map(({ attribute }) => attribute.type), ...PASSWORD_ATTRIBUTES],
  };
  const passwordRequest = requestedPasswords(context, request);
  await keepBindValid(session, (willStore) => {
    const makeChanges = async (target: Target) => {
      const { id, row } = target;
      const credentials = credentialReader.read(row);
      const { passwords: storedPasswords, version } = credentials;
      await requireValidBind(services, session, requester, { id, credentials });
      const changes = await resolveDeletedPasswords(schema, hashedChanges, storedPasswords, matcher);
      const passwordsAfter = credentialsAfter(schema, storedPasswords, changes);
      const oldPasswords = deletedPasswords(context, changes);
      const requireOldPassword = async () => {
        const areStored = () => oldPasswords.every((value) => includesValue(storedPasswords, value));
        if (!(await verifyInSession(context, id, credentials, areStored)))
          throw new LdapError('noSuchAttribute', 'the old password is wrong');
      };
      const fullRequest = passwordRequest && {
        ...passwordRequest,
        requireOldPassword: oldPasswords.length > 0 ? requireOldPassword : undefined,
      };
      const changesToStore = fullRequest
        ? await passwordChanges(context, target, dn.text, credentials, fullRequest, changes, matcher)
        : changes;
      // Refused behind the check of the old password, which counts wrong ones: the answer tells whether it is right.
      refuseCostlier(storedPasswords, passwordsAfter, hashing.policy);
      if (isOwn(session.identity, id) || hasBoundByEntry(context, dn, storedPasswords))
        willStore(passwordsAfter, version + 1n);
      return changesToStore;
    };
    return partition.modify(dn, makeChanges, actor, options);
  });
}
