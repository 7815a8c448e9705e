import type { Modification } from '../../ldap/ldap-types.js';
import type { SplitChanges, Target } from '../../partition/model/directory-types.js';
import type { PasswordMatcher } from '../../password/index.js';
import { credentialsAfter, type RowCredentials } from '../passwords/credentials.js';
import { Login } from '../passwords/login.js';
import { operationalChanges } from '../passwords/operational-changes.js';
import { type PasswordChange, refuseByPolicy } from '../passwords/password-rules.js';
import { isPromise, type Maybe } from '../words/maybe.js';
import { isOwn, OperationSource } from './access.js';
import type { Context } from './context.js';
import { requireNoReset } from './password-policy.js';

export interface RequestedPasswords extends Pick<PasswordChange, 'clear' | 'requireOld'> {
  /** Whether the request itself writes pwdReset. */
  readonly writesReset: boolean;
}

/**
 * Returns the changes of passwords to store in one attempt, with the changes of operational attributes that go with
 * them. Throws when the password policy refuses the change. `target`: the entry as the attempt has read it.
 */
export async function passwordChanges(
  context: Context,
  target: Target,
  dn: string,
  credentials: RowCredentials,
  requested: RequestedPasswords,
  changes: readonly Modification[],
  matches: PasswordMatcher,
): Promise<SplitChanges> {
  const { services, session } = context;
  const { policies, credentialReader, schema, quality } = services;
  const { identity } = session;
  const changesOwn = isOwn(identity, target.id);
  if (!changesOwn) requireNoReset(identity);
  const found = policies.of(target.id, credentials);
  const policy = isPromise(found) ? await found : found;
  const { clear, requireOld, writesReset } = requested;
  const after = credentialsAfter(schema, credentials.passwords, changes);
  const keepsOld = credentials.passwords.some((value) => after.some((other) => other.equals(value)));
  if (policy && identity.kind !== 'admin') {
    const change = {
      isOwn: changesOwn,
      clear,
      requireOld,
      keepsOld,
      names: credentialReader.namesIn(target.row),
      dn,
    };
    await refuseByPolicy(policy, credentials, change, { matches, quality, source: new OperationSource(context) });
  } else await requireOld?.();
  // A user who keeps the old password does not count as having changed the password.
  const setsPasswords = clear.length > 0 && !(changesOwn && keepsOld);
  return {
    requested: changes,
    added: operationalChanges(
      policy,
      credentials,
      { isOwn: changesOwn, passwordsAfter: after, setsPasswords, writesReset },
      Date.now(),
    ),
  };
}

/**
 * Whether a password sent in a session is a password of the entry, which `matches` verifies. A wrong password counts as
 * a failed bind. On an account that failed binds have locked no password is right.
 */
export async function verifyInSession(
  { services: { policies, partition }, session }: Context,
  id: Buffer,
  credentials: RowCredentials,
  matches: () => Maybe<Buffer | boolean | undefined>,
): Promise<boolean> {
  const policy = session.identity.kind === 'admin' ? undefined : await policies.forBinds(id, credentials);
  const login = policy && new Login(partition, id, policy, credentials);
  if (await login?.isLocked()) return false;
  if (await matches()) return !(await login?.isLocked());
  await login?.fail();
  return false;
}
