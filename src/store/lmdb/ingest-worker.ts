import { parentPort, workerData } from 'node:worker_threads';
import { ABORT, type TransactionFlags } from 'lmdb';
import { StoreError } from '../errors.js';
import { checkKey, Stage } from '../stage.js';
import { EnvironmentSink, EnvironmentSource } from './committer.js';
import { type Environment, openEnvironment } from './environment.js';
import { toStoreError } from './errors.js';
import type { IngestReply, IngestRequest } from './ingest.js';
import { type PackedTable, revivePlan, unpackTable } from './ingest-codec.js';
import { RowWriter, SuffixWriter } from './loader.js';

/** The thread that writes bulk batches, so that the next one is prepared meanwhile. */

/** Commit at once, do not wait for the disk: `flush` does. */
const NO_FLUSH = 0x10002 as TransactionFlags;

const { folder } = workerData as { folder: string };
const env = openEnvironment(folder, false);

parentPort!.on('message', (request: IngestRequest) => {
  parentPort!.postMessage(answer(request));
});

function answer({ id, tables, plan }: IngestRequest): IngestReply {
  try {
    if (!env.isCurrent()) env.refresh();
    writeBatch(env, tables, revivePlan(plan));
    return { id };
  } catch (error) {
    const shown = toStoreError(error, folder);
    const code = shown instanceof StoreError ? shown.code : undefined;
    return { id, error: { code, message: shown instanceof Error ? shown.message : String(shown) } };
  }
}

/** One transaction: nothing of the batch stays when something in it fails. */
function writeBatch(env: Environment, tables: readonly PackedTable[], plan: ReturnType<typeof revivePlan>): void {
  let failure: unknown;
  env.root.transactionSync(() => {
    try {
      for (const table of tables) writeTable(env, table);
      const stage = new Stage(new EnvironmentSource(env));
      stage.apply(plan);
      stage.drain(new EnvironmentSink(env));
      return undefined;
    } catch (error) {
      failure = error;
      return ABORT;
    }
  }, NO_FLUSH);
  if (failure) throw failure;
}

function writeTable(env: Environment, packed: PackedTable): void {
  const table = env.table(packed.table);
  if (packed.append) {
    appendRows(env, packed);
    return;
  }
  const writer = table.spec.suffixBytes === undefined ? new RowWriter(table) : new SuffixWriter(table);
  let last: Buffer | undefined;
  for (const row of unpackTable(packed)) {
    checkKey(row.key, { ...table.spec, suffixBytes: 0 }, env.maxKey);
    if (last && Buffer.compare(last, row.key) >= 0) throw new TypeError('rows to load must rise by key');
    last = row.key;
    if (packed.absent && table.rows.doesExist(row.key)) {
      throw new StoreError('guard', `a row of ${packed.table} that is to be loaded exists`);
    }
    writer.write(row, packed.absent);
  }
}

function appendRows(env: Environment, packed: PackedTable): void {
  const table = env.table(packed.table);
  const writer = new RowWriter(table);
  let last = env.lastAppended(table.id);
  for (const { row } of unpackTable(packed)) {
    const key = Buffer.allocUnsafe(8);
    key.writeBigUInt64BE(++last);
    writer.write({ key, row }, true);
  }
  env.putAppended(table.id, last);
}
