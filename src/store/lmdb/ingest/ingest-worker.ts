import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { ABORT, type TransactionFlags } from 'lmdb';
import { counterBytes } from '../../row.js';
import { Stage } from '../../stage.js';
import { StoreError } from '../../store-error.js';
import { noTable } from '../../tables.js';
import { openEnvironment } from '../file/environment.js';
import { endLineOfLmdb, toStoreError } from '../file/lmdb-errors.js';
import type { LmdbTable } from '../file/lmdb-table.js';
import type { FailpointName } from '../lmdb-options.js';
import { drainInto, EnvironmentSource, logOf } from '../write/committer.js';
import { revivePlan, unpackTable } from './ingest-codec.js';
import {
  FAILPOINT_FAIL,
  FAILPOINT_WAIT,
  type FailpointStop,
  type IngestData,
  type IngestReply,
  type IngestRequest,
} from './ingester.js';
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

port.on('message', (firstRequest: IngestRequest) => {
  waitAtFailpoint('ingest begin');
  const requests = [firstRequest];
  let failure = tryWrite(requests, true);
  while (failure) {
    const failedRequests = failure.requestIndex < 0 ? requests.splice(0) : requests.splice(failure.requestIndex, 1);
    for (const request of failedRequests) sendReply(request, failure.error);
    failure = requests.length > 0 ? tryWrite(requests, false) : undefined;
  }
  if (requests.length > 0) waitAtFailpoint('ingest durable');
  for (const request of requests) sendReply(request);
});

/** Waits at a failpoint until the main thread has called the test's `Failpoint`. Throws if that call threw. */
function waitAtFailpoint(failpoint: FailpointName): void {
  if (!gate) return;
  Atomics.store(gate, 0, FAILPOINT_WAIT);
  port.postMessage({ failpoint } satisfies FailpointStop);
  Atomics.wait(gate, 0, FAILPOINT_WAIT);
  if (Atomics.load(gate, 0) === FAILPOINT_FAIL) throw new Error(`failpoint ${failpoint}`);
}

/** The reason why a transaction was aborted: the failed request, or the commit if `requestIndex` is -1. */
interface Failure {
  readonly requestIndex: number;
  readonly error: unknown;
}

/** Writes the requests in one transaction. With `takesMore`, also takes waiting requests, and adds them to the list. */
function tryWrite(requests: IngestRequest[], takesMore: boolean): Failure | undefined {
  let failure: Failure | undefined;
  try {
    for (let isCurrent = false; !isCurrent; ) {
      updateLoaders();
      env.root.transactionSync(() => {
        env.writeCount++;
        isCurrent = env.isCurrent();
        failure = isCurrent ? writeRequests(requests, takesMore) : undefined;
        return isCurrent && !failure ? undefined : ABORT;
      }, SYNCHRONOUS);
    }
    return failure;
  } catch (error) {
    endLineOfLmdb(error);
    return { requestIndex: -1, error };
  }
}

/** Opens loaders for new tables and drops those of dropped tables. Must not be called inside a transaction. */
function updateLoaders(): void {
  // A read transaction that is open from before would show the former tables for ever.
  env.root.resetReadTxn();
  if (env.isCurrent() && loaders.size > 0) return;
  env.reloadTables();
  for (const table of loaders.keys()) if (table.isDropped) loaders.delete(table);
  for (const table of env.tables.values()) {
    if (!loaders.has(table)) loaders.set(table, new TableLoader(env.root, table, env.maxKey));
  }
}

function writeRequests(requests: IngestRequest[], takesMore: boolean): Failure | undefined {
  const deadline = performance.now() + TRANSACTION_MS;
  for (let requestIndex = 0; ; requestIndex++) {
    if (requestIndex === requests.length) {
      const receivedMessage = takesMore && performance.now() < deadline ? receiveMessageOnPort(port) : undefined;
      if (!receivedMessage) return undefined;
      requests.push(receivedMessage.message as IngestRequest);
    }
    try {
      writeRequest(requests[requestIndex]!);
    } catch (error) {
      return { requestIndex, error };
    }
  }
}

function writeRequest({ tables, plan }: IngestRequest): void {
  const log = logOf(env, plan);
  for (const packedTable of tables) {
    const rows = unpackTable(packedTable);
    const table = env.tables.get(packedTable.table);
    const loader = table && loaders.get(table);
    if (!loader) throw noTable(packedTable.table);
    if (packedTable.isAppend) {
      const lastNumber = env.catalog.lastRowNumber(table.id);
      const newLast = loader.append(rows, lastNumber);
      env.catalog.putRowNumber(table.id, newLast);
      if (log) for (let n = lastNumber + 1n; n <= newLast; n++) log.add(packedTable.table, counterBytes(n), 'row');
    } else {
      loader.write(rows, packedTable.mustBeNew);
      if (log) for (const row of rows) log.addLoaded(table.spec, row);
    }
  }
  waitAtFailpoint('ingest rows');
  const stage = new Stage(new EnvironmentSource(env));
  stage.apply(revivePlan(plan), log);
  drainInto(env, stage);
  waitAtFailpoint('ingest written');
}

function sendReply({ id, tables }: IngestRequest, error?: unknown): void {
  const memory = tables.map(({ bytes }) => bytes);
  port.postMessage(
    { id, memory, ...(error !== undefined && { error: serializeError(error) }) } satisfies IngestReply,
    memory,
  );
}

function serializeError(error: unknown): NonNullable<IngestReply['error']> {
  const storeError = toStoreError(error, folder);
  const code = storeError instanceof StoreError ? storeError.code : undefined;
  return { code, message: storeError instanceof Error ? storeError.message : String(storeError) };
}
