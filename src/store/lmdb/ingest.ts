import { Worker } from 'node:worker_threads';
import type { LoadTable, Plan } from '../contract.js';
import { StoreError, type StoreErrorCode } from '../errors.js';
import { giveMemory, type PackedRows } from '../load.js';
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

interface Waiting {
  readonly rows: readonly PackedRows[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Hands bulk batches to a thread of their own (`ingest-worker.ts`), which lives from the first batch to `close`. */
export class Ingester {
  readonly #folder: string;
  #worker: Worker | undefined;
  readonly #waiting = new Map<number, Waiting>();
  /** Batches are written in the order given; this one ends last. */
  #last: Promise<void> = Promise.resolve();
  #id = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  ingest(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    const rows = tables.map((table) => packedRows(table.rows));
    const packed = tables.map((table, i) => packTable(table, rows[i]!));
    this.#worker ??= this.#start();
    const worker = this.#worker;
    const id = ++this.#id;
    const written = new Promise<void>((resolve, reject) => {
      this.#waiting.set(id, { rows, resolve, reject });
      const request: IngestRequest = { id, tables: packed, plan };
      worker.postMessage(
        request,
        packed.map((table) => table.bytes),
      );
    });
    this.#last = written.catch(() => undefined);
    return written;
  }

  #start(): Worker {
    const worker = new Worker(new URL('./ingest-worker.js', import.meta.url), { workerData: { folder: this.#folder } });
    worker.on('message', (reply: IngestReply) => this.#settle(reply));
    worker.on('error', (error) => this.#fail(error));
    worker.on('exit', () => this.#fail(new Error('the writing thread has ended')));
    return worker;
  }

  #settle({ id, error, memory }: IngestReply): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (!waiting) return;
    if (!error) {
      giveMemory(memory);
      waiting.resolve();
      return;
    }
    for (const [i, bytes] of memory.entries()) waiting.rows[i]!.bytes = Buffer.from(bytes);
    waiting.reject(error.code ? new StoreError(error.code, error.message) : new Error(error.message));
  }

  #fail(error: Error): void {
    this.#worker = undefined;
    for (const { reject } of this.#waiting.values()) {
      reject(new StoreError('unavailable', 'a bulk batch could not be written', { cause: error, applied: 'unknown' }));
    }
    this.#waiting.clear();
  }

  /** A thread that is stopped within a transaction would leave the write lock behind, so it finishes what it has. */
  async close(): Promise<void> {
    await this.#last;
    await this.#worker?.terminate();
    this.#worker = undefined;
  }
}
