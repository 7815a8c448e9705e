import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LdapError } from '../ldap/ldap-error.js';
import type { LoadRow, Store } from '../store/contract.js';
import { LOG_TABLE } from '../store/log.js';
import { batchesOf } from '../store/maybe.js';
import { EMPTY } from '../store/row.js';
import { entryUpTo, gapAfter, lastEntry, noteFollows, readHistory, refusalOf } from './history.js';
import { copyMessages, sendChanges, sendTouched, tableNames, tablesOf } from './sender.js';
import { fencedText, type ReplicaState, readState, roleOf, writeReplicaState } from './state-file.js';
import { decodePlain, encodeMessage, type Refusal, type ServerState, type Term } from './wire.js';

/** Time between two looks whether a replica may still follow, while messages are sent to it, in ms. */
const CHECK_MS = 2000;
/** How long a primary holds writes for a hand-over, in ms; the second step needs so much of it. */
const HOLD_MS = 8000;
const HOLD_MARGIN_MS = 1000;
/** A primary that never followed another. */
const NO_STATE: ReplicaState = { of: [], name: '', passwordFile: '' };

/** DN that a replica binds with. No entry has it. */
export function replicaDn(name: string): string {
  return `cn=${name},cn=replicas`;
}

/** Returns the name in a DN of `replicaDn`; undefined: the DN is another. */
export function replicaName(dn: string): string | undefined {
  return /^cn=([a-z0-9][a-z0-9._-]{0,62}),cn=replicas$/i.exec(dn)?.[1]?.toLowerCase();
}

/** A replica that has bound. `grant`: the stored password that matched. */
export interface BoundReplica {
  readonly name: string;
  readonly grant: Buffer;
}

/** What a replica asks for, as JSON (`encodePlain`). */
export interface ReplicateRequest {
  /** Number of the last entry of the log that the replica has. */
  readonly position: bigint;
  /** The identity of that entry (`entryUpTo`). */
  readonly entry?: string | undefined;
  readonly terms: readonly Term[];
  /** Asks for a copy. It goes on behind `lastKey` of `table`. */
  readonly copy?: { readonly table?: string | undefined; readonly lastKey?: Buffer | undefined };
  /**
   * Asks for the state of the server instead of changes. `hold`: a primary lets writes wait for some seconds; `follow`:
   * a primary that does so follows `primary` from now on.
   */
  readonly ask?: 'state' | 'hold' | 'follow';
  /** URLs of the primary of the newest of `terms`. */
  readonly urls?: readonly string[];
  /** For `follow`. `password` and `tlsCa` are contents of files. */
  readonly primary?: {
    readonly of: readonly string[];
    readonly name: string;
    readonly password: string;
    readonly tlsCa?: string | undefined;
  };
  /** Asks for the present content of the rows that these entries of a log have touched: packed rows. */
  readonly entries?: readonly Buffer[];
}

/** Name of a replica, and number of its connection. */
interface Follow {
  readonly name: string;
  readonly connection: number;
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
  /** By the number of the connection. The server may learn late that one has ended. */
  readonly #followers = new Map<number, FollowerStatus>();
  readonly #closing = new AbortController();
  /** Called when a replica begins to follow while another connection follows with its name. */
  onSharedName: ((name: string) => void) | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Returns the stored password of a replica; undefined: it may not follow. */
  async grantOf(name: string): Promise<Buffer | undefined> {
    return (await readHistory(this.#store)).grants.get(name);
  }

  /** Throws `LdapError` if the right of the replica was revoked, or its password replaced, after its bind. */
  async requireGrant({ name, grant }: BoundReplica): Promise<void> {
    this.#store.renewReads?.();
    if ((await this.grantOf(name))?.equals(grant)) return;
    throw new LdapError('insufficientAccessRights', `${name} may follow no longer, or has another password`);
  }

  /** Returns the number of the last entry of the log, with all changes that were made before the call. */
  position(): Promise<bigint> {
    this.#store.renewReads?.();
    return lastEntry(this.#store);
  }

  followers(): FollowerStatus[] {
    return [...this.#followers.values()];
  }

  acknowledge(connection: number, position: bigint): void {
    const known = this.#followers.get(connection);
    if (known) this.#followers.set(connection, { ...known, position: String(position), seenAt: Date.now() });
  }

  /** Yields the messages for a replica, until `signal` is aborted or the server ends. */
  async *messages(
    replica: BoundReplica,
    connection: number,
    value: Buffer | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<Buffer> {
    let checkedAt = performance.now();
    for await (const message of this.#messages({ name: replica.name, connection }, value, signal)) {
      if (performance.now() - checkedAt >= CHECK_MS) {
        await this.requireGrant(replica);
        const refusal = this.#fencedRefusal();
        if (refusal) throw new LdapError('unwillingToPerform', refusal.text);
        checkedAt = performance.now();
      }
      yield message;
    }
  }

  async *#messages(from: Follow, value: Buffer | undefined, signal: AbortSignal): AsyncGenerator<Buffer> {
    const request = parseRequest(value);
    const { position, terms, copy, ask, entries } = request;
    await this.#noteTerm(from.name, terms, request.urls, (await readHistory(this.#store)).terms);
    if (entries) {
      yield* sendTouched(this.#store, entries);
      return;
    }
    if (ask) {
      if (ask !== 'state') await this.#handOver(request);
      yield encodeMessage({ kind: 'state', state: await this.#state(position) });
      return;
    }
    const refusal = this.#fencedRefusal() ?? (await this.#refusal(request));
    if (refusal) {
      yield encodeMessage({ kind: 'refused', refusal });
      return;
    }
    const until = AbortSignal.any([signal, this.#closing.signal]);
    if (copy) yield* this.#copy(copy, until);
    else yield* this.#follow(from, position, until);
  }

  async #refusal(request: ReplicateRequest): Promise<Refusal | undefined> {
    const { position, copy } = request;
    // Another front end of HBase may have read more than this one; so may another replica of the same primary.
    const isWhole = this.#store.folder !== undefined && roleOf(this.#role) === 'primary';
    if (!copy) return refusalOf(this.#store, request, isWhole);
    return copy.table === undefined ? undefined : gapAfter(this.#store, position);
  }

  get #role(): ReplicaState | undefined {
    const { folder } = this.#store;
    return folder === undefined ? undefined : readState(folder);
  }

  /** Refuses writes from now on, if this is a primary and the replica knows of a newer term. */
  async #noteTerm(
    name: string,
    terms: readonly Term[],
    urls: readonly string[] | undefined,
    ours: readonly Term[],
  ): Promise<void> {
    const { folder } = this.#store;
    const term = terms.at(-1)?.term ?? 0;
    const state = this.#role;
    // The hand-over is complete: the server to which writes go takes them.
    if (folder !== undefined && state?.heldUntil && roleOf(state) === 'replica' && urls)
      writeReplicaState(folder, { ...state, heldUntil: undefined });
    if (folder === undefined || ours.length === 0 || term <= ours.at(-1)!.term) return;
    if (roleOf(state) !== 'primary' && !(state?.newer && term > state.newer.term)) return;
    const newer = { term, toldBy: name, since: state?.newer?.since ?? Date.now(), urls: urls ?? [] };
    writeReplicaState(folder, { ...(state ?? NO_STATE), role: 'fenced', newer });
    await noteFollows(this.#store, true);
  }

  #fencedRefusal(): Refusal | undefined {
    const state = this.#role;
    return state?.role === 'fenced' ? { reason: 'stale', text: fencedText(state) } : undefined;
  }

  /**
   * Hands over to the replica that asks, in two steps: holds writes, so that the replica gets the last ones, then
   * follows the replica. Without the second step, writes go on after `HOLD_MS`.
   */
  async #handOver({ ask, primary }: ReplicateRequest): Promise<void> {
    const { folder } = this.#store;
    const state = this.#role;
    if (folder === undefined || roleOf(state) !== 'primary')
      throw new LdapError('unwillingToPerform', 'this server is not the primary, so it cannot hand over');
    if (ask === 'hold') {
      writeReplicaState(folder, { ...(state ?? NO_STATE), role: 'primary', heldUntil: Date.now() + HOLD_MS });
      // Waits for the transactions of all processes that have begun before.
      await this.#store.commit({ steps: [], decisive: 0, unlogged: true });
      this.#store.renewReads?.();
    } else {
      if (!primary || (state?.heldUntil ?? 0) < Date.now() + HOLD_MARGIN_MS)
        throw new LdapError('busy', 'the hand-over took too long, and this server is still the primary; try again');
      const { password, tlsCa, ...access } = primary;
      const passwordFile = join(folder, 'replica.password');
      writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
      const caFile = tlsCa === undefined ? undefined : join(folder, 'replica-ca.pem');
      if (caFile !== undefined) writeFileSync(caFile, tlsCa!, { mode: 0o600 });
      writeReplicaState(folder, { ...access, passwordFile, tlsCa: caFile, heldUntil: Date.now() + HOLD_MS });
    }
  }

  async #state(position: bigint): Promise<ServerState> {
    const { terms } = await readHistory(this.#store);
    return {
      role: roleOf(this.#role),
      terms,
      tables: await tableNames(this.#store),
      last: await lastEntry(this.#store),
      entry: await entryUpTo(this.#store, position),
    };
  }

  async *#copy({ table, lastKey }: NonNullable<ReplicateRequest['copy']>, until: AbortSignal): AsyncGenerator<Buffer> {
    const scan = this.#store.scan(LOG_TABLE.name, {}, { reverse: true, limit: 1 });
    const entries: LoadRow[] = [];
    for await (const { keys, rows } of batchesOf(scan))
      for (const [i, key] of keys.entries()) entries.push({ key, row: rows[i]! });
    const last = entries[0]?.key.readBigUInt64BE() ?? 0n;
    yield encodeMessage({ kind: 'alive', position: last, last, entryMs: Date.now(), nowMs: Date.now() });
    const after = table === undefined ? undefined : { table, lastKey };
    const specs = await tablesOf(this.#store);
    yield encodeMessage({ kind: 'tables', specs });
    // The last entry of its log is the position of a server, of a replica that has replicas, too.
    if (!after) yield encodeMessage({ kind: 'log', entries });
    for await (const message of copyMessages(this.#store, specs, after)) {
      if (until.aborted) throw new LdapError('unavailable', 'the server ends');
      yield encodeMessage(message);
    }
  }

  async *#follow({ name, connection }: Follow, position: bigint, until: AbortSignal): AsyncGenerator<Buffer> {
    const status = { name, position: String(position), isConnected: true, seenAt: Date.now() };
    if (this.#forgetEnded(name)) this.onSharedName?.(name);
    this.#followers.set(connection, status);
    try {
      yield* sendChanges(this.#store, position, until);
    } finally {
      this.#followers.set(connection, { ...(this.#followers.get(connection) ?? status), isConnected: false });
      if (this.followers().some((one) => one.name === name && one.isConnected)) this.#forgetEnded(name);
    }
  }

  /** Forgets the connections of a replica that have ended. Returns whether there are others. */
  #forgetEnded(name: string): boolean {
    const known = [...this.#followers].filter(([, one]) => one.name === name);
    for (const [connection, { isConnected }] of known) if (!isConnected) this.#followers.delete(connection);
    return known.some(([, { isConnected }]) => isConnected);
  }

  /** Ends all streams. */
  close(): void {
    this.#closing.abort();
  }
}

function parseRequest(value: Buffer | undefined): ReplicateRequest {
  try {
    const request = decodePlain(value ?? EMPTY) as ReplicateRequest;
    const { position, terms, copy, entries = [] } = request;
    const isTerm = ({ term, start }: Term): boolean => Number.isSafeInteger(term) && typeof start === 'bigint';
    const areBytes = [copy?.lastKey ?? EMPTY, ...entries].every((bytes) => Buffer.isBuffer(bytes));
    if (typeof position !== 'bigint' || !terms.every(isTerm) || !areBytes) throw new TypeError('a field is of no use');
    return request;
  } catch {
    throw new LdapError('protocolError', 'a request of a replica is malformed; both need the same version of Rowan');
  }
}
