import { Worker } from 'node:worker_threads';
import type { LoadTable, Plan } from '../../contract.js';
import { type PackedRows, recycleMemory } from '../../load.js';
import { StoreError, type StoreErrorCode } from '../../store-error.js';
import type { Failpoint, FailpointName } from '../lmdb-options.js';
import { type PackedTable, packedRows, packTable } from './ingest-codec.js';

export interface IngestRequest {
  readonly id: number;
  readonly tables: readonly PackedTable[];
  readonly plan: Plan;
}

export interface IngestReply {
  readonly id: number;
  readonly error?: { readonly code: StoreErrorCode | undefined; readonly message: string };
  /** The memory of the request's tables, transferred back. */
  readonly memory: readonly ArrayBuffer[];
}

/** Message from the thread that it has stopped at a failpoint and waits for `FAILPOINT_GO` or `FAILPOINT_FAIL`. */
export interface FailpointStop {
  readonly failpoint: FailpointName;
}

/** The `workerData` of the thread. */
export interface IngestData {
  readonly folder: string;
  /** Present if failpoints are used: `FAILPOINT_GO` or `FAILPOINT_FAIL` of the main thread releases the thread. */
  readonly gate?: Int32Array<SharedArrayBuffer> | undefined;
}

/** The values of `IngestData.gate`. */
export const FAILPOINT_WAIT = 0;
export const FAILPOINT_GO = 1;
export const FAILPOINT_FAIL = 2;

interface PendingBatch {
  readonly rows: readonly PackedRows[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** A thread that writes bulk batches, with its pending batches. */
class IngestThread {
  readonly #worker: Worker;
  readonly #failpoint: Failpoint | undefined;
  readonly #gate: Int32Array<SharedArrayBuffer> | undefined;
  readonly #onEnd: () => void;
  readonly #pendingBatches = new Map<number, PendingBatch>();
  #lastId = 0;

  /** `onEnd` is called when the thread has died, after which it must get no more batches. */
  constructor(folder: string, failpoint: Failpoint | undefined, onEnd: () => void) {
    this.#failpoint = failpoint;
    this.#gate = failpoint && new Int32Array(new SharedArrayBuffer(4));
    this.#onEnd = onEnd;
    const workerData: IngestData = { folder, gate: this.#gate };
    this.#worker = new Worker(new URL('./ingest-worker.js', import.meta.url), { workerData });
    this.#worker.on('message', (reply: IngestReply | FailpointStop) =>
      'failpoint' in reply ? this.#passFailpoint(reply.failpoint) : this.#settleBatch(reply),
    );
    this.#worker.on('error', (error) => this.#rejectAll(error));
    this.#worker.on('exit', () => this.#rejectAll(new Error('the writing thread has ended')));
  }

  write(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    const rows = tables.map((table) => packedRows(table.rows));
    const packedTables = tables.map((table, i) => packTable(table, rows[i]!));
    const id = ++this.#lastId;
    return new Promise<void>((resolve, reject) => {
      this.#pendingBatches.set(id, { rows, resolve, reject });
      const request: IngestRequest = { id, tables: packedTables, plan };
      this.#worker.postMessage(
        request,
        packedTables.map((table) => table.bytes),
      );
    });
  }

  #passFailpoint(name: FailpointName): void {
    let signal = FAILPOINT_GO;
    try {
      this.#failpoint!(name);
    } catch {
      // The thread fails in place of the failpoint.
      signal = FAILPOINT_FAIL;
    }
    Atomics.store(this.#gate!, 0, signal);
    Atomics.notify(this.#gate!, 0);
  }

  #settleBatch({ id, error, memory }: IngestReply): void {
    const batch = this.#pendingBatches.get(id)!;
    this.#pendingBatches.delete(id);
    if (!error) {
      recycleMemory(memory);
      batch.resolve();
      return;
    }
    for (const [i, bytes] of memory.entries()) batch.rows[i]!.bytes = Buffer.from(bytes);
    batch.reject(error.code ? new StoreError(error.code, error.message) : new Error(error.message));
  }

  #rejectAll(error: Error): void {
    this.#onEnd();
    for (const { reject } of this.#pendingBatches.values()) {
      reject(new StoreError('unavailable', 'a bulk batch could not be written', { cause: error, applied: 'unknown' }));
    }
    this.#pendingBatches.clear();
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }
}

/** Sends bulk batches to the ingest thread (`ingest-worker.ts`). The first batch starts it, also after a crash. */
export class Ingester {
  readonly #folder: string;
  readonly #failpoint: Failpoint | undefined;
  #thread: IngestThread | undefined;
  /** The last batch. The thread writes batches in order. */
  #lastBatch: Promise<void> = Promise.resolve();

  constructor(folder: string, failpoint?: Failpoint) {
    this.#folder = folder;
    this.#failpoint = failpoint;
  }

  ingest(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    this.#thread ??= this.#start();
    const result = this.#thread.write(tables, plan);
    // The caller gets the error of the batch.
    this.#lastBatch = result.catch(() => undefined);
    return result;
  }

  #start(): IngestThread {
    const thread: IngestThread = new IngestThread(this.#folder, this.#failpoint, () => {
      if (this.#thread === thread) this.#thread = undefined;
    });
    return thread;
  }

  /** Waits for pending batches first: a thread that is terminated inside a transaction would keep the write lock. */
  async close(): Promise<void> {
    await this.#lastBatch;
    await this.#thread?.end();
  }
}
