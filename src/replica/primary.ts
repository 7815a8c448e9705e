import { LdapError } from '../ldap/ldap-error.js';
import type { Store } from '../store/contract.js';
import { LOG_TABLE } from '../store/log.js';
import { gapAfter, readHistory, refusalOf, type Term } from './history.js';
import { sendChanges, sendCopy } from './sender.js';
import { encodeMessage } from './wire.js';

/** DN that a replica binds with. No entry has it. */
export function replicaDn(name: string): string {
  return `cn=${name},cn=replicas`;
}

/** Returns the name in a DN of `replicaDn`; undefined: the DN is another. */
export function replicaName(dn: string): string | undefined {
  return /^cn=([a-z0-9][a-z0-9._-]{0,62}),cn=replicas$/i.exec(dn)?.[1]?.toLowerCase();
}

/** What a replica asks for, as JSON. */
export interface ReplicateRequest {
  /** Number of the last entry of the log that the replica has, in decimal. */
  readonly position: string;
  readonly terms: readonly { readonly term: number; readonly id: string; readonly start: string }[];
  /** Asks for a copy. It goes on behind `lastKey` (base64) of `table`. */
  readonly copy?: { readonly table?: string; readonly lastKey?: string };
}

/** A replica that follows now, or has followed since the start of this process. */
export interface FollowerStatus {
  readonly name: string;
  readonly isConnected: boolean;
  /** Number of the last entry that it has on disk, in decimal: the status goes to other processes. */
  readonly position: string;
  /** Milliseconds since 1970 of the last acknowledgement. */
  readonly seenAt: number;
}

/** The side of a primary: sends the tables and the log to replicas, and knows how far each one is. */
export class Primary {
  readonly #store: Store;
  readonly #followers = new Map<string, FollowerStatus>();
  readonly #closing = new AbortController();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Returns the stored password of a replica; undefined: it may not follow. */
  async grantOf(name: string): Promise<Buffer | undefined> {
    return (await readHistory(this.#store)).grants.get(name);
  }

  /** Returns the number of the last entry of the log. */
  async position(): Promise<bigint> {
    return this.#store.settled(LOG_TABLE.name);
  }

  followers(): FollowerStatus[] {
    return [...this.#followers.values()];
  }

  acknowledge(name: string, position: bigint): void {
    const isConnected = this.#followers.get(name)?.isConnected ?? false;
    this.#followers.set(name, { name, isConnected, position: String(position), seenAt: Date.now() });
  }

  /** Yields the messages for a replica, until `signal` is aborted or the server ends. */
  async *messages(name: string, value: Buffer | undefined, signal: AbortSignal): AsyncGenerator<Buffer> {
    const { position, terms, copy } = parseRequest(value);
    const refusal = !copy
      ? await refusalOf(this.#store, { terms, position })
      : copy.table !== undefined && (await gapAfter(this.#store, position));
    if (refusal) {
      yield encodeMessage({ kind: 'refused', refusal });
      return;
    }
    const until = AbortSignal.any([signal, this.#closing.signal]);
    if (copy) yield* this.#copy(copy, until);
    else yield* this.#follow(name, position, until);
  }

  async *#copy({ table, lastKey }: NonNullable<ReplicateRequest['copy']>, until: AbortSignal): AsyncGenerator<Buffer> {
    const last = await this.#store.settled(LOG_TABLE.name);
    yield encodeMessage({ kind: 'alive', position: last, last, entryMs: Date.now(), nowMs: Date.now() });
    const after =
      table === undefined ? undefined : { table, lastKey: lastKey ? Buffer.from(lastKey, 'base64') : undefined };
    for await (const message of sendCopy(this.#store, after)) {
      if (until.aborted) throw new LdapError('unavailable', 'the server ends');
      yield message;
    }
  }

  async *#follow(name: string, position: bigint, until: AbortSignal): AsyncGenerator<Buffer> {
    const status = { name, position: String(position), isConnected: true, seenAt: Date.now() };
    this.#followers.set(name, status);
    const checkRight = async (): Promise<void> => {
      if (!(await this.grantOf(name))) throw new LdapError('insufficientAccessRights', `${name} may follow no longer`);
    };
    try {
      yield* sendChanges(this.#store, position, { signal: until, checkRight });
    } finally {
      const known = this.#followers.get(name) ?? status;
      this.#followers.set(name, { ...known, isConnected: false });
    }
  }

  /** Ends all streams. */
  close(): void {
    this.#closing.abort();
  }
}

function parseRequest(value: Buffer | undefined): {
  readonly position: bigint;
  readonly terms: readonly Term[];
  readonly copy: ReplicateRequest['copy'];
} {
  try {
    const { position, terms, copy } = JSON.parse(value?.toString() ?? '') as ReplicateRequest;
    return { position: BigInt(position), terms: terms.map((one) => ({ ...one, start: BigInt(one.start) })), copy };
  } catch {
    throw new LdapError('protocolError', 'a request of a replica is malformed; both need the same version of Rowan');
  }
}
