import { Worker } from 'node:worker_threads';
import type { LoadTable, Plan } from '../../contract.js';
import { giveMemory, type PackedRows } from '../../load.js';
import { StoreError, type StoreErrorCode } from '../../store-error.js';
import type { Failpoint, FailpointName } from '../failpoint.js';
import { type PackedTable, packedRows, packTable } from './ingest-codec.js';

export interface IngestRequest {
  readonly id: number;
  readonly tables: readonly PackedTable[];
  readonly plan: Plan;
}

export interface IngestReply {
  readonly id: number;
  readonly error?: { readonly code: StoreErrorCode | undefined; readonly message: string };
  /** The memory of the tables. */
  readonly memory: readonly ArrayBuffer[];
}

/** The thread is at a failpoint and waits for `go`. */
export interface FailpointPassed {
  readonly failpoint: FailpointName;
}

/** What the thread begins with. */
export interface IngestData {
  readonly folder: string;
  /** Where failpoints are wanted: set to `GO` or `FAIL` when the one that the thread is at was looked at. */
  readonly gate?: Int32Array<SharedArrayBuffer> | undefined;
}

export const WAIT = 0;
export const GO = 1;
export const FAIL = 2;

interface Waiting {
  readonly rows: readonly PackedRows[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** A thread that writes bulk batches, and the batches that it has. */
class IngestThread {
  readonly #worker: Worker;
  readonly #failpoint: Failpoint | undefined;
  readonly #gate: Int32Array<SharedArrayBuffer> | undefined;
  readonly #ended: () => void;
  readonly #waiting = new Map<number, Waiting>();
  #id = 0;

  /** `ended`: it takes no more batches, and those that it had were refused. */
  constructor(folder: string, failpoint: Failpoint | undefined, ended: () => void) {
    this.#failpoint = failpoint;
    this.#gate = failpoint && new Int32Array(new SharedArrayBuffer(4));
    this.#ended = ended;
    const workerData: IngestData = { folder, gate: this.#gate };
    this.#worker = new Worker(new URL('./ingest-worker.js', import.meta.url), { workerData });
    this.#worker.on('message', (reply: IngestReply | FailpointPassed) =>
      'failpoint' in reply ? this.#pass(reply.failpoint) : this.#settle(reply),
    );
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('exit', () => this.#fail(new Error('the writing thread has ended')));
  }

  write(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    const rows = tables.map((table) => packedRows(table.rows));
    const packed = tables.map((table, i) => packTable(table, rows[i]!));
    const id = ++this.#id;
    return new Promise<void>((resolve, reject) => {
      this.#waiting.set(id, { rows, resolve, reject });
      const request: IngestRequest = { id, tables: packed, plan };
      this.#worker.postMessage(
        request,
        packed.map((table) => table.bytes),
      );
    });
  }

  #pass(name: FailpointName): void {
    let next = GO;
    try {
      this.#failpoint!(name);
    } catch {
      next = FAIL;
    }
    Atomics.store(this.#gate!, 0, next);
    Atomics.notify(this.#gate!, 0);
  }

  #settle({ id, error, memory }: IngestReply): void {
    const waiting = this.#waiting.get(id)!;
    this.#waiting.delete(id);
    if (!error) {
      giveMemory(memory);
      waiting.resolve();
      return;
    }
    for (const [i, bytes] of memory.entries()) waiting.rows[i]!.bytes = Buffer.from(bytes);
    waiting.reject(error.code ? new StoreError(error.code, error.message) : new Error(error.message));
  }

  #fail(error: Error): void {
    this.#ended();
    for (const { reject } of this.#waiting.values()) {
      reject(new StoreError('unavailable', 'a bulk batch could not be written', { cause: error, applied: 'unknown' }));
    }
    this.#waiting.clear();
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }
}

/**
 * Hands bulk batches to a thread of their own (`ingest-worker.ts`), which lives from the first batch to `close`, or to
 * its death.
 */
export class Ingester {
  readonly #folder: string;
  readonly #failpoint: Failpoint | undefined;
  #thread: IngestThread | undefined;
  /** Batches are written in the order given; this one ends last. */
  #last: Promise<void> = Promise.resolve();

  constructor(folder: string, failpoint?: Failpoint) {
    this.#folder = folder;
    this.#failpoint = failpoint;
  }

  ingest(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    this.#thread ??= this.#start();
    const written = this.#thread.write(tables, plan);
    this.#last = written.catch(() => undefined);
    return written;
  }

  #start(): IngestThread {
    const thread: IngestThread = new IngestThread(this.#folder, this.#failpoint, () => {
      if (this.#thread === thread) this.#thread = undefined;
    });
    return thread;
  }

  /** A thread that is stopped within a transaction would leave the write lock behind, so it finishes what it has. */
  async close(): Promise<void> {
    await this.#last;
    await this.#thread?.end();
  }
}
