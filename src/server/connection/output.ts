import type { Socket } from 'node:net';
import { beforeEachSlice } from '../../fair/time-slice.js';
import { abandonSlabs, hadManySlabs } from '../../protocol/slabs.js';
import { PIECE, Writer } from '../../protocol/writer.js';
import type { Maybe } from '../words/maybe.js';
import { LongMessages } from './long-messages.js';
import { SendQueue } from './send-queue.js';
import type { Unsent } from './unsent.js';

const MAX_POOLED = 16;

/** Unused writers. An idle connection has no writer, because it returns the writer when all bytes are flushed. */
const pool: Writer[] = [];

/** Outputs with unflushed bytes, oldest first. */
let unflushed: Output[] = [];
let unflushedSince = 0;
/** Longest time that a response waits for others to be flushed together, in milliseconds. */
const MAX_DELAY_MS = 0.5;

function flushAll(): void {
  const outputs = unflushed;
  unflushed = [];
  for (const output of outputs) output.flush();
}
beforeEachSlice(flushAll);

/** Returns the memory of many responses to the system when no connection has unsent or unflushed bytes. */
function freeSlabsWhenIdle(allUnsent: Unsent): void {
  if (allUnsent.bytes > 0 || unflushed.length > 0 || !hadManySlabs()) return;
  for (const writer of pool) writer.release();
  abandonSlabs();
}

/**
 * The output buffer of a connection. Responses are written into one buffer. The buffers of all connections are flushed
 * together at the end of an iteration of the event loop: writing to a peer that is awake costs a fraction of waking it.
 */
export class Output {
  readonly #queue: SendQueue;
  readonly #longMessages: LongMessages;
  readonly #limit: number;
  readonly #allUnsent: Unsent;
  #writer: Writer | undefined;
  /** Callers that wait until the output is no longer full. */
  #drainWaiters: (() => void)[] = [];
  #wakeScheduled = false;
  /** Callers that wait until everything is sent. */
  #sentWaiters: (() => void)[] = [];

  /** `limit`: unsent bytes from which the output is full; `allUnsent`: unsent bytes of all connections. */
  constructor(socket: Socket, limit: number, allUnsent: Unsent) {
    this.#queue = new SendQueue(socket, allUnsent, () => this.#onSent());
    this.#longMessages = new LongMessages(this.#queue, this, allUnsent);
    this.#limit = limit;
    this.#allUnsent = allUnsent;
  }

  /** Bytes that the peer has not received. */
  get unsent(): number {
    return this.#queue.bytes + this.#longMessages.heldBytes + (this.#writer?.length ?? 0);
  }

  /** Whether callers have to wait. A full output always has unsent bytes, so `#onSent` will wake the waiters. */
  get isFull(): boolean {
    const own = this.unsent;
    return own > this.#limit || (own > 0 && own > this.#allUnsent.free);
  }

  /** `performance.now()` when the bytes in the socket were written; 0 when there are none. */
  get sentAt(): number {
    return this.#queue.sentAt;
  }

  /** The writer for the next message. Callers must not keep it for longer. */
  get writer(): Writer {
    if (!this.#writer) {
      this.#writer = pool.pop() ?? new Writer(true);
      if (unflushed.length === 0) {
        unflushedSince = performance.now();
        setImmediate(flushAll);
      }
      unflushed.push(this);
    }
    return this.#writer;
  }

  /** Waits while the output is full. Flushes small pieces, as each piece that the peer receives counts as progress. */
  waitForDrain(): Maybe<void> {
    if (this.#writer && this.#writer.length >= PIECE) this.flush();
    if (!this.isFull || this.#queue.closed) return;
    // A partial piece is flushed, because no more messages follow while the caller waits.
    this.flush();
    return new Promise((resolve) => this.#drainWaiters.push(resolve));
  }

  /** Flushes all outputs when many have responses or the oldest response is due. Called between requests. */
  static flushIfDue(now: number): void {
    if (unflushed.length >= MAX_POOLED || (unflushed.length > 0 && now - unflushedSince > MAX_DELAY_MS)) flushAll();
  }

  flush(): void {
    const writer = this.#writer;
    if (!writer) return;
    this.#writer = undefined;
    const bytes = writer.take();
    if (pool.length < MAX_POOLED) pool.push(writer);
    else writer.release();
    if (this.#longMessages.going) this.#longMessages.hold(bytes);
    else this.#queue.push(bytes);
  }

  /** Writes one message as its pieces come: see `LongMessages.write`. */
  writeLong(pieces: AsyncIterable<Buffer>, waiting?: number): Promise<void> {
    return this.#longMessages.write(pieces, waiting);
  }

  /** Called by `LongMessages` when it holds fewer bytes than before. */
  freed(): void {
    this.#wakeNext();
    this.ended();
  }

  #onSent(): void {
    freeSlabsWhenIdle(this.#allUnsent);
    if (!this.#queue.hasQueued) this.#longMessages.goOn();
    this.#wakeNext();
    if (!this.#longMessages.going) this.ended();
  }

  /** Wakes one waiter at a time, because each may fill the output again. */
  #wakeNext(): void {
    if (this.isFull) return;
    this.#drainWaiters.shift()?.();
    if (this.#drainWaiters.length === 0 || this.#wakeScheduled) return;
    this.#wakeScheduled = true;
    setImmediate(() => {
      this.#wakeScheduled = false;
      this.#wakeNext();
    });
  }

  /** Called when no long message is being sent. Wakes the callers of `waitUntilSent` when nothing is unsent. */
  ended(): void {
    if (this.unsent === 0 && !this.#longMessages.going) this.#sentWaiters = wake(this.#sentWaiters);
  }

  /** Resolves when the kernel has everything written so far, or the connection is closed. */
  waitUntilSent(): Maybe<void> {
    this.flush();
    if (this.#queue.closed || (this.unsent === 0 && !this.#longMessages.going)) return;
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
    this.#longMessages.close();
    this.#drainWaiters = wake(this.#drainWaiters);
    this.#sentWaiters = wake(this.#sentWaiters);
    freeSlabsWhenIdle(this.#allUnsent);
  }
}

function wake(waiters: (() => void)[]): (() => void)[] {
  if (waiters.length === 0) return waiters;
  for (const resolve of waiters) resolve();
  return [];
}
