import type { Socket } from 'node:net';
import { beforeEachSlice } from '../../fair/time-slice.js';
import type { Maybe } from '../../partition/index.js';
import { abandonSlabs, hadManySlabs } from '../../protocol/slabs.js';
import { RESPONSE_CHUNK, Writer } from '../../protocol/writer.js';
import { ChunkedMessages } from './chunked-messages.js';
import { SendQueue, type UnsentTotal } from './send-queue.js';

const MAX_POOLED_WRITERS = 16;

/** Unused writers. An idle connection has no writer, because it returns the writer when all bytes are flushed. */
const writerPool: Writer[] = [];

/** Outputs with unflushed bytes, oldest first. */
let unflushedOutputs: Output[] = [];
let unflushedSince = 0;
/** Longest time that a response waits for others to be flushed together, in milliseconds. */
const MAX_DELAY_MS = 0.5;

function flushAll(): void {
  const outputs = unflushedOutputs;
  unflushedOutputs = [];
  for (const output of outputs) output.flush();
}
beforeEachSlice(flushAll);

/** Returns the memory of many responses to the system when no connection has unsent or unflushed bytes. */
function freeSlabsWhenIdle(unsentTotal: UnsentTotal): void {
  if (unsentTotal.bytes > 0 || unflushedOutputs.length > 0 || !hadManySlabs()) return;
  for (const writer of writerPool) writer.release();
  abandonSlabs();
}

/**
 * The output buffer of a connection. Responses are written into one buffer. The buffers of all connections are flushed
 * together at the end of an iteration of the event loop: writing to a peer that is awake costs a fraction of waking it.
 */
export class Output {
  readonly identity: (() => string) | undefined;
  readonly #queue: SendQueue;
  readonly #chunkedMessages: ChunkedMessages;
  readonly #limitBytes: number;
  readonly #unsentTotal: UnsentTotal;
  #writer: Writer | undefined;
  /** Callers that wait until the output is no longer full. */
  #drainWaiters: (() => void)[] = [];
  #isWakeScheduled = false;
  /** Callers that wait until everything is sent. */
  #sentWaiters: (() => void)[] = [];

  /** `limit`: unsent bytes from which the output is full. `identity` returns the key of the user at the connection. */
  constructor(socket: Socket, limit: number, unsentTotal: UnsentTotal, identity?: () => string) {
    this.#queue = new SendQueue(socket, unsentTotal, () => this.#onSent());
    this.#chunkedMessages = new ChunkedMessages(this.#queue, this, unsentTotal);
    this.#limitBytes = limit;
    this.#unsentTotal = unsentTotal;
    this.identity = identity;
  }

  /** Bytes that the peer has not received. */
  get unsentBytes(): number {
    return this.#queue.unsentBytes + this.#chunkedMessages.pendingBytes + (this.#writer?.length ?? 0);
  }

  /** Whether callers have to wait. A full output always has unsent bytes, so `#onSent` will wake the waiters. */
  get isFull(): boolean {
    const unsentBytes = this.unsentBytes;
    return unsentBytes > this.#limitBytes || (unsentBytes > 0 && unsentBytes > this.#unsentTotal.freeBytes);
  }

  /** `performance.now()` when the bytes in the socket were written; 0 when there are none. */
  get writtenAt(): number {
    return this.#queue.writtenAt;
  }

  /** The writer for the next message. Callers must not keep it for longer. */
  get writer(): Writer {
    if (!this.#writer) {
      this.#writer = writerPool.pop() ?? new Writer(true);
      if (unflushedOutputs.length === 0) {
        unflushedSince = performance.now();
        setImmediate(flushAll);
      }
      unflushedOutputs.push(this);
    }
    return this.#writer;
  }

  /** Waits while the output is full. Flushes small chunks, as each chunk that the peer receives counts as progress. */
  waitForDrain(): Maybe<void> {
    if (this.#writer && this.#writer.length >= RESPONSE_CHUNK) this.flush();
    if (!this.isFull || this.#queue.isClosed) return;
    // A small chunk is flushed, because no more messages follow while the caller waits.
    this.flush();
    return new Promise((resolve) => this.#drainWaiters.push(resolve));
  }

  /** Flushes all outputs when many have responses or the oldest response is due. Called between requests. */
  static flushIfDue(now: number): void {
    if (
      unflushedOutputs.length >= MAX_POOLED_WRITERS ||
      (unflushedOutputs.length > 0 && now - unflushedSince > MAX_DELAY_MS)
    )
      flushAll();
  }

  flush(): void {
    const writer = this.#writer;
    if (!writer) return;
    this.#writer = undefined;
    const bytes = writer.take();
    if (writerPool.length < MAX_POOLED_WRITERS) writerPool.push(writer);
    else writer.release();
    if (this.#chunkedMessages.isSending) this.#chunkedMessages.defer(bytes);
    else this.#queue.push(bytes);
  }

  /** See `ChunkedMessages.write`. */
  writeChunked(chunks: AsyncIterable<Buffer>, keptBytes?: number): Promise<number> {
    return this.#chunkedMessages.write(chunks, keptBytes);
  }

  onBytesFreed(): void {
    this.#wakeNextWaiter();
    this.onMessageEnd();
  }

  #onSent(): void {
    freeSlabsWhenIdle(this.#unsentTotal);
    if (!this.#queue.hasQueuedChunks) this.#chunkedMessages.resume();
    this.#wakeNextWaiter();
    if (!this.#chunkedMessages.isSending) this.onMessageEnd();
  }

  /** Wakes one waiter at a time, because each may fill the output again. */
  #wakeNextWaiter(): void {
    if (this.isFull) return;
    this.#drainWaiters.shift()?.();
    if (this.#drainWaiters.length === 0 || this.#isWakeScheduled) return;
    this.#isWakeScheduled = true;
    setImmediate(() => {
      this.#isWakeScheduled = false;
      this.#wakeNextWaiter();
    });
  }

  /** Called when no chunked message is being sent. Wakes the callers of `waitUntilSent` when nothing is unsent. */
  onMessageEnd(): void {
    if (this.unsentBytes === 0 && !this.#chunkedMessages.isSending) this.#sentWaiters = wakeAll(this.#sentWaiters);
  }

  /** Resolves when the kernel has everything written so far, or the connection is closed. */
  waitUntilSent(): Maybe<void> {
    this.flush();
    if (this.#queue.isClosed || (this.unsentBytes === 0 && !this.#chunkedMessages.isSending)) return;
    return new Promise((resolve) => this.#sentWaiters.push(resolve));
  }

  /** Continues with another socket over the same connection (StartTLS). Nothing may be unsent. */
  moveTo(socket: Socket): void {
    this.#queue.moveTo(socket);
  }

  /** Drops everything unsent and wakes all waiters. */
  close(): void {
    this.#queue.close();
    this.flush();
    this.#chunkedMessages.close();
    this.#drainWaiters = wakeAll(this.#drainWaiters);
    this.#sentWaiters = wakeAll(this.#sentWaiters);
    freeSlabsWhenIdle(this.#unsentTotal);
  }
}

function wakeAll(waiters: (() => void)[]): (() => void)[] {
  if (waiters.length === 0) return waiters;
  for (const resolve of waiters) resolve();
  return [];
}
