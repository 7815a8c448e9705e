import type { Modification } from '../../ldap/ldap-types.js';
import type { KeptChanges, Target } from '../../partition/model/directory.js';
import type { Matches } from '../../password/index.js';
import type { RowCredentials } from '../passwords/credentials.js';
import { keptWith } from '../passwords/kept-attributes.js';
import { refuseByPolicy } from '../passwords/password-rules.js';
import { isPromise } from '../words/maybe.js';
import { isOwn, sourceOf } from './access.js';
import type { Context } from './context.js';
import { requireNoReset } from './password-policy.js';

/** A change of userPassword as a client asks for it. */
export interface AskedPasswords {
  /** New passwords in the clear; undefined for each that came hashed. */
  readonly given: readonly (Buffer | undefined)[];
  /** The old password comes with them. */
  readonly hasOld: boolean;
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
  const { policies, credentials, passwords, quality } = services;
  const { identity } = session;
  const isTheirs = isOwn(identity, target.id);
  if (!isTheirs) requireNoReset(identity);
  const found = policies.of(target.id, own);
  const policy = isPromise(found) ? await found : found;
  const { given, hasOld, saysReset } = asked;
  if (policy && identity.kind !== 'admin') {
    const change = { isOwn: isTheirs, given, hasOld, names: credentials.namesIn(target.row), dn };
    await refuseByPolicy(policy, own, change, { matches, quality, source: sourceOf(context) });
  }
  const after = passwords.credentialsAfter(own.passwords, changes);
  const brings = given.length > 0;
  return { asked: changes, kept: keptWith(policy, own, { isOwn: isTheirs, after, brings, saysReset }, Date.now()) };
}
