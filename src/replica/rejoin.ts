import { CHANGES_TABLE } from '../partition/model/tables.js';
import type { Store } from '../store/contract.js';
import { LOG_TABLE, readTouches } from '../store/log.js';
import { batchesOf } from '../store/maybe.js';
import { counterBytes } from '../store/row.js';
import { Applier } from './applier.js';
import { request } from './asking.js';
import { entryUpTo, lastEntry, partingOf, readHistory } from './history.js';
import type { LdapClient } from './ldap-client.js';
import type { Term } from './wire.js';

/** Bytes of log entries in one request. */
const REQUEST_BYTES = 256 * 1024;

/** What a directory has that the primary of a newer term lacks. */
export interface Divergence {
  /** Number of the first entry of the log that the primary lacks. */
  readonly from: bigint;
  /** Keys and packed rows of these entries. */
  readonly keys: readonly Buffer[];
  readonly rows: readonly Buffer[];
  /** Keys of the change records among the touched rows, in order. */
  readonly changes: readonly Buffer[];
}

/**
 * Finds where the log of a directory parts from that of a primary with these terms. `readEntry` reads the identity of
 * the primary's last entry up to a number (`entryUpTo`). Throws when the logs share no entry any more.
 */
export async function divergenceFrom(
  store: Store,
  terms: readonly Term[],
  readEntry: (position: bigint) => Promise<string | undefined>,
): Promise<Divergence> {
  const last = await lastEntry(store);
  const parting = partingOf((await readHistory(store)).terms, terms) ?? last + 1n;
  // Within a term the logs part, too, where one of the servers was restored from an older copy.
  let shared = 0n;
  for (let high = parting <= last ? parting - 1n : last; shared < high; ) {
    const middle = (shared + high + 1n) / 2n;
    const [ours, theirs] = [await entryUpTo(store, middle), await readEntry(middle)];
    // Either log may begin later.
    if (ours === undefined || theirs === undefined || ours === theirs) shared = middle;
    else high = middle - 1n;
  }
  const entry = await entryUpTo(store, shared);
  if (entry === undefined || entry !== (await readEntry(shared)))
    throw new Error(
      'the logs of the two servers have no change in common, so what is here alone cannot be listed: "rowan compare" shows what differs; then copy into an empty folder ("rowan replica init")',
    );
  const from = shared + 1n;
  const keys: Buffer[] = [];
  const rows: Buffer[] = [];
  const changes = new Map<string, Buffer>();
  for await (const batch of batchesOf(store.scan(LOG_TABLE.name, { from: counterBytes(from) })))
    for (const [i, key] of batch.keys.entries()) {
      keys.push(key);
      rows.push(batch.rows[i]!);
      for (const touch of readTouches(key, batch.rows[i]!))
        if (touch.table === CHANGES_TABLE.name) changes.set(touch.key.toString('hex'), touch.key);
    }
  return { from, keys, rows, changes: [...changes].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, key]) => key) };
}

/**
 * Replaces all rows that the diverged entries of the log have touched by those that the primary has now, and drops the
 * entries. The store is consistent when it has also applied what the primary's log has from there on.
 */
export async function turnBack(store: Store, client: LdapClient, { keys, rows }: Divergence): Promise<void> {
  const applier = new Applier(store);
  for (let i = 0; i < rows.length; ) {
    const entries: Buffer[] = [];
    for (let bytes = 0; i < rows.length && bytes < REQUEST_BYTES; bytes += rows[i++]!.length) entries.push(rows[i]!);
    await request(client, { position: 0n, terms: [], entries }, async (message) => void (await applier.apply(message)));
  }
  await applier.flush();
  const steps = keys.map((key) => ({ table: LOG_TABLE.name, key, deleteRow: true }));
  if (steps.length > 0) await store.commit({ steps, decisive: 0, unlogged: true });
}
