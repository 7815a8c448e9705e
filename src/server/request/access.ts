import type { Right } from '../../access/right.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Access, Asked, MetEntry, Moved } from '../../partition/model/directory-types.js';
import { UNRESTRICTED, type Viewer } from '../../partition/model/viewer.js';
import type { Source } from '../../password/index.js';
import type { Request } from '../../protocol/ldap-messages.js';
import type { ServedActor } from '../services/services.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import type { Identity, Session, SessionRights } from '../words/session.js';
import type { Context } from './context.js';
import { type RightsContext, rightsOf, sessionRights } from './rights.js';

/**
 * Who may do what is said by the directory's access rules (docs/access.md); the administrator is above them. The root
 * DSE and cn=Subschema are anybody's to read, and anybody may bind, take up TLS and ask who it is.
 */

/** What an operation of a kind needs at least on some entry. */
const NEEDED: Readonly<Partial<Record<Request['op'], readonly Right[]>>> = {
  add: ['create'],
  delete: ['remove'],
  modifyDN: ['rename', 'moveOut'],
  modify: ['add', 'delete', 'replace'],
};

/**
 * What refuses an operation whatever it asks for: it can be told before the request has wholly come. Undefined also
 * where the rights are not at hand.
 */
export function refusalByKind(context: RightsContext, op: Request['op']): LdapError | undefined {
  const needed = NEEDED[op];
  if (!needed) return undefined;
  const rights = sessionRights(context);
  if (!isPromise(rights)) return rights && refusalOf(rights, needed);
  // The operation asks for them again, and is told then why it cannot have them.
  rights.catch(() => undefined);
  return undefined;
}

function refusalOf({ rights }: SessionRights, needed: readonly Right[]): LdapError | undefined {
  return needed.some((right) => rights.mayEver(right)) ? undefined : rights.nowhere(needed[0]!);
}

/** The rights that the operation's identity has; undefined: it is above rules. */
export function requestRights({ session }: Context): SessionRights | undefined {
  if (session.identity.kind === 'admin') return undefined;
  if (!session.rights) throw new TypeError('an operation has begun before its rights were known');
  return session.rights;
}

/** Throws what refuses an operation by its kind. */
export function requireKind(context: Context, op: Request['op']): void {
  const rights = requestRights(context);
  const error = rights && refusalOf(rights, NEEDED[op]!);
  if (error) throw error;
}

/** Who reads, for the session, and by what rights: the only way for an operation to read. Throws what refuses it. */
export function viewerOf(context: Context): Viewer {
  const rights = requestRights(context)?.rights;
  if (!rights) return UNRESTRICTED;
  if (!rights.mayEver('see')) throw rights.nowhere('see');
  return rights.viewer;
}

function refusal({ kind }: Identity, what: string): LdapError {
  const who = kind === 'anonymous' ? 'anonymous clients may not' : 'only the administrator may';
  const remedy = kind === 'anonymous' ? '; bind first' : '';
  return new LdapError('insufficientAccessRights', `${who} ${what}${remedy}`);
}

export function requireBound(session: Session, what: string): void {
  if (session.identity.kind === 'anonymous') throw refusal(session.identity, what);
}

export function requireAdmin(session: Session, what: string): void {
  if (session.identity.kind !== 'admin') throw refusal(session.identity, what);
}

/** Whether the entry is the one that the session is bound as. */
export function isOwn(identity: Identity, id: Buffer | undefined): boolean {
  return identity.kind === 'user' && id !== undefined && identity.id.equals(id);
}

/** With `passwords.requireTls` passwords travel under TLS or within the machine only. */
export function requireConfidential({ services, transport }: Context): void {
  if (!services.config.passwords.requireTls || transport.confidential) return;
  throw new LdapError('confidentialityRequired', 'passwords are accepted under TLS only; use StartTLS or ldaps://');
}

/** Who writes, for the session, and by what rights: the only way for an operation to write. */
export function actorOf(context: Context): ServedActor {
  const { session } = context;
  const { dn } = session;
  return { dn, access: session.isAdmin ? ABOVE_RULES : new SessionAccess(context) };
}

/** May write all. */
const ABOVE_RULES: Access = {
  renew: () => undefined,
  version: undefined,
  viewer: UNRESTRICTED,
  asked: () => undefined,
  found: () => undefined,
  added: () => undefined,
  moved: () => undefined,
};

/** What the identity that a request came under may write: asked by the partition, in each attempt of a write. */
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
      this.#rights = rights?.rights ?? ABOVE_RULES;
    });
  }

  get version(): number | undefined {
    return this.#rights.version;
  }

  get viewer(): Viewer {
    return this.#rights.viewer;
  }

  asked(asked: Asked): LdapError | undefined {
    return this.#rights.asked(asked);
  }

  found(asked: Asked, entry: MetEntry): LdapError | undefined {
    return this.#rights.found(asked, entry);
  }

  added(asked: Asked, entry: MetEntry): LdapError | undefined {
    return this.#rights.added(asked, entry);
  }

  moved(moved: Moved): LdapError | undefined {
    return this.#rights.moved(moved);
  }
}

/** For slow work: who asks, and from where. */
export function sourceOf(context: Context): Source {
  return new AskerSource(context);
}

/** An operation as a source of slow work; most of it is worked out only where that has to wait. */
export abstract class OperationSource implements Source {
  readonly #context: Context;
  abstract readonly identity: string;

  constructor(context: Context) {
    this.#context = context;
  }

  get network(): string {
    return this.#context.transport.network;
  }

  /** Each has one. */
  get connection(): object {
    return this.#context.session;
  }

  get gone(): boolean {
    return this.#context.aborted;
  }

  onceGone(leave: () => void): () => void {
    return this.#context.onAbortWhileWaiting(leave);
  }
}

class AskerSource extends OperationSource {
  readonly identity: string;

  constructor(context: Context) {
    super(context);
    this.identity = context.session.key;
  }
}
