import type { Modification, PartialAttribute } from '../../ldap/ldap-types.js';
import { isPromise, type Maybe } from '../../partition/index.js';
import { generalizedTime } from '../../partition/model/csn.js';
import type { SplitChanges, Target, WriteOptions } from '../../partition/model/directory-types.js';
import { clearText, PasswordMatcher, passwordKind } from '../../password/index.js';
import type { Dn } from '../../schema/schema-types.js';
import { Login } from '../passwords/account-status.js';
import { credentialsAfter, isCredential, type RowCredentials } from '../passwords/credentials.js';
import { daysOf, operationalChanges } from '../passwords/operational-changes.js';
import { PolicyRefusal } from '../passwords/password-hashing.js';
import {
  type PasswordChange,
  refuseByPolicy,
  refuseHashedByOwner,
  refuseTooYoung,
} from '../passwords/password-rules.js';
import { isOwn, OperationSource } from './access.js';
import type { Context } from './context.js';
import { requireNoReset } from './password-policy.js';

export interface RequestedPasswords extends Pick<PasswordChange, 'clearPasswords' | 'requireOldPassword'> {
  /** Whether the request itself writes pwdReset. */
  readonly writesReset: boolean;
  /** Whether the request itself writes shadowLastChange. */
  readonly writesShadow?: boolean;
  /** Whether the request replaces passwords by no value. */
  readonly replacesByNothing?: boolean;
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
  matcher: PasswordMatcher,
): Promise<SplitChanges> {
  const { services, session } = context;
  const { policies, credentialReader, schema, quality } = services;
  const { identity } = session;
  const isOwnEntry = isOwn(identity, target.id);
  if (!isOwnEntry) requireNoReset(identity);
  const policyLookup = policies.forAccount(target.id, credentials);
  const policy = isPromise(policyLookup) ? await policyLookup : policyLookup;
  const { clearPasswords, requireOldPassword, writesReset, writesShadow = false } = requested;
  const passwordsAfter = credentialsAfter(schema, credentials.passwords, changes);
  const keepsOldPassword = credentials.passwords.some((value) => passwordsAfter.some((other) => other.equals(value)));
  const leavesNone = credentials.passwords.length > 0 && passwordsAfter.length === 0;
  const isMeant = !requested.replacesByNothing && clearPasswords.length === 0;
  if (leavesNone && !isMeant && (policy || (identity.kind === 'user' && identity.mustChange)))
    throw new PolicyRefusal(
      'constraintViolation',
      'insufficientPasswordQuality',
      'the change leaves no password; give the new one, or delete userPassword alone to leave the entry without one',
    );
  if (policy && identity.kind !== 'admin') {
    const change = {
      isOwn: isOwnEntry,
      clearPasswords,
      requireOldPassword,
      keepsOldPassword,
      personNames: credentialReader.personNames(target.row),
      dn,
    };
    await refuseByPolicy(policy, credentials, change, { matcher, quality, source: new OperationSource(context) });
  } else {
    if (isOwnEntry) refuseTooYoung(credentials.account, 0, Date.now());
    await requireOldPassword?.();
  }
  if (isOwnEntry && !services.config.passwords.allowHashed) refuseHashedByOwner(requested);
  // A user who keeps the old password has not changed the password.
  const setsPasswords = clearPasswords.length > 0 && passwordsAfter.length > 0 && !(isOwnEntry && keepsOldPassword);
  return {
    clientChanges: changes,
    serverChanges: operationalChanges(
      policy,
      credentials,
      { isOwn: isOwnEntry, passwordsAfter, setsPasswords, writesReset, writesShadow },
      Date.now(),
    ),
  };
}

/** Returns a password that a client sent in the clear; undefined: it is a hash. */
export function clearPassword(value: Buffer): Buffer | undefined {
  return passwordKind(value) === 'clear' ? clearText(value) : undefined;
}

/**
 * Returns the check of a new entry with passwords by the policy that it will have (draft-behera-10 §8.2). The check
 * adds pwdChangedTime and shadowLastChange, unless the entry tells the age of its password. Returns undefined when
 * neither a policy nor shadow(5) can apply.
 */
export async function newEntryCheck(
  context: Context,
  dn: Dn,
  attributes: readonly PartialAttribute[],
): Promise<WriteOptions['completeNew']> {
  const { policies, credentialReader, schema, quality, config, hashing } = context.services;
  const descriptions = attributes.map(({ type }) => schema.describe(type));
  const clearPasswords = attributes.flatMap(({ values }, i) =>
    descriptions[i] && isCredential(descriptions[i]) ? values.map(clearPassword) : [],
  );
  if (clearPasswords.length === 0) return undefined;
  const namesPolicy = descriptions.some((description) => description?.type.name === 'pwdPolicySubentry');
  if (!namesPolicy && !config.passwords.shadow && !(await policies.mayAssign())) return undefined;
  return async ({ id, row }) => {
    const credentials = credentialReader.read(row);
    const policy = await policies.forAccount(id, credentials, { dn, row });
    if (policy && context.session.identity.kind !== 'admin') {
      const change = {
        isOwn: false,
        clearPasswords,
        requireOldPassword: undefined,
        keepsOldPassword: false,
        personNames: credentialReader.personNames(row),
        dn: dn.text,
      };
      const source = new OperationSource(context);
      const checks = { matcher: new PasswordMatcher(hashing.policy, source), quality, source };
      await refuseByPolicy(policy, credentials, change, checks);
    }
    const { changed, hasShadow, shadow } = credentials.account ?? {};
    const now = Date.now();
    // An administrator may tell the age of the password by shadowLastChange, others may not.
    const isGiven = changed !== undefined && (context.session.isAdmin || shadow?.lastChange === undefined);
    const age = policy && !isGiven ? [{ type: 'pwdChangedTime', values: [generalizedTime(now)] }] : [];
    const shadowAge = hasShadow ? [{ type: 'shadowLastChange', values: [daysOf(now)] }] : [];
    return [...age, ...shadowAge].map(({ type, values }) => ({
      type,
      values: values.map((text) => Buffer.from(text)),
    }));
  };
}

/**
 * Whether a password sent in a session is a password of the entry, which `matches` verifies. A wrong password counts as
 * a failed bind. On an account that failed binds have locked no password is right.
 */
export async function verifyInSession(
  { services: { policies, partition, hashing }, session }: Context,
  id: Buffer,
  credentials: RowCredentials,
  matches: () => Maybe<Buffer | boolean | undefined>,
): Promise<boolean> {
  const policy = session.identity.kind === 'admin' ? undefined : await policies.forBinds(id, credentials);
  const login = policy && new Login(partition, id, policy, credentials);
  if (await login?.isLocked()) return false;
  if (await matches()) return !(await login?.isLocked());
  await login?.recordFailure(hashing.policy);
  return false;
}
