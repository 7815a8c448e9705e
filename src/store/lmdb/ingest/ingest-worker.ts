import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { ABORT, type TransactionFlags } from 'lmdb';
import { Stage } from '../../stage.js';
import { StoreError } from '../../store-error.js';
import { noTable } from '../../tables.js';
import type { FailpointName } from '../failpoint.js';
import { openEnvironment } from '../file/environment.js';
import { toStoreError } from '../file/lmdb-errors.js';
import type { LmdbTable } from '../file/lmdb-table.js';
import { drainInto, EnvironmentSource } from '../write/committer.js';
import { revivePlan, rowsOf } from './ingest-codec.js';
import { FAIL, type FailpointPassed, type IngestData, type IngestReply, type IngestRequest, WAIT } from './ingester.js';
import { TableLoader } from './loader.js';

/**
 * The thread that writes bulk batches, so that the next ones are prepared meanwhile. Batches that wait are written in
 * one transaction; one that fails is taken out of it.
 */

/** Commit here and now. */
const AT_ONCE = 2 as TransactionFlags;
/** A transaction takes no more batches after so many milliseconds: others wait for the write lock. */
const TRANSACTION_MS = 150;

const { folder, gate } = workerData as IngestData;
const port = parentPort!;
const env = openEnvironment(folder);
const loaders = new Map<LmdbTable, TableLoader>();

port.on('message', (first: IngestRequest) => {
  passed('ingest begin');
  const requests = [first];
  let failure = attempt(requests, true);
  while (failure) {
    const failed = failure.at < 0 ? requests.splice(0) : requests.splice(failure.at, 1);
    for (const request of failed) reply(request, failure.error);
    failure = requests.length > 0 ? attempt(requests, false) : undefined;
  }
  if (requests.length > 0) passed('ingest durable');
  for (const request of requests) reply(request);
});

/** Waits until whoever wants to look at the failpoint has done so. */
function passed(failpoint: FailpointName): void {
  if (!gate) return;
  Atomics.store(gate, 0, WAIT);
  port.postMessage({ failpoint } satisfies FailpointPassed);
  Atomics.wait(gate, 0, WAIT);
  if (Atomics.load(gate, 0) === FAIL) throw new Error(`failpoint ${failpoint}`);
}

/** Why nothing was written: the request at `at`, or at -1 the commit. */
interface Failure {
  readonly at: number;
  readonly error: unknown;
}

/** Writes the requests in one transaction; with `more`, those too that wait behind them, which are added. */
function attempt(requests: IngestRequest[], more: boolean): Failure | undefined {
  let failure: Failure | undefined;
  try {
    for (let current = false; !current; ) {
      openTables();
      env.root.transactionSync(() => {
        env.writes++;
        current = env.isCurrent();
        failure = current ? writeAll(requests, more) : undefined;
        return current && !failure ? undefined : ABORT;
      }, AT_ONCE);
    }
    return failure;
  } catch (error) {
    return { at: -1, error };
  }
}

/** Not inside a transaction. */
function openTables(): void {
  if (env.isCurrent() && loaders.size > 0) return;
  env.refresh();
  for (const table of loaders.keys()) if (table.dropped) loaders.delete(table);
  for (const table of env.tables.values()) {
    if (!loaders.has(table)) loaders.set(table, new TableLoader(env.root, table, env.maxKey));
  }
}

function writeAll(requests: IngestRequest[], more: boolean): Failure | undefined {
  const deadline = performance.now() + TRANSACTION_MS;
  for (let at = 0; ; at++) {
    if (at === requests.length) {
      const next = more && performance.now() < deadline ? receiveMessageOnPort(port) : undefined;
      if (!next) return undefined;
      requests.push(next.message as IngestRequest);
    }
    try {
      writeBatch(requests[at]!);
    } catch (error) {
      return { at, error };
    }
  }
}

function writeBatch({ tables, plan }: IngestRequest): void {
  for (const packed of tables) {
    const rows = rowsOf(packed);
    const table = env.tables.get(packed.table);
    const loader = table && loaders.get(table);
    if (!loader) throw noTable(packed.table);
    if (packed.append) env.catalog.putAppended(table.id, loader.append(rows, env.catalog.lastAppended(table.id)));
    else loader.write(rows, packed.absent);
  }
  passed('ingest rows');
  const stage = new Stage(new EnvironmentSource(env));
  stage.apply(revivePlan(plan));
  drainInto(env, stage);
  passed('ingest written');
}

function reply({ id, tables }: IngestRequest, error?: unknown): void {
  const memory = tables.map(({ bytes }) => bytes);
  port.postMessage({ id, memory, ...(error !== undefined && { error: shown(error) }) } satisfies IngestReply, memory);
}

function shown(error: unknown): NonNullable<IngestReply['error']> {
  const known = toStoreError(error, folder);
  const code = known instanceof StoreError ? known.code : undefined;
  return { code, message: known instanceof Error ? known.message : String(known) };
}
