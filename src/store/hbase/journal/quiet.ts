import { batchesOf } from '../../batches.js';
import { cellValue, unpackRow } from '../../row.js';
import { StoreError } from '../../store-error.js';
import type { Cluster } from '../cluster.js';
import { KEY_ONLY } from '../rpc/requests.js';
import type { Clock, Pace } from './clock.js';
import { ID_BYTES } from './codec.js';
import { JOURNAL, STATE } from './journal-tables.js';
import { batchTicket } from './writer.js';

/** Front ends that are waited for are given so many leases to show a sign of life. */
const QUIET_LEASES = 6;

/**
 * Resolves when every plan that was decided before is wholly done, counters included. A record stays in the journal
 * until its counters are folded: a front end that lives folds them, and one that does not is swept by the others.
 * Rejects with `unavailable` when nothing of either is seen for a while. `given`: a ticket that was drawn before;
 * `settled`: as `Store.settled`.
 */
export async function untilQuiet(
  cluster: Cluster,
  given: bigint,
  settled: () => Promise<bigint>,
  clock: Clock,
  pace: Pick<Pace, 'lease' | 'fold'>,
): Promise<void> {
  let records = await recordsOf(cluster);
  let shown = '';
  for (let since = clock.now(); ; await clock.sleep(pace.fold)) {
    const left = await recordsOf(cluster);
    records = records.filter((record) => left.includes(record));
    if (records.length === 0 && (await settled()) >= given) return;
    const signs = await signsOfLife(cluster, given, records);
    if (signs !== shown) since = clock.now();
    shown = signs;
    if (clock.now() - since > QUIET_LEASES * pace.lease)
      throw new StoreError(
        'unavailable',
        'a plan that was decided is not done, and its front end shows no sign of life; start one, which takes it up',
      );
  }
}

/** Records of plans that are decided and not wholly done: writer and sequence, latin-1. */
async function recordsOf({ client, journal }: Cluster): Promise<string[]> {
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

/** What the writers of the records show, and those that have unfinished plans: it changes while one of them lives. */
async function signsOfLife({ client, journal }: Cluster, given: bigint, records: readonly string[]): Promise<string> {
  const writers = new Set(records.map((record) => record.slice(0, ID_BYTES)));
  let signs = '';
  const scan = client.scan(journal, {}, { families: [JOURNAL.state] });
  for await (const { keys, rows } of batchesOf(scan))
    for (const [i, id] of keys.entries()) {
      const [floor, beat, state] = [STATE.floor, STATE.beat, STATE.state].map((cell) =>
        cellValue(rows[i]!, JOURNAL.state, cell),
      );
      if (!writers.has(id.toString('latin1')) && floor && floor.readBigInt64BE() >= given) continue;
      signs += `${id.toString('hex')} ${beat?.toString('hex')} ${state}\n`;
    }
  return signs;
}
