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

export class Session {
  /** Number of its connection: tells it from the others of the process that serves it. */
  readonly connection: number;
  identity: Identity = ANONYMOUS;
  /**
   * What changes of its own credentials that are under way may leave stored: the bind holds with each of these, too.
   */
  readonly coming = new Set<readonly Buffer[]>();
  #lastChange: Promise<unknown> = Promise.resolve();

  constructor(connection = ++connections) {
    this.connection = connection;
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
