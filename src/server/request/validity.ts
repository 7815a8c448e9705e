import { LdapError } from '../../ldap/ldap-error.js';
import { isHolding } from '../passwords/account-lock.js';
import { applicationPasswordsOf } from '../passwords/application-password.js';
import { type RowCredentials, sameValues } from '../passwords/credentials.js';
import { endOfSessions, isOutsideDates, stateOf } from '../passwords/standing.js';
import type { Services } from '../services/services.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import type { Identity, Session } from '../words/session.js';

type UserIdentity = Extract<Identity, { kind: 'user' }>;

/**
 * Whether what the session was bound with still holds: the user's entry is there, not locked, and its passwords are
 * those that it had, the administrator's password is the one that was verified. Called before every operation; costs
 * one read of a counter, which operations of one moment share. A DN that has changed is taken over.
 */
export function stillHolds(services: Services, session: Session): Maybe<boolean> {
  const { identity } = session;
  if (identity.kind === 'anonymous') return true;
  if (identity.kind === 'admin') {
    return chain(
      services.partition.adminPassword(),
      (stored) => stored.equals(identity.password) || isComing(session, [stored]),
    );
  }
  if (isHeldNow(services, session)) return isBefore(identity) || readAgain(services, session, identity);
  const version = services.partition.versionOf(identity.id);
  if (isPromise(version))
    return version.then((v) => isAsRead(services, identity, v) || readAgain(services, session, identity));
  if (!isAsRead(services, identity, version)) return readAgain(services, session, identity);
  const { moment } = services.partition;
  session.held = moment === undefined ? undefined : { identity, moment };
  return true;
}

/** Whether an operation of the same moment has found it so. */
function isHeldNow({ partition }: Services, { held, identity }: Session): boolean {
  return held !== undefined && held.moment === partition.moment && held.identity === identity;
}

function isAsRead({ partition }: Services, identity: UserIdentity, version: bigint | undefined): boolean {
  return isBefore(identity) && version === identity.version && partition.treeGeneration === identity.generation;
}

function isBefore({ until }: UserIdentity): boolean {
  return Date.now() < until;
}

/** The entry has changed, or one of those above it its name: its DN is taken over, its passwords are compared. */
async function readAgain(services: Services, session: Session, identity: UserIdentity): Promise<boolean> {
  const generation = services.partition.treeGeneration;
  const entry = await services.partition.readById(identity.id);
  if (session.identity !== identity) return true;
  if (!entry) return false;
  const own = services.credentials.ofRow(entry.row);
  const { passwords, account } = own;
  const now = Date.now();
  const policy = await services.policies.ofBinds(identity.id, own);
  if (isHolding(own.lock, policy, now) || isOutsideDates(account, now)) return false;
  const isKept = await keepsCredentials(services, identity, own);
  if (session.identity !== identity) return true;
  // Whose change under way it is shows when that has ended: nothing is taken over before.
  if (!isKept) return !identity.application && isComing(session, passwords);
  const state = stateOf(account, policy?.maxAge ? await services.partition.accountState(identity.id) : undefined);
  if (session.identity !== identity) return true;
  const expires = policy && endOfSessions(policy, account, state, now);
  session.identity = userOf(identity.id, entry.dn, generation, own, identity.application, expires);
  return isBefore(session.identity);
}

/** Whether the entry still has what the identity has bound with: its passwords, or its application password. */
async function keepsCredentials(
  services: Services,
  identity: UserIdentity,
  { passwords, applications }: RowCredentials,
): Promise<boolean> {
  const { application } = identity;
  if (application) return applications.some((value) => value.equals(application));
  return sameValues(await replaced(services, identity, passwords), passwords);
}

/** Who has bound as the entry, or goes on as it; `expires`: when the password does, with all that is granted after. */
export function userOf(
  id: Buffer,
  dn: string,
  generation: number,
  { version, passwords, account }: RowCredentials,
  application: Buffer | undefined,
  expires: number | undefined,
): UserIdentity {
  const copies = passwords.map((value) => Buffer.from(value));
  const known = { kind: 'user', dn, generation, id, version, passwords: copies } as const;
  const ends = [account?.end, application ? applicationPasswordsOf([application])[0]?.expires : expires];
  const until = Math.min(...ends.filter((time) => time !== undefined));
  // What has to be changed is the password: an application can do nothing about it.
  const mustChange = !application && (account?.reset ?? false);
  return { ...known, application: application && Buffer.from(application), mustChange, until };
}

/** Whether the entry itself says that nobody binds with its passwords. */
async function isLocked({ policies }: Services, id: Buffer, own: RowCredentials): Promise<boolean> {
  return own.lock !== undefined && isHolding(own.lock, await policies.ofBinds(id, own), Date.now());
}

function isComing(session: Session, stored: readonly Buffer[]): boolean {
  for (const credentials of session.coming) if (sameValues(credentials, stored)) return true;
  return false;
}

/**
 * The passwords that the session remembers, with those in place of which this server itself has put stronger hashes of
 * them.
 */
async function replaced(
  { upgrades, siblings }: Services,
  { id, passwords: known }: UserIdentity,
  present: readonly Buffer[],
): Promise<readonly Buffer[]> {
  const among = (value: Uint8Array | undefined): Buffer | undefined =>
    present.find((other) => value !== undefined && other.equals(value));
  return Promise.all(
    known.map(async (stored) => {
      if (among(stored)) return stored;
      const own = upgrades.currentOf(id, stored);
      if (!siblings || siblings.alone || among(own)) return own;
      const answers = await siblings.ask({ about: 'upgraded', id, stored });
      const theirs = answers.map(({ upgraded }) => among(upgraded)).find((value) => value !== undefined);
      return theirs ? Buffer.from(theirs) : own;
    }),
  );
}

/**
 * Throws where the identity that a request came under holds no longer, in an attempt to change or to ask for passwords:
 * by what the attempt has read of the user's entry (`own`, where it is the one that is changed), or by the
 * administrator's password of now. What the session has stored itself since the request came counts for it.
 */
export async function requireHeld(
  services: Services,
  session: Session,
  asked: Identity,
  { id, own }: { readonly id: Buffer; readonly own: RowCredentials },
): Promise<void> {
  const identity = isSame(session.identity, asked) ? session.identity : asked;
  const isOfAnother = identity.kind === 'user' && !identity.id.equals(id);
  const held = isOfAnother ? await credentialsOf(services, identity) : own;
  if (!held || !(await isHeld(services, session, identity, held))) throw outlived();
}

async function credentialsOf(
  { partition, credentials }: Services,
  { id }: UserIdentity,
): Promise<RowCredentials | undefined> {
  const entry = await partition.readById(id);
  return entry && credentials.ofRow(entry.row);
}

async function isHeld(services: Services, session: Session, identity: Identity, own: RowCredentials): Promise<boolean> {
  if (identity.kind === 'anonymous') return true;
  if (identity.kind === 'user') {
    if (own.version === identity.version) return true;
    return !(await isLocked(services, identity.id, own)) && (await keepsCredentials(services, identity, own));
  }
  const stored = await services.partition.adminPassword();
  return stored.equals(identity.password) || isComing(session, [stored]);
}

function isSame(one: Identity, other: Identity): boolean {
  if (one.kind === 'user' && other.kind === 'user') return one.id.equals(other.id);
  return one.kind === other.kind;
}

/** What refuses a request whose bind holds no longer. */
export function outlived(): LdapError {
  return new LdapError(
    'insufficientAccessRights',
    'the password or the entry that this connection has bound with has changed; bind again',
  );
}

/**
 * Runs a change of the session's own credentials: the bind goes on with what it stores, and with nothing that somebody
 * else stores at the same time. `work` tells `willStore` in each attempt what will be stored, and under which version
 * of the entry. Those of a user take turns.
 */
export function keepingBind<T>(session: Session, work: (willStore: WillStore) => Promise<T>): Promise<T> {
  return session.identity.kind === 'user' ? session.inTurn(() => keeping(session, work)) : keeping(session, work);
}

type WillStore = (credentials: readonly Buffer[], version: bigint) => void;

async function keeping<T>(session: Session, work: (willStore: WillStore) => Promise<T>): Promise<T> {
  let last: { readonly credentials: readonly Buffer[]; readonly version: bigint } | undefined;
  const before = session.identity;
  const told: (readonly Buffer[])[] = [];
  try {
    const result = await work((credentials, version) => {
      last = { credentials, version };
      told.push(credentials);
      session.coming.add(credentials);
    });
    if (last) takeOver(session, before, last.credentials, last.version);
    return result;
  } finally {
    for (const credentials of told) session.coming.delete(credentials);
  }
}

function takeOver(session: Session, before: Identity, credentials: readonly Buffer[], version: bigint): void {
  const { identity } = session;
  if (identity.kind === 'admin' && before.kind === 'admin')
    session.identity = { ...identity, password: credentials[0]! };
  if (identity.kind !== 'user' || before.kind !== 'user' || !identity.id.equals(before.id)) return;
  if (version > identity.version)
    // What the new password says of its end is read before the next operation.
    session.identity = { ...identity, version, passwords: credentials, mustChange: false, until: 0 };
}
