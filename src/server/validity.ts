import { sameValues } from './credentials.js';
import { isPromise, type Maybe } from './maybe.js';
import type { Services } from './services.js';
import type { Identity, Session } from './session.js';

/**
 * Whether what the session was bound with still holds: the user's entry is there and its passwords are those that it
 * had, the administrator's password is the one that was verified. Called before every operation; costs one read of a counter.
 */
export function stillHolds(services: Services, session: Session): Maybe<boolean> {
  const { identity } = session;
  if (identity.kind === 'anonymous') return true;
  if (identity.kind === 'admin') {
    const stored = services.partition.adminPassword();
    return isPromise(stored) ? stored.then((s) => s.equals(identity.password)) : stored.equals(identity.password);
  }
  const version = services.partition.versionOf(identity.id);
  if (isPromise(version)) return version.then((v) => v === identity.version || readAgain(services, session, identity));
  return version === identity.version || readAgain(services, session, identity);
}

/** The entry has changed: its DN is taken over, its passwords are compared. */
async function readAgain(
  services: Services,
  session: Session,
  identity: Extract<Identity, { kind: 'user' }>,
): Promise<boolean> {
  const entry = await services.partition.readById(identity.id);
  if (session.identity !== identity) return true;
  if (!entry) return false;
  const { version, passwords } = services.credentials.ofRow(entry.row);
  const expected = await replaced(services, identity, passwords);
  if (session.identity !== identity) return true;
  if (!sameValues(expected, passwords)) return false;
  session.identity = { kind: 'user', dn: entry.dn, id: identity.id, version, passwords: expected };
  return true;
}

/** The passwords that the session remembers, with those in place of which this server itself has put stronger hashes of them. */
async function replaced(
  { passwords, siblings }: Services,
  { id, passwords: known }: Extract<Identity, { kind: 'user' }>,
  present: readonly Buffer[],
): Promise<readonly Buffer[]> {
  const among = (value: Uint8Array | undefined): Buffer | undefined =>
    present.find((other) => value !== undefined && other.equals(value));
  return Promise.all(
    known.map(async (stored) => {
      const own = passwords.upgraded(id, stored);
      if (!siblings || among(own)) return own;
      const answers = await siblings.ask({ about: 'upgraded', id, stored });
      const theirs = answers.map(({ upgraded }) => among(upgraded)).find((value) => value !== undefined);
      return theirs ? Buffer.from(theirs) : own;
    }),
  );
}

/** After the session has itself changed its own password: the bind goes on with what is stored now. */
export async function renew(services: Services, session: Session): Promise<void> {
  const { identity } = session;
  if (identity.kind === 'admin') {
    session.identity = { ...identity, password: await services.partition.adminPassword() };
  } else if (identity.kind === 'user') {
    const entry = await services.partition.readById(identity.id);
    if (!entry || session.identity !== identity) return;
    const { version, passwords } = services.credentials.ofRow(entry.row);
    session.identity = { ...identity, version, passwords: passwords.map((value) => Buffer.from(value)) };
  }
}
