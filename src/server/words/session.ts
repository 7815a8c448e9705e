import type { CompiledAccess, Entitled } from '../../access/compiled-access.js';

/**
 * Who a connection acts as. A bind replaces the whole identity, so nothing of an earlier one survives it
 * (RFC 4511 §4.2.1).
 */
export type Identity =
  | { readonly kind: 'anonymous' }
  | {
      readonly kind: 'user';
      /** As stored when it was last read. */
      readonly dn: string;
      /** `Partition.treeGeneration` when it was read: it holds until then. */
      readonly generation: number;
      /** entryUUID. */
      readonly id: Buffer;
      /** The entry's version when its passwords were last looked at. */
      readonly version: bigint;
      /** Copies of the stored passwords at that version: the bind holds for as long as they do. */
      readonly passwords: readonly Buffer[];
      /** Copy of the stored application password that it has bound with, as long as which the bind holds instead. */
      readonly application: Buffer | undefined;
      /** The password has to be changed before anything else. */
      readonly mustChange: boolean;
      /** When it ceases to be valid, milliseconds since 1970, as far as is known: then it is read again. */
      readonly until: number;
    }
  | {
      readonly kind: 'admin';
      readonly dn: string;
      /** Stored password that was verified. */
      readonly password: Buffer;
    };

export const ANONYMOUS: Identity = { kind: 'anonymous' };

/** Tells one identity from another, whatever its DN becomes; the same on every front end. */
export function identityKey(identity: Identity): string {
  return identity.kind === 'user' ? identity.id.toString('hex') : identity.kind;
}

/** Connections of this process so far. */
let connections = 0;

/** The rights of an identity, and what they were worked out from. */
export interface SessionRights extends Entitled {
  readonly identity: Identity;
  readonly access: CompiledAccess;
  readonly encrypted: boolean;
  /** `Partition.groupsVersion` when they were; undefined: no rule names a group. */
  readonly groups: bigint | undefined;
}

export class Session {
  /** Number of its connection: tells it from the others of the process that serves it. */
  readonly connection: number;
  identity: Identity = ANONYMOUS;
  /** Whom it was bound as when the last bind request came. */
  before: Identity = ANONYMOUS;
  /** The identity that was found to hold, and `Partition.moment` then. */
  held: { readonly identity: Identity; readonly moment: number } | undefined;
  /** Of the identity that operations had last; see `rightsOf`. */
  rights: SessionRights | undefined;
  /**
   * What changes of its own credentials that are under way may leave stored: the bind holds with each of these, too.
   */
  readonly coming = new Set<readonly Buffer[]>();
  #lastChange: Promise<unknown> = Promise.resolve();

  constructor(connection = ++connections) {
    this.connection = connection;
  }

  /** From a bind request on the connection is anonymous, whatever becomes of it (RFC 4513 §4). */
  beginBind(): void {
    this.before = this.identity;
    this.identity = ANONYMOUS;
  }

  /** Changes of its own credentials take turns: each is decided by what the one before it has left. */
  inTurn<T>(change: () => Promise<T>): Promise<T> {
    const mine = this.#lastChange.then(change);
    this.#lastChange = mine.catch(() => undefined);
    return mine;
  }

  /** DN for creatorsName, whoAmI and the log; '' when anonymous. */
  get dn(): string {
    return this.identity.kind === 'anonymous' ? '' : this.identity.dn;
  }

  get key(): string {
    return identityKey(this.identity);
  }

  get isAdmin(): boolean {
    return this.identity.kind === 'admin';
  }
}
