import type { Right } from '../../access/right.js';
import { LdapError } from '../../ldap/ldap-error.js';
import { chain, isPromise, type Maybe, UNLIMITED_SEARCH } from '../../partition/index.js';
import type { Access, CheckedEntry, Move, WriteRequest } from '../../partition/model/directory-types.js';
import { UNRESTRICTED, type Viewer } from '../../partition/model/viewer.js';
import type { Source } from '../../password/index.js';
import type { Request } from '../../protocol/ldap-messages.js';
import type { BoundReplica } from '../../replica/primary.js';
import type { Dn } from '../../schema/schema-types.js';
import type { ServedActor } from '../services/services.js';
import type { Identity, Session, SessionRights } from '../words/session.js';
import type { Context } from './context.js';
import { type RightsContext, rightsOf, sessionRights } from './rights.js';

/**
 * The access rules of the directory decide which client may do which operation (docs/access.md); the administrator is
 * not subject to the rules. All clients may read the root DSE and cn=Subschema, bind, start TLS and use Who Am I.
 */

/** The rights of which a kind of operation needs at least one on some entry. */
const REQUIRED_RIGHTS: Readonly<Partial<Record<Request['op'], readonly Right[]>>> = {
  add: ['create'],
  delete: ['remove'],
  modifyDN: ['rename', 'moveOut'],
  modify: ['add', 'delete', 'replace'],
};

/**
 * Returns the error that refuses every operation of the kind `op`, so that a request can be refused before all of it
 * has arrived; undefined: none, or the rights are not known yet.
 */
export function refusalByKind(context: RightsContext, op: Request['op']): LdapError | undefined {
  const requiredRights = REQUIRED_RIGHTS[op];
  if (!requiredRights) return undefined;
  const rights = sessionRights(context);
  if (!isPromise(rights)) {
    // The request may run as another identity.
    if (!rights || rights.rights.mayAnywhere('proxy')) return undefined;
    return missingRightsError(rights, requiredRights);
  }
  // The operation reads the rights again and reports the error then.
  rights.catch(() => undefined);
  return undefined;
}

function missingRightsError({ rights }: SessionRights, requiredRights: readonly Right[]): LdapError | undefined {
  return requiredRights.some((right) => rights.mayAnywhere(right))
    ? undefined
    : rights.nowhereError(requiredRights[0]!);
}

/** Returns the rights of the operation's identity; undefined: the administrator. */
export function requestRights({ session }: Context): SessionRights | undefined {
  if (session.identity.kind === 'admin') return undefined;
  if (!session.rights) throw new TypeError('an operation has begun before its rights were known');
  return session.rights;
}

/** Throws when the session has none of the rights that a kind of operation requires. */
export function requireRightsFor(context: Context, op: Request['op']): void {
  const rights = requestRights(context);
  const error = rights && missingRightsError(rights, REQUIRED_RIGHTS[op]!);
  if (error) throw error;
}

/** Returns the viewer for all reads of an operation. Throws when the session may read nothing. */
export function viewerOf(context: Context): Viewer {
  const rights = requestRights(context)?.rights;
  if (!rights) return UNRESTRICTED;
  if (!rights.mayAnywhere('see')) throw rights.nowhereError('see');
  return rights.viewer;
}

function identityRefusal({ kind }: Identity, action: string): LdapError {
  const subject = kind === 'anonymous' ? 'anonymous clients may not' : 'only the administrator may';
  const remedy = kind === 'anonymous' ? '; bind first' : '';
  return new LdapError('insufficientAccessRights', `${subject} ${action}${remedy}`);
}

export function requireBound(session: Session, action: string): void {
  if (session.identity.kind === 'anonymous') throw identityRefusal(session.identity, action);
}

/** Returns the replica that sends the request. Rejects if none is bound, or if it may follow no longer. */
export async function requireReplica({
  services,
  session,
}: Pick<Context, 'services' | 'session'>): Promise<BoundReplica> {
  if (session.replica === undefined)
    throw new LdapError('insufficientAccessRights', 'only replicas may do so; see "rowan replica grant"');
  await services.primary.requireGrant(session.replica);
  return session.replica;
}

export function requireAdmin(session: Session, action: string): void {
  if (session.identity.kind !== 'admin') throw identityRefusal(session.identity, action);
}

/** Whether `id` is the entry that the session is bound as. */
export function isOwn(identity: Identity, id: Buffer | undefined): boolean {
  return identity.kind === 'user' && id !== undefined && identity.id.equals(id);
}

/** Throws when `passwords.requireTls` is set and the connection uses neither TLS nor a local socket. */
export function requireConfidential({ services, transport }: Context): void {
  if (!services.config.passwords.requireTls || transport.isConfidential) return;
  throw new LdapError('confidentialityRequired', 'passwords are accepted under TLS only; use StartTLS or ldaps://');
}

/** Returns the actor for all writes of an operation, with the rights of its session. */
export function actorOf(context: Context): ServedActor {
  const { session, controls } = context;
  const { dn } = session;
  if (controls.relax) requireAdmin(session, 'relax the rules of writing');
  context.givenNumbers ??= new Map();
  const { givenNumbers } = context;
  const access = session.isAdmin ? UNRESTRICTED_ACCESS : new SessionAccess(context);
  return { dn, access, givenNumbers, isRelaxed: controls.relax };
}

/** Access of the administrator, without restrictions. */
const UNRESTRICTED_ACCESS: Access = {
  renew: () => undefined,
  version: undefined,
  viewer: UNRESTRICTED,
  checkRequest: () => undefined,
  checkTarget: () => undefined,
  checkNewEntry: () => undefined,
  checkMove: () => undefined,
};

/** Access of the identity that sent the request. The partition checks it in each attempt of a write. */
class SessionAccess implements Access {
  readonly #context: Context;
  readonly #identity: Identity;
  #rights: Access;

  constructor(context: Context) {
    this.#context = context;
    this.#identity = context.session.identity;
    this.#rights = context.session.rights!.rights;
  }

  renew(): Maybe<void> {
    return chain(rightsOf(this.#context, this.#identity), (rights) => {
      this.#rights = rights?.rights ?? UNRESTRICTED_ACCESS;
    });
  }

  get version(): number | undefined {
    return this.#rights.version;
  }

  get viewer(): Viewer {
    return this.#rights.viewer;
  }

  checkRequest(asked: WriteRequest): LdapError | undefined {
    return this.#rights.checkRequest(asked);
  }

  checkTarget(asked: WriteRequest, entry: CheckedEntry): LdapError | undefined {
    return this.#rights.checkTarget(asked, entry);
  }

  checkNewEntry(asked: WriteRequest, entry: CheckedEntry): LdapError | undefined {
    return this.#rights.checkNewEntry(asked, entry);
  }

  checkMove(moved: Move): LdapError | undefined {
    return this.#rights.checkMove(moved);
  }
}

/** An operation as the source of slow work. The work is charged to `dn`, or else to the session's identity. */
export class OperationSource implements Source {
  readonly #context: Context;
  readonly #dn: Dn | undefined;
  readonly #sessionKey: string;

  constructor(context: Context, dn?: Dn) {
    this.#context = context;
    this.#dn = dn;
    this.#sessionKey = dn ? '' : context.session.key;
  }

  get identity(): string {
    return this.#dn ? this.#dn.norm.toString('latin1') : this.#sessionKey;
  }

  get network(): string {
    return this.#context.transport.network;
  }

  /** An object that is unique to the connection. */
  get connection(): object {
    return this.#context.session;
  }

  get isGone(): boolean {
    return this.#context.aborted;
  }

  onGone(callback: () => void): () => void {
    return this.#context.onAbortWhileWaiting(callback);
  }
}

/** Resolves an identity in a request: `dn:` with a DN, `u:` with a uid, or a DN alone. */
export async function namedIdentity(context: Context, identity: string): Promise<Dn> {
  const { schema } = context.services;
  if (/^u:/i.test(identity)) return findUser(context, identity.slice(2));
  return schema.parseDn(identity.replace(/^dn:/i, ''));
}

async function findUser(context: Context, uid: string): Promise<Dn> {
  const { partition, schema } = context.services;
  const viewer = viewerOf(context);
  const foundDns: string[] = [];
  for (const base of partition.suffixes) {
    const filter = { type: 'equal', attribute: 'uid', value: Buffer.from(uid) } as const;
    const params = { ...UNLIMITED_SEARCH, viewer, base, scope: 'sub', filter, pageSize: 2 } as const;
    await partition.search(
      { ...params, deadline: performance.now() + 10_000, lookLimit: 10_000 },
      { entry: (hit) => void foundDns.push(hit.dn.toString()), reference: () => undefined },
    );
  }
  if (foundDns.length !== 1)
    throw new LdapError('noSuchObject', `'u:${uid}' does not name exactly one entry by its uid`);
  return schema.parseDn(foundDns[0]!);
}
