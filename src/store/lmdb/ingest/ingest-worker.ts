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
 * The thread that writes bulk batches, while the main thread prepares the next batches. All waiting batches are written
 * in one transaction. If a batch fails, the transaction is aborted and repeated without that batch.
 */

/** Flag of lmdb-js: commit synchronously. */
const SYNCHRONOUS = 2 as TransactionFlags;
/** A transaction takes no more batches after this many milliseconds, because other writers wait for the lock. */
const TRANSACTION_MS = 150;

const { folder, gate } = workerData as IngestData;
const port = parentPort!;
const env = openEnvironment(folder);
const loaders = new Map<LmdbTable, TableLoader>();

port.on('message', (first: IngestRequest) => {
  waitAtFailpoint('ingest begin');
  const requests = [first];
  let failure = attempt(requests, true);
  while (failure) {
    const failed = failure.at < 0 ? requests.splice(0) : requests.splice(failure.at, 1);
    for (const request of failed) reply(request, failure.error);
    failure = requests.length > 0 ? attempt(requests, false) : undefined;
  }
  if (requests.length > 0) waitAtFailpoint('ingest durable');
  for (const request of requests) reply(request);
});

/** Stops at a failpoint until the main thread has called the test's `Failpoint`; throws if that throws. */
function waitAtFailpoint(failpoint: FailpointName): void {
  if (!gate) return;
  Atomics.store(gate, 0, WAIT);
  port.postMessage({ failpoint } satisfies FailpointPassed);
  Atomics.wait(gate, 0, WAIT);
  if (Atomics.load(gate, 0) === FAIL) throw new Error(`failpoint ${failpoint}`);
}

/** The reason why a transaction was aborted: the failed request `at`, or the commit if `at` is -1. */
interface Failure {
  readonly at: number;
  readonly error: unknown;
}

/** Writes the requests in one transaction. With `more`, also takes waiting requests and adds them to `requests`. */
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
      }, SYNCHRONOUS);
    }
    return failure;
  } catch (error) {
    return { at: -1, error };
  }
}

/** Opens loaders for new tables and drops those of dropped tables. Must not be called inside a transaction. */
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
  waitAtFailpoint('ingest rows');
  const stage = new Stage(new EnvironmentSource(env));
  stage.apply(revivePlan(plan));
  drainInto(env, stage);
  waitAtFailpoint('ingest written');
}

function reply({ id, tables }: IngestRequest, error?: unknown): void {
  const memory = tables.map(({ bytes }) => bytes);
  port.postMessage(
    { id, memory, ...(error !== undefined && { error: serializeError(error) }) } satisfies IngestReply,
    memory,
  );
}

function serializeError(error: unknown): NonNullable<IngestReply['error']> {
  const known = toStoreError(error, folder);
  const code = known instanceof StoreError ? known.code : undefined;
  return { code, message: known instanceof Error ? known.message : String(known) };
}
