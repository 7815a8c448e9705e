import type { Modification } from '../../ldap/ldap-types.js';
import type { KeptChanges, Target } from '../../partition/model/directory-types.js';
import type { Matches } from '../../password/index.js';
import { credentialsAfter, type RowCredentials } from '../passwords/credentials.js';
import { keptWith } from '../passwords/kept-attributes.js';
import { Login } from '../passwords/login.js';
import { refuseByPolicy } from '../passwords/password-rules.js';
import { isPromise, type Maybe } from '../words/maybe.js';
import { isOwn, sourceOf } from './access.js';
import type { Context } from './context.js';
import { requireNoReset } from './password-policy.js';

/** A change of userPassword as a client asks for it. */
export interface AskedPasswords {
  /** New passwords in the clear; undefined for each that came hashed. */
  readonly given: readonly (Buffer | undefined)[];
  /** Throws where the old password that comes with them is wrong; undefined: none does. */
  readonly requireOld: (() => Promise<void>) | undefined;
  /** Whether the request itself writes pwdReset. */
  readonly saysReset: boolean;
}

/**
 * The changes, as they are to be stored, of the passwords of the entry that an attempt has read, with what the server
 * keeps of it. Throws what its password policy has against them.
 */
export async function passwordChanges(
  context: Context,
  target: Target,
  dn: string,
  own: RowCredentials,
  asked: AskedPasswords,
  changes: readonly Modification[],
  matches: Matches,
): Promise<KeptChanges> {
  const { services, session } = context;
  const { policies, credentials, schema, quality } = services;
  const { identity } = session;
  const isTheirs = isOwn(identity, target.id);
  if (!isTheirs) requireNoReset(identity);
  const found = policies.of(target.id, own);
  const policy = isPromise(found) ? await found : found;
  const { given, requireOld, saysReset } = asked;
  const after = credentialsAfter(schema, own.passwords, changes);
  const keepsOld = own.passwords.some((value) => after.some((other) => other.equals(value)));
  if (policy && identity.kind !== 'admin') {
    const change = { isOwn: isTheirs, given, requireOld, keepsOld, names: credentials.namesIn(target.row), dn };
    await refuseByPolicy(policy, own, change, { matches, quality, source: sourceOf(context) });
  } else await requireOld?.();
  // An owner whose old password still binds has changed nothing.
  const brings = given.length > 0 && !(isTheirs && keepsOld);
  return {
    asked: changes,
    kept: keptWith(policy, own, { isOwn: isTheirs, after, brings, saysReset }, Date.now()),
  };
}

/**
 * Whether a password that comes in a session is the entry's, as `matches` says. A wrong one counts as a failed bind;
 * where those have locked the account none is right.
 */
export async function isRight(
  { services: { policies, partition }, session }: Context,
  id: Buffer,
  own: RowCredentials,
  matches: () => Maybe<Buffer | boolean | undefined>,
): Promise<boolean> {
  const policy = session.identity.kind === 'admin' ? undefined : await policies.ofBinds(id, own);
  const login = policy && new Login(partition, id, policy, own);
  if (await login?.isLocked()) return false;
  if (await matches()) return !(await login?.isLocked());
  await login?.fail();
  return false;
}
