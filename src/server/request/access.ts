import { LdapError } from '../../ldap/ldap-error.js';
import { isPassword } from '../../partition/index.js';
import type { Access, Asked, FoundEntry } from '../../partition/model/directory.js';
import { UNRESTRICTED, type Viewer } from '../../partition/read/viewer/viewer.js';
import type { Source } from '../../password/index.js';
import type { Request } from '../../protocol/messages.js';
import type { ServedActor } from '../services/services.js';
import type { Identity, Session } from '../words/session.js';
import type { Context } from './context.js';

/**
 * Who may do what (docs/server.md):
 *
 * | | anonymous | user | administrator |
 * | --- | --- | --- | --- |
 * | root DSE, cn=Subschema, bind, StartTLS, who am I | yes | yes | yes |
 * | search, compare | with `access.anonymous: read` | yes | yes |
 * | cn=Monitor | no | yes | yes |
 * | own password: compare, modify, password modify | – | yes | yes |
 * | add, modify, delete, modifyDN, any password | no | no | yes |
 *
 * Secrets are returned to nobody. What is refused is refused before anything is looked up, so that a refusal does not
 * tell whether an entry exists.
 */

function refusal({ kind }: Identity, what: string): LdapError {
  const who = kind === 'anonymous' ? 'anonymous clients may not' : 'only the administrator may';
  const remedy = kind === 'anonymous' ? '; bind first' : '';
  return new LdapError('insufficientAccessRights', `${who} ${what}${remedy}`);
}

/** Who may ask for operations of a kind at all. */
const KINDS: Readonly<Partial<Record<Request['op'], { readonly by: 'bound' | 'admin'; readonly what: string }>>> = {
  add: { by: 'admin', what: 'add entries' },
  delete: { by: 'admin', what: 'delete entries' },
  modifyDN: { by: 'admin', what: 'rename entries' },
  modify: { by: 'bound', what: 'modify entries' },
};

/** What refuses an operation whatever it asks for: it can be told before the request has wholly come. */
export function refusalByKind(identity: Identity, op: Request['op']): LdapError | undefined {
  const kind = KINDS[op];
  const refused = kind?.by === 'admin' ? identity.kind !== 'admin' : kind && identity.kind === 'anonymous';
  return refused ? refusal(identity, kind!.what) : undefined;
}

/** Throws what refuses an operation by its kind. */
export function requireKind(session: Session, op: Request['op']): void {
  const error = refusalByKind(session.identity, op);
  if (error) throw error;
}

/** Who may read something: anybody, bound clients, or those whom the configuration lets read entries. */
export type Readers = 'anybody' | 'bound' | 'configured';

/** Who reads, for the session, and by what rights: the only way for an operation to read. Throws what refuses it. */
export function viewerOf(
  { services, session }: Context,
  readers: Readers = 'configured',
  what = 'read entries',
): Viewer {
  const open = readers === 'anybody' || (readers === 'configured' && services.config.access.anonymous === 'read');
  if (!open) requireBound(session, what);
  return UNRESTRICTED;
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
export function actorOf(session: Session): ServedActor {
  return { dn: session.dn, access: new SessionAccess(session) };
}

const OPS = { add: 'add', modify: 'modify', rename: 'modifyDN', delete: 'delete', restore: 'add' } as const;

/** What the identity that a request came under may write: asked by the partition, in each attempt of a write. */
class SessionAccess implements Access {
  readonly #identity: Identity;

  constructor({ identity }: Session) {
    this.#identity = identity;
  }

  asked({ op, types }: Asked): LdapError | undefined {
    const refused = refusalByKind(this.#identity, OPS[op]);
    if (refused || this.#identity.kind === 'admin') return refused;
    return types.every(({ type }) => isPassword(type)) ? undefined : this.#refusal();
  }

  /** Whether the entry exists is nothing to those who might not change it. */
  missing(): LdapError | undefined {
    return this.#identity.kind === 'admin' ? undefined : this.#refusal();
  }

  found(_: Asked, { id }: FoundEntry): LdapError | undefined {
    return this.#identity.kind === 'admin' || isOwn(this.#identity, id) ? undefined : this.#refusal();
  }

  #refusal(): LdapError {
    return refusal(this.#identity, 'modify anything but their own password');
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
    return this.#context.onceGone(leave);
  }
}

class AskerSource extends OperationSource {
  readonly identity: string;

  constructor(context: Context) {
    super(context);
    this.identity = context.session.key;
  }
}
