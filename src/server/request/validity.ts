import { LdapError } from '../../ldap/ldap-error.js';
import { chain, isPromise, type Maybe } from '../../partition/index.js';
import { unaffordableValues } from '../../password/index.js';
import { isLockInForce } from '../passwords/account-lock.js';
import { effectiveState, isOutsideDates, sessionExpiry } from '../passwords/account-status.js';
import { parseApplicationPasswords } from '../passwords/application-password.js';
import { type RowCredentials, sameValues } from '../passwords/credentials.js';
import { mustChange } from '../passwords/row-account.js';
import type { Services } from '../services/services.js';
import type { Identity, Session } from '../words/session.js';

type UserIdentity = Extract<Identity, { kind: 'user' }>;

/**
 * Whether the session's bind is still valid. A user's bind is valid while the entry exists, is not locked and has the
 * same passwords. The administrator's bind is valid while the password that was verified is one of the administrator's.
 * Called before every operation. Costs one read of a counter, which operations of the same moment share. Adopts a
 * changed DN.
 */
export function isBindValid(services: Services, session: Session): Maybe<boolean> {
  const { identity } = session;
  if (identity.kind === 'anonymous') return true;
  if (identity.kind === 'admin') return isAdminValid(services, session, identity.password);
  if (isValidNow(services, session)) return isUnexpired(identity) || revalidate(services, session, identity);
  const version = services.partition.versionOf(identity.id);
  if (isPromise(version))
    return version.then((v) => isEntryUnchanged(services, identity, v) || revalidate(services, session, identity));
  if (!isEntryUnchanged(services, identity, version)) return revalidate(services, session, identity);
  const { moment } = services.partition;
  session.lastValidation = moment === undefined ? undefined : { identity, moment };
  return true;
}

/** Whether the administrator may still bind with `password`, as it was stored when it was verified. */
function isAdminValid(services: Services, session: Session, password: Buffer): Maybe<boolean> {
  return chain(services.partition.adminPassword(), (own) => {
    if (own.equals(password) || isBeingStored(session, [own])) return true;
    return chain(
      administratorPasswords(services),
      ([, ...entryPasswords]) =>
        entryPasswords.some((stored) => stored.equals(password)) || isBeingStored(session, entryPasswords),
    );
  });
}

/**
 * Returns the stored passwords that the administrator may bind with: the administrator's own, then those of the entry
 * with the administrator's DN. Those of an entry with a second factor are no passwords of the administrator, nor are
 * those that cost too much beside the own one, which a bind then would not try.
 */
export function administratorPasswords(services: Services): Maybe<readonly Buffer[]> {
  const { partition, admin, credentialReader, hashing } = services;
  return chain(partition.adminPassword(), (own) =>
    chain(partition.findRow(admin), (found) => {
      const credentials = found && credentialReader.read(found.row);
      if (!credentials || credentials.totp) return [own];
      const costlyValues = unaffordableValues(credentials.passwords, [own], hashing.policy);
      return [own, ...credentials.passwords.filter((value) => !costlyValues.includes(value))];
    }),
  );
}

/** Whether an operation of the same moment has found the bind valid. */
function isValidNow({ partition }: Services, { lastValidation: lastValid, identity }: Session): boolean {
  return lastValid !== undefined && lastValid.moment === partition.moment && lastValid.identity === identity;
}

function isEntryUnchanged({ partition }: Services, identity: UserIdentity, version: bigint | undefined): boolean {
  return isUnexpired(identity) && version === identity.version && partition.treeGeneration === identity.generation;
}

function isUnexpired({ validUntil: until }: UserIdentity): boolean {
  return Date.now() < until;
}

/** Reads the user's entry after a change of the entry or of a DN above it; compares passwords and adopts the DN. */
async function revalidate(services: Services, session: Session, identity: UserIdentity): Promise<boolean> {
  const generation = services.partition.treeGeneration;
  const entry = await services.partition.readById(identity.id);
  if (session.identity !== identity) return true;
  if (!entry) return false;
  const credentials = services.credentialReader.read(entry.row);
  const { passwords, account } = credentials;
  const now = Date.now();
  const policy = await services.policies.forBinds(identity.id, credentials);
  if (isLockInForce(credentials.lock, policy, now) || isOutsideDates(account, now)) return false;
  const isKept = await keepsCredentials(services, identity, credentials);
  if (session.identity !== identity) return true;
  // The session may itself be storing these passwords. The identity is updated only after that write has ended.
  if (!isKept) return !identity.application && isBeingStored(session, passwords);
  const state = effectiveState(
    credentials,
    policy?.maxAge ? await services.partition.accountState(identity.id) : undefined,
  );
  if (session.identity !== identity) return true;
  const sessionEnd = policy && sessionExpiry(policy, account, state, now);
  session.identity = userIdentity(identity.id, entry.dn, generation, credentials, identity.application, sessionEnd);
  return isUnexpired(session.identity);
}

/** Whether the entry still has the passwords, or the application password, that the identity has bound with. */
async function keepsCredentials(
  services: Services,
  identity: UserIdentity,
  { passwords, applications }: RowCredentials,
): Promise<boolean> {
  const { application } = identity;
  if (application) return applications.some((value) => value.equals(application));
  return sameValues(await upgradedPasswords(services, identity, passwords), passwords);
}

/** Returns the identity of a bound user. `sessionEnd`: when the password and the grace period after it end. */
export function userIdentity(
  id: Buffer,
  dn: string,
  generation: number,
  { version, passwords, account }: RowCredentials,
  application: Buffer | undefined,
  sessionEnd: number | undefined,
): UserIdentity {
  const copies = passwords.map((value) => Buffer.from(value));
  const identityFields = { kind: 'user', dn, generation, id, version, passwords: copies } as const;
  const endTimes = [account?.end, application ? parseApplicationPasswords([application])[0]?.expires : sessionEnd];
  const validUntil = Math.min(...endTimes.filter((time) => time !== undefined));
  // An application password may not change the password, so the session is not required to.
  const isChangeDue = !application && mustChange(account, Date.now());
  return {
    ...identityFields,
    application: application && Buffer.from(application),
    mustChange: isChangeDue,
    validUntil,
  };
}

/** Whether attributes of the entry lock its passwords. */
async function isLockedByAttribute({ policies }: Services, id: Buffer, credentials: RowCredentials): Promise<boolean> {
  return (
    credentials.lock !== undefined &&
    isLockInForce(credentials.lock, await policies.forBinds(id, credentials), Date.now())
  );
}

function isBeingStored(session: Session, stored: readonly Buffer[]): boolean {
  for (const credentials of session.pendingCredentials) if (sameValues(credentials, stored)) return true;
  return false;
}

/** Returns the passwords that the session has bound with, each replaced by the stronger hash of a later upgrade. */
async function upgradedPasswords(
  { upgrades, siblings }: Services,
  { id, passwords: known }: UserIdentity,
  present: readonly Buffer[],
): Promise<readonly Buffer[]> {
  const findPresent = (value: Uint8Array | undefined): Buffer | undefined =>
    present.find((other) => value !== undefined && other.equals(value));
  return Promise.all(
    known.map(async (stored) => {
      if (findPresent(stored)) return stored;
      const upgradedHash = upgrades.currentHash(id, stored);
      if (!siblings || siblings.isAlone || findPresent(upgradedHash)) return upgradedHash;
      const answers = await siblings.ask({ about: 'upgraded', id, stored });
      const siblingHash = answers
        .map(({ upgradedHash }) => findPresent(upgradedHash))
        .find((value) => value !== undefined);
      return siblingHash ? Buffer.from(siblingHash) : upgradedHash;
    }),
  );
}

/**
 * Throws when the bind of the identity that sent a request is no longer valid, in an attempt to change or compare
 * passwords. A bind as the changed entry is checked against `credentials`, which the attempt has read; the
 * administrator's bind against the current passwords. Passwords that the session itself has stored since the request
 * arrived are valid.
 */
export async function requireValidBind(
  services: Services,
  session: Session,
  requester: Identity,
  { id, credentials }: { readonly id: Buffer; readonly credentials: RowCredentials },
): Promise<void> {
  const identity = isSameUser(session.identity, requester) ? session.identity : requester;
  const isAnotherEntry = identity.kind === 'user' && !identity.id.equals(id);
  const currentCredentials = isAnotherEntry ? await readCredentials(services, identity) : credentials;
  if (!currentCredentials || !(await isValid(services, session, identity, currentCredentials))) throw outdatedBind();
}

async function readCredentials(
  { partition, credentialReader }: Services,
  { id }: UserIdentity,
): Promise<RowCredentials | undefined> {
  const entry = await partition.readById(id);
  return entry && credentialReader.read(entry.row);
}

async function isValid(
  services: Services,
  session: Session,
  identity: Identity,
  credentials: RowCredentials,
): Promise<boolean> {
  if (identity.kind === 'anonymous') return true;
  if (identity.kind === 'user') {
    if (credentials.version === identity.version) return true;
    return (
      !(await isLockedByAttribute(services, identity.id, credentials)) &&
      (await keepsCredentials(services, identity, credentials))
    );
  }
  return isAdminValid(services, session, identity.password);
}

function isSameUser(one: Identity, other: Identity): boolean {
  if (one.kind === 'user' && other.kind === 'user') return one.id.equals(other.id);
  return one.kind === other.kind;
}

/** Returns the error for a request whose bind is no longer valid. */
export function outdatedBind(): LdapError {
  return new LdapError(
    'insufficientAccessRights',
    'the password or the entry that this connection has bound with has changed; bind again',
  );
}

/**
 * Runs a change of the session's own credentials such that its bind remains valid with the new credentials. The bind
 * does not remain valid with credentials that another client stores at the same time. `work` calls `willStore` in each
 * attempt with the credentials to store and the version that the entry will have. Changes of one user run one at a
 * time.
 */
export function keepBindValid<T>(session: Session, work: (willStore: WillStore) => Promise<T>): Promise<T> {
  return session.identity.kind === 'user'
    ? session.runExclusively(() => trackCredentials(session, work))
    : trackCredentials(session, work);
}

type WillStore = (credentials: readonly Buffer[], version: bigint) => void;

async function trackCredentials<T>(session: Session, work: (willStore: WillStore) => Promise<T>): Promise<T> {
  let lastStored: { readonly credentials: readonly Buffer[]; readonly version: bigint } | undefined;
  const identityBefore = session.identity;
  const announcedCredentials: (readonly Buffer[])[] = [];
  try {
    const result = await work((credentials, version) => {
      lastStored = { credentials, version };
      announcedCredentials.push(credentials);
      session.pendingCredentials.add(credentials);
    });
    if (lastStored) adoptCredentials(session, identityBefore, lastStored.credentials, lastStored.version);
    return result;
  } finally {
    for (const credentials of announcedCredentials) session.pendingCredentials.delete(credentials);
  }
}

function adoptCredentials(
  session: Session,
  identityBefore: Identity,
  credentials: readonly Buffer[],
  version: bigint,
): void {
  const { identity } = session;
  if (identity.kind === 'admin' && identityBefore.kind === 'admin')
    session.identity = { ...identity, password: credentials[0] ?? identity.password };
  if (identity.kind !== 'user' || identityBefore.kind !== 'user' || !identity.id.equals(identityBefore.id)) return;
  if (version > identity.version)
    // `validUntil: 0` makes the next operation read when the new password expires.
    session.identity = { ...identity, version, passwords: credentials, mustChange: false, validUntil: 0 };
}
