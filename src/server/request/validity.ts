import { LdapError } from '../../ldap/ldap-error.js';
import { type RowCredentials, sameValues } from '../passwords/credentials.js';
import type { Services } from '../services/services.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import type { Identity, Session } from '../words/session.js';

type UserIdentity = Extract<Identity, { kind: 'user' }>;

/**
 * Whether what the session was bound with still holds: the user's entry is there and its passwords are those that it
 * had, the administrator's password is the one that was verified. Called before every operation; costs one read of a
 * counter. A DN that has changed is taken over.
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
  const version = services.partition.versionOf(identity.id);
  if (isPromise(version))
    return version.then((v) => isAsRead(services, identity, v) || readAgain(services, session, identity));
  return isAsRead(services, identity, version) || readAgain(services, session, identity);
}

function isAsRead({ partition }: Services, identity: UserIdentity, version: bigint | undefined): boolean {
  return version === identity.version && partition.treeGeneration === identity.generation;
}

/** The entry has changed, or one of those above it its name: its DN is taken over, its passwords are compared. */
async function readAgain(services: Services, session: Session, identity: UserIdentity): Promise<boolean> {
  const generation = services.partition.treeGeneration;
  const entry = await services.partition.readById(identity.id);
  if (session.identity !== identity) return true;
  if (!entry) return false;
  const { version, passwords } = services.credentials.ofRow(entry.row);
  const expected = await replaced(services, identity, passwords);
  if (session.identity !== identity) return true;
  // Whose change under way it is shows when that has ended: nothing is taken over before.
  if (!sameValues(expected, passwords)) return isComing(session, passwords);
  const copies = passwords.map((value) => Buffer.from(value));
  session.identity = { kind: 'user', dn: entry.dn, generation, id: identity.id, version, passwords: copies };
  return true;
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
  { passwords, siblings }: Services,
  { id, passwords: known }: UserIdentity,
  present: readonly Buffer[],
): Promise<readonly Buffer[]> {
  const among = (value: Uint8Array | undefined): Buffer | undefined =>
    present.find((other) => value !== undefined && other.equals(value));
  return Promise.all(
    known.map(async (stored) => {
      if (among(stored)) return stored;
      const own = passwords.upgraded(id, stored);
      if (!siblings || siblings.alone || among(own)) return own;
      const answers = await siblings.ask({ about: 'upgraded', id, stored });
      const theirs = answers.map(({ upgraded }) => among(upgraded)).find((value) => value !== undefined);
      return theirs ? Buffer.from(theirs) : own;
    }),
  );
}

/**
 * Throws where the identity that a request came under holds no longer, in an attempt to change or to ask for passwords:
 * by what the attempt has read of the user's entry (`own`), or by the administrator's password of now. What the session
 * has stored itself since the request came counts for it.
 */
export async function requireHeld(
  services: Services,
  session: Session,
  asked: Identity,
  own: RowCredentials,
): Promise<void> {
  const identity = isSame(session.identity, asked) ? session.identity : asked;
  if (!(await isHeld(services, session, identity, own))) throw outlived();
}

async function isHeld(services: Services, session: Session, identity: Identity, own: RowCredentials): Promise<boolean> {
  if (identity.kind === 'anonymous') return true;
  if (identity.kind === 'user')
    return (
      own.version === identity.version || sameValues(await replaced(services, identity, own.passwords), own.passwords)
    );
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
  if (version > identity.version) session.identity = { ...identity, version, passwords: credentials };
}
