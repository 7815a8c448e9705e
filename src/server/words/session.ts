import type { CompiledAccess, Entitlement } from '../../access/compiled-access.js';
import { type BoundReplica, replicaDn } from '../../replica/primary.js';
import { OpenTransactions } from './transactions.js';

/** The identity that a connection is bound as. A bind replaces the whole identity (RFC 4511 §4.2.1). */
export type Identity =
  | { readonly kind: 'anonymous' }
  | {
      readonly kind: 'user';
      /** DN of the entry when the entry was last read. */
      readonly dn: string;
      /** `Partition.treeGeneration` when `dn` was read. `dn` is valid until the generation changes. */
      readonly generation: number;
      /** entryUUID. */
      readonly id: Buffer;
      /** Version of the entry when its passwords were last read. */
      readonly version: bigint;
      /** Copies of the stored passwords at `version`. The bind is valid while the entry has these passwords. */
      readonly passwords: readonly Buffer[];
      /** Copy of the application password that was used. The bind is then valid while the entry has this value. */
      readonly application: Buffer | undefined;
      /** Whether the password must be changed before other operations. */
      readonly mustChange: boolean;
      /** Time until which the identity is valid, in milliseconds since 1970. The entry is read again after that. */
      readonly validUntil: number;
    }
  | {
      readonly kind: 'admin';
      readonly dn: string;
      /** The stored password that was verified. */
      readonly password: Buffer;
    };

export const ANONYMOUS: Identity = { kind: 'anonymous' };

/** Returns a key for the identity that does not change with its DN and is the same on every front end. */
export function identityKey(identity: Identity): string {
  return identity.kind === 'user' ? identity.id.toString('hex') : identity.kind;
}

let lastConnectionNumber = 0;

/** The rights of an identity, and the state that they were computed from. */
export interface SessionRights extends Entitlement {
  readonly identity: Identity;
  readonly access: CompiledAccess;
  readonly isEncrypted: boolean;
  /** `Partition.groupsVersion` at that time; undefined: no rule names a group. */
  readonly groupsVersion: bigint | undefined;
}

export class Session {
  /** Number of the connection, unique in the process that serves it. */
  readonly connectionNumber: number;
  identity: Identity = ANONYMOUS;
  /** Identity before the last bind request. */
  previousIdentity: Identity = ANONYMOUS;
  /** The replica that is bound. It is anonymous otherwise. */
  replica: BoundReplica | undefined;
  /** The identity that was last found valid, and `Partition.moment` at that time. */
  lastValidation: { readonly identity: Identity; readonly moment: number } | undefined;
  /** Cached rights of the identity; see `rightsOf`. */
  rights: SessionRights | undefined;
  /** Credentials that running changes of the session may store. The bind is valid with each of them, too. */
  readonly pendingCredentials = new Set<readonly Buffer[]>();
  readonly transactions = new OpenTransactions();
  #lastChange: Promise<unknown> = Promise.resolve();

  constructor(connectionNumber = ++lastConnectionNumber) {
    this.connectionNumber = connectionNumber;
  }

  /** Makes the connection anonymous when a bind request arrives (RFC 4513 §4). */
  beginBind(): void {
    this.previousIdentity = this.identity;
    this.identity = ANONYMOUS;
    this.replica = undefined;
    this.transactions.abortAll();
  }

  /** Runs changes of the session's own credentials one at a time, each based on the result of the previous one. */
  runExclusively<T>(change: () => Promise<T>): Promise<T> {
    const result = this.#lastChange.then(change);
    // The caller gets the error of its change, after which the next change runs all the same.
    this.#lastChange = result.catch(() => undefined);
    return result;
  }

  /** DN for creatorsName, Who Am I and the log; '' when anonymous. */
  get dn(): string {
    if (this.replica !== undefined) return replicaDn(this.replica.name);
    return this.identity.kind === 'anonymous' ? '' : this.identity.dn;
  }

  get key(): string {
    return identityKey(this.identity);
  }

  get isAdmin(): boolean {
    return this.identity.kind === 'admin';
  }
}
