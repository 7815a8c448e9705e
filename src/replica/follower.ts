import { setTimeout as delay } from 'node:timers/promises';
import { ExtendedOid } from '../protocol/oids.js';
import type { Store } from '../store/contract.js';
import { StoreError } from '../store/store-error.js';
import { Applier, finishGroup, Group } from './applier.js';
import { candidates, connectTo, request as sendRequest } from './asking.js';
import { entryUpTo, lastEntry, noteFollows, readHistory, timeOfEntry } from './history.js';
import type { LdapClient } from './ldap-client.js';
import type { ReplicateRequest } from './primary.js';
import { type ReplicaState, readReplicaState, writeReplicaState } from './state-file.js';
import type { Message, Refusal } from './wire.js';

/** Time between two tries to reach the primary, in ms. */
const RETRY_MS = 1000;
/** Time between two looks for a server of a newer term, in ms. */
const LOOK_MS = 5000;

/** A refusal of the primary that trying again does not change. */
export class FollowError extends Error {
  readonly refusal: Refusal;

  constructor(url: string, refusal: Refusal) {
    super(`${url}: ${refusal.text}`);
    this.refusal = refusal;
  }
}

/** How far a replica is. Times are in milliseconds since 1970. */
export interface ReplicaStatus {
  /** URL of the primary that is followed now; undefined: none is reached. */
  readonly url: string | undefined;
  /** Number of the last entry of the log that is applied, and of the primary's last one as far as known. */
  readonly position: bigint;
  readonly last: bigint;
  /** The data is that of the primary at this time of its clock; `seenAt`: when the primary was heard last. */
  readonly asOf: number;
  readonly seenAt: number;
  /** When the primary was lost, and why. */
  readonly lostAt: number | undefined;
  readonly problem: string | undefined;
  /** The problem is one of the replica's own store. */
  readonly isOwn?: boolean;
}

/** Follows a primary: fills the store with a copy, and applies the primary's changes to it. */
export class Follower {
  /** The follower of this process, if it serves a replica. */
  static ofProcess: Follower | undefined;
  readonly #store: Store;
  readonly #folder: string;
  #state: ReplicaState;
  #status: ReplicaStatus = {
    ...{ url: undefined, position: 0n, last: 0n, asOf: 0, seenAt: 0 },
    ...{ lostAt: Date.now(), problem: 'not connected yet' },
  };
  #client: LdapClient | undefined;
  #waiters: { readonly position: bigint; readonly resolve: () => void }[] = [];
  /** Called when the state of the connection has changed. */
  onChange: ((status: ReplicaStatus) => void) | undefined;
  /** Called with the number of rows when rows of a copy are written. */
  onRows: ((count: number) => void) | undefined;

  constructor(store: Store, folder: string) {
    this.#store = store;
    this.#folder = folder;
    this.#state = requireState(folder);
  }

  get status(): ReplicaStatus {
    return this.#status;
  }

  get #hasCopy(): boolean {
    return this.#state.copy === undefined;
  }

  /**
   * Follows until `signal` is aborted. Rejects with `FollowError` when no server of the list lets the replica follow.
   * `untilCopied` resolves when the copy is complete and consistent.
   */
  async run(signal: AbortSignal, untilCopied = false): Promise<void> {
    if (this.#hasCopy) {
      await finishGroup(this.#store);
      const position = await lastEntry(this.#store);
      this.#setStatus({ position, last: position, asOf: await timeOfEntry(this.#store, position) });
    }
    while (!signal.aborted) {
      let refusal: FollowError | undefined;
      for (const url of await this.#urls()) {
        try {
          await this.#followUrl(url, signal, untilCopied);
          if (untilCopied && this.#hasCopy) return;
        } catch (error) {
          if (error instanceof FollowError && error.refusal.reason !== 'stale') refusal = error;
          this.#lose(error as Error);
        } finally {
          this.#client?.close();
          this.#client = undefined;
        }
        if (signal.aborted) return;
      }
      if (refusal) throw refusal;
      await delay(RETRY_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Returns the URL of the server to follow; all URLs when there is no choice. */
  async #urls(): Promise<readonly string[]> {
    const { of } = this.#state;
    if (of.length === 1) return of;
    const [best] = await candidates(of, this.#state, this.#hasCopy ? await this.#terms() : []);
    return best ? [best.url] : of;
  }

  async #terms(): Promise<ReplicateRequest['terms']> {
    return (await readHistory(this.#store)).terms;
  }

  /** Ends the connection when another server of the list is to be followed rather. */
  async #lookAround(client: LdapClient, url: string): Promise<void> {
    if (!this.#hasCopy) return;
    const urls = await this.#urls();
    if (urls.length === 1 && urls[0] !== url) client.close();
  }

  /** Resolves when the entry of the log with this number is applied. */
  applied(position: bigint): Promise<void> {
    if (this.#status.position >= position) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push({ position, resolve }));
  }

  #lose(error: Error): void {
    const { message } = error;
    const { lostAt = Date.now(), problem } = this.#status;
    this.#setStatus({ url: undefined, lostAt, problem: message, isOwn: error instanceof StoreError });
    if (problem !== message) this.onChange?.(this.#status);
  }

  #setStatus(changes: Partial<ReplicaStatus>): void {
    this.#status = { ...this.#status, ...changes };
  }

  async #followUrl(url: string, signal: AbortSignal, untilCopied: boolean): Promise<void> {
    const client = await connectTo(url, this.#state);
    this.#client = client;
    signal.throwIfAborted();
    const stop = (): void => client.close();
    signal.addEventListener('abort', stop);
    const timer = setInterval(() => void this.#lookAround(client, url).catch(() => undefined), LOOK_MS);
    try {
      if (this.#state.copy?.until === undefined && !this.#hasCopy) await this.#copy(client, url);
      await this.#follow(client, url, untilCopied);
    } finally {
      clearInterval(timer);
      signal.removeEventListener('abort', stop);
    }
  }

  /** Begins the copy anew at the next connection. The store is emptied then. */
  beginCopy(): void {
    this.#saveState({ ...this.#state, copy: { start: '0' } });
  }

  #saveState(state: ReplicaState): void {
    this.#state = state;
    writeReplicaState(this.#folder, state);
  }

  async #copy(client: LdapClient, url: string): Promise<void> {
    let copy = this.#state.copy!;
    const save = (changes: Partial<typeof copy>): void => {
      copy = { ...copy, ...changes };
      this.#saveState({ ...this.#state, copy });
    };
    if (copy.table === undefined) for (const { name } of await this.#store.tables()) await this.#store.dropTable(name);
    const applier = new Applier(this.#store);
    const { start, table, lastKey } = copy;
    const behind = { table, lastKey: lastKey ? Buffer.from(lastKey, 'base64') : undefined };
    const request = { position: BigInt(start), terms: [], copy: behind };
    await sendRequest(client, request, async (message) => {
      refuse(url, message);
      await applier.apply(message);
      if (message.kind === 'alive') {
        if (copy.table === undefined) save({ start: String(message.position) });
      } else if (message.kind === 'load') {
        await applier.flush();
        save({ table: message.table, lastKey: message.lastKey?.toString('base64') });
        this.onRows?.(message.rows.length);
      }
    });
    await applier.flush();
    save({ until: start });
  }

  async #follow(client: LdapClient, url: string, untilCopied: boolean): Promise<void> {
    const { copy } = this.#state;
    // What interrupts a copy begins these changes anew: they need not be whole.
    const applier = new Applier(this.#store, undefined, copy ? undefined : new Group(this.#store));
    const last = await lastEntry(this.#store);
    const position = copy ? BigInt(copy.start) : last;
    await noteFollows(this.#store, true);
    const request = { position, entry: await entryUpTo(this.#store, position), terms: await this.#terms() };
    this.#setStatus({ position });
    await sendRequest(client, request, async (message) => {
      refuse(url, message);
      const isGroupEnd = await applier.apply(message);
      if (message.kind !== 'end' && message.kind !== 'alive') return;
      this.#advance(url, message);
      const endsCopy = !this.#hasCopy && message.position >= message.last;
      if (endsCopy) this.#saveState({ ...this.#state, copy: undefined });
      if (isGroupEnd) acknowledge(client, message.position);
      if (endsCopy && untilCopied) client.close();
    }).catch((error: unknown) => {
      if (!(untilCopied && this.#hasCopy)) throw error;
    });
  }

  #advance(url: string, { position, last, nowMs }: Extract<Message, { kind: 'end' | 'alive' }>): void {
    const isNew = this.#status.url !== url;
    const changes = { url, position, last, asOf: nowMs, seenAt: Date.now() };
    this.#setStatus({ ...changes, lostAt: undefined, problem: undefined });
    if (isNew) this.onChange?.(this.#status);
    const waiters = this.#waiters;
    this.#waiters = waiters.filter((waiter) => waiter.position > position);
    for (const waiter of waiters) if (waiter.position <= position) waiter.resolve();
  }
}

function refuse(url: string, message: Message): void {
  if (message.kind === 'refused') throw new FollowError(url, message.refusal);
}

/** A connection that ends fails the stream, too: the error need not be seen here. */
function acknowledge(client: LdapClient, position: bigint): void {
  const value = Buffer.from(String(position));
  client.request({ op: 'extended', oid: ExtendedOid.replicated, value }).catch(() => undefined);
}

function requireState(folder: string): ReplicaState {
  const state = readReplicaState(folder);
  if (!state) throw new Error(`${folder} is no replica`);
  return state;
}
