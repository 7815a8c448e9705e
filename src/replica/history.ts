import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { META_TABLE } from '../partition/model/tables.js';
import type { Cell, Reader, Store } from '../store/contract.js';
import { entryTimeMs, LOG_LOOK_MS, LOG_TABLE } from '../store/log.js';
import { batchesOf, keysOf } from '../store/maybe.js';
import { counterBytes, EMPTY, MARK, unpackRow, valueStart } from '../store/row.js';
import { isNoTable } from '../store/store-error.js';
import type { Refusal, Term } from './wire.js';

/**
 * The history of a log: its terms. Each promotion begins a term, like the leader terms of Raft, but without an
 * election. Two logs agree up to the last term that both have.
 */
const HISTORY_KEY = Buffer.from('replication');
/** Row of table `meta` in the data of a server that follows another, or did so when it was fenced. */
const FOLLOWS_KEY = Buffer.from('follows');

export interface History {
  readonly terms: readonly Term[];
  /** Stored password hashes of the replicas that may follow, by name. */
  readonly grants: ReadonlyMap<string, Buffer>;
}

const termCell = (term: number): Buffer => Buffer.from(`term:${String(term).padStart(10, '0')}`);
const grantCell = (name: string): Buffer => Buffer.from(`grant:${name}`);

/** Reads the history; it is empty in a directory that never had a replica. */
export async function readHistory(reader: Reader): Promise<History> {
  const row = (await reader.get(META_TABLE.name, HISTORY_KEY)) ?? EMPTY;
  const terms: Term[] = [];
  const grants = new Map<string, Buffer>();
  for (const { qualifier, value } of unpackRow(row)) {
    const name = qualifier.toString();
    if (name.startsWith('grant:')) grants.set(name.slice('grant:'.length), Buffer.from(value));
    else {
      const { id, start } = JSON.parse(value.toString()) as { id: string; start: string };
      terms.push({ term: Number(name.slice('term:'.length)), id, start: BigInt(start) });
    }
  }
  return { terms, grants };
}

/** Whether a row of table `meta` is about the replicas of this directory, and no part of it. */
export function isReplicaRow(key: Buffer): boolean {
  return key.equals(HISTORY_KEY) || key.equals(FOLLOWS_KEY);
}

/** Notes in the data whether it is that of a server which takes no writes: a copy may lack `replica.json`. */
export async function noteFollows(store: Store, follows: boolean): Promise<void> {
  const step = { table: META_TABLE.name, key: FOLLOWS_KEY, ...(follows ? { put: [MARK] } : { deleteRow: true }) };
  await store.commit({ steps: [step], decisive: 0, unlogged: true });
}

export async function isNotedFollows(store: Store): Promise<boolean> {
  const hasMeta = (await store.tables()).some(({ name }) => name === META_TABLE.name);
  return hasMeta && (await store.get(META_TABLE.name, FOLLOWS_KEY)) !== undefined;
}

/** Reads the number of the last entry of the log; 0: there is none. */
export async function lastEntry(store: Store): Promise<bigint> {
  try {
    return await store.settled(LOG_TABLE.name);
  } catch (error) {
    if (isNoTable(error)) return 0n;
    throw error;
  }
}

/**
 * Returns the identity of the last entry up to a number: its number and a hash of its value, which are the same in all
 * logs that share the entry. Undefined: there is none.
 */
export async function entryUpTo(store: Store, position: bigint): Promise<string | undefined> {
  if ((await lastEntry(store)) === 0n) return undefined;
  const scan = store.scan(LOG_TABLE.name, { to: counterBytes(position + 1n) }, { reverse: true, limit: 1 });
  for await (const { keys, rows } of batchesOf(scan))
    for (const [i, key] of keys.entries()) {
      const value = rows[i]!.subarray(valueStart(rows[i]!, 0));
      return `${key.readBigUInt64BE()} ${createHash('sha256').update(value).digest('hex').slice(0, 32)}`;
    }
  return undefined;
}

/** Returns the time of the first entry from a number on, in ms since 1970; now, if there is none. */
export async function timeOfEntry(store: Store, from: bigint): Promise<number> {
  const scan = store.scan(LOG_TABLE.name, { from: counterBytes(from) }, { limit: 1 });
  for await (const { rows } of batchesOf(scan)) if (rows[0]) return entryTimeMs(rows[0]);
  return Date.now();
}

function termCellAt(term: number, last: bigint): Cell {
  const start = String(last + 1n);
  const value = Buffer.from(JSON.stringify({ id: randomBytes(8).toString('hex'), start }));
  return { family: 0, qualifier: termCell(term), value };
}

/** Begins a term behind the last entry, greater than `above`. Resolves with the term. */
export async function beginTerm(store: Store, above = 0): Promise<number> {
  const { terms } = await readHistory(store);
  const term = Math.max(terms.at(-1)?.term ?? 0, above) + 1;
  const put = [termCellAt(term, await store.settled(LOG_TABLE.name))];
  await store.commit({ steps: [{ table: META_TABLE.name, key: HISTORY_KEY, put }], decisive: 0 });
  return term;
}

/** Creates the log. Resolves with whether there was none, when all front ends fill it. */
export async function beginLog(store: Store): Promise<boolean> {
  const isNew = !(await store.tables()).some((spec) => spec.name === LOG_TABLE.name);
  await store.createTable(LOG_TABLE);
  // The other front ends of HBase look for it from time to time.
  if (isNew && !store.supports.atomicPlan) await delay(2 * LOG_LOOK_MS);
  return isNew;
}

/** Lets a replica follow: stores the hash of its password. The first grant creates the log. */
export async function grant(store: Store, name: string, hash: Buffer): Promise<void> {
  await beginLog(store);
  const history = await readHistory(store);
  const put: Cell[] = [{ family: 0, qualifier: grantCell(name), value: hash }];
  if (history.terms.length === 0) put.push(termCellAt(1, await store.settled(LOG_TABLE.name)));
  await store.commit({ steps: [{ table: META_TABLE.name, key: HISTORY_KEY, put }], decisive: 0 });
}

/** Ends the right of a replica to follow. The last one that goes takes the log with it, which then costs nothing. */
export async function revoke(store: Store, name: string): Promise<boolean> {
  const { grants } = await readHistory(store);
  if (!grants.has(name)) return false;
  if (grants.size === 1) {
    await store.commit({ steps: [{ table: META_TABLE.name, key: HISTORY_KEY, deleteRow: true }], decisive: 0 });
    await store.dropTable(LOG_TABLE.name);
  } else {
    const names = [{ family: 0, qualifier: grantCell(name) }];
    await store.commit({ steps: [{ table: META_TABLE.name, key: HISTORY_KEY, delete: names }], decisive: 0 });
  }
  return true;
}

/** Returns the number of the first entry that two logs do not share for sure; undefined: they have the same terms. */
export function partingOf(a: readonly Term[], b: readonly Term[]): bigint | undefined {
  const common = a.findIndex(({ id }, i) => id !== b[i]?.id);
  const starts = [a[common < 0 ? a.length : common], b[common < 0 ? a.length : common]].flatMap(
    (one) => one?.start ?? [],
  );
  return starts.sort((x, y) => (x < y ? -1 : 1))[0];
}

/**
 * Compares the history of a replica at `position`, where it has `entry` (`entryUpTo`), with that of this server.
 * `isWhole`: no other server has more of the newest term than this one. Returns why the replica cannot follow;
 * undefined: it can.
 */
export async function refusalOf(
  store: Store,
  replica: { readonly terms: readonly Term[]; readonly position: bigint; readonly entry?: string | undefined },
  isWhole = false,
): Promise<Refusal | undefined> {
  const { terms } = await readHistory(store);
  if (terms.length === 0) return { reason: 'none', text: 'no replica was granted here' };
  const [newest, theirNewest] = [terms.at(-1)!.term, replica.terms.at(-1)?.term ?? 0];
  if (theirNewest > newest)
    return { reason: 'stale', text: `this server is of term ${newest}, and there is a primary of term ${theirNewest}` };
  const end = partingOf(terms, replica.terms);
  if (end !== undefined && replica.position >= end) {
    const text = `the replica has entries from ${end} on that this server lacks; "rowan replica rejoin" shows and drops them`;
    return { reason: 'diverged', text };
  }
  const last = await lastEntry(store);
  const entry = await entryUpTo(store, replica.position);
  const isOther = replica.entry !== undefined && entry !== undefined && entry !== replica.entry;
  if (replica.position > last ? isWhole : isOther) {
    const text = `change ${replica.position} of the replica is not in the log of this server, which was restored from an older copy; promote the replica and "rowan replica rejoin" this server, or "rowan replica rejoin" the replica, which drops what this server lacks`;
    return { reason: 'diverged', text };
  }
  if (replica.position > last)
    return { reason: 'stale', text: `the replica has the log up to ${replica.position}, this server up to ${last}` };
  return gapAfter(store, replica.position);
}

/** Returns a refusal if entries behind `position` are gone. */
export async function gapAfter(store: Store, position: bigint): Promise<Refusal | undefined> {
  const [key] = await keysOf(store.scan(LOG_TABLE.name, {}, { limit: 1, keysOnly: true }));
  const first = key?.readBigUInt64BE() ?? 1n;
  if (position + 1n >= first) return undefined;
  return { reason: 'behind', text: `the replica has the log up to ${position}; here it begins at ${first}` };
}
