import { batchesOf } from '../../batches.js';
import { cellValue, unpackRow } from '../../row.js';
import { StoreError } from '../../store-error.js';
import type { Cluster } from '../cluster.js';
import { KEY_ONLY } from '../rpc/filters.js';
import type { Clock } from './clock.js';
import { ID_BYTES } from './codec.js';
import { JOURNAL, STATE } from './journal-tables.js';
import type { Pace } from './pace.js';
import { batchTicket } from './writer.js';

/** Number of leases without progress after which the wait fails. */
const SILENT_LEASES = 6;

/**
 * Resolves when every plan that was decided before the call is applied and its counters are folded, that is, written to
 * their rows. A record stays in the journal until its counters are folded, either by its front end or, after a crash,
 * by a sweeper. Rejects with `unavailable` when no progress is seen for `SILENT_LEASES` leases. `ticket`: the ticket
 * drawn last when the wait began. `readSettledTicket`: as `Store.settled`.
 */
export async function waitForDecidedPlans(
  cluster: Cluster,
  ticket: bigint,
  readSettledTicket: () => Promise<bigint>,
  clock: Clock,
  pace: Pick<Pace, 'leaseMs' | 'foldIntervalMs'>,
): Promise<void> {
  let records = await listRecords(cluster);
  let lastProgress = '';
  for (let progressAt = clock.now(); ; await clock.sleep(pace.foldIntervalMs)) {
    const unfinishedRecords = await listRecords(cluster);
    records = records.filter((record) => unfinishedRecords.includes(record));
    if (records.length === 0 && (await readSettledTicket()) >= ticket) return;
    const progress = await readProgress(cluster, ticket, records);
    if (progress !== lastProgress) progressAt = clock.now();
    lastProgress = progress;
    if (clock.now() - progressAt > SILENT_LEASES * pace.leaseMs)
      throw new StoreError(
        'unavailable',
        'a plan that was decided is not done, and its front end shows no sign of life; start one, which takes it up',
      );
  }
}

/** Returns the records of plans that are decided and not finished, as writer and sequence in latin-1. */
async function listRecords({ client, journal }: Cluster): Promise<string[]> {
  const records: string[] = [];
  const scan = client.scan(journal, {}, { families: [JOURNAL.plan], filter: KEY_ONLY });
  for await (const { keys, rows } of batchesOf(scan))
    for (const [i, id] of keys.entries()) {
      if (id.length !== ID_BYTES) continue;
      for (const { qualifier } of unpackRow(rows[i]!))
        if (batchTicket(qualifier) === undefined) records.push(Buffer.concat([id, qualifier]).toString('latin1'));
    }
  return records;
}

/** Returns a text that changes as long as a writer of one of the records, or of an unfinished plan, is alive. */
async function readProgress({ client, journal }: Cluster, ticket: bigint, records: readonly string[]): Promise<string> {
  const writers = new Set(records.map((record) => record.slice(0, ID_BYTES)));
  let progress = '';
  const scan = client.scan(journal, {}, { families: [JOURNAL.state] });
  for await (const { keys, rows } of batchesOf(scan))
    for (const [i, id] of keys.entries()) {
      const [floor, beat, state] = [STATE.floor, STATE.beat, STATE.state].map((qualifier) =>
        cellValue(rows[i]!, JOURNAL.state, qualifier),
      );
      if (!writers.has(id.toString('latin1')) && floor && floor.readBigInt64BE() >= ticket) continue;
      progress += `${id.toString('hex')} ${beat?.toString('hex')} ${state}\n`;
    }
  return progress;
}
