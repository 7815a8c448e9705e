import type { Socket } from 'node:net';
import { beforeTurns } from '../../partition/index.js';
import { leaveSlabs, slabsWereMany } from '../../protocol/slabs.js';
import { PIECE, Writer } from '../../protocol/writer.js';
import type { Maybe } from '../words/maybe.js';
import { LongMessages } from './long-messages.js';
import { SendQueue } from './send-queue.js';
import type { Unsent } from './unsent.js';

const MAX_POOLED = 16;

/**
 * Writers not in use. A connection holds one only while it has bytes that are not flushed, so an idle one holds no
 * buffer.
 */
const pool: Writer[] = [];

/** Connections with something to flush, in the order in which they got it. */
let unflushed: Output[] = [];
/** When the first of them got it. */
let since = 0;
/** The longest that a reply waits for others, in milliseconds. */
const WAIT_MS = 0.5;

function flushAll(): void {
  const outputs = unflushed;
  unflushed = [];
  for (const output of outputs) output.flush();
}
beforeTurns(flushAll);

/** When nothing is on its way or written any more: what many answers were written to goes back to the system. */
function giveBackSlabs(all: Unsent): void {
  if (all.bytes > 0 || unflushed.length > 0 || !slabsWereMany()) return;
  for (const writer of pool) writer.leave();
  leaveSlabs();
}

/**
 * The way out of a connection. Replies are written into one buffer and go to the socket together, with those of the
 * other connections at the end of the event loop's turn: a write that finds the peer awake costs a fraction of one that
 * has to wake it.
 */
export class Output {
  readonly #queue: SendQueue;
  readonly #long: LongMessages;
  readonly #limit: number;
  readonly #all: Unsent;
  #writer: Writer | undefined;
  /** Wait until there is room again. */
  #waiting: (() => void)[] = [];
  #waking = false;
  /** Wait until nothing is left. */
  #draining: (() => void)[] = [];

  /** `limit`: bytes that may be unsent before it is full; `all`: those of all connections. */
  constructor(socket: Socket, limit: number, all: Unsent) {
    this.#queue = new SendQueue(socket, all, () => this.#taken());
    this.#long = new LongMessages(this.#queue, this, all);
    this.#limit = limit;
    this.#all = all;
  }

  /** Bytes that the peer has not taken. */
  get unsent(): number {
    return this.#queue.bytes + this.#long.heldBytes + (this.#writer?.length ?? 0);
  }

  /** Nothing that is full has nothing unsent: the peer's taking it wakes who waits for room. */
  get full(): boolean {
    const own = this.unsent;
    return own > this.#limit || (own > 0 && own > this.#all.share);
  }

  /** `performance.now()` when the peer was given the bytes that it is to take next; 0 when there are none. */
  get sentAt(): number {
    return this.#queue.sentAt;
  }

  /** To write the next message with. Not to be kept beyond it. */
  get writer(): Writer {
    if (!this.#writer) {
      this.#writer = pool.pop() ?? new Writer(true);
      if (unflushed.length === 0) {
        since = performance.now();
        setImmediate(flushAll);
      }
      unflushed.push(this);
    }
    return this.#writer;
  }

  /**
   * After each message of many: keeps pieces small, each of which counts as progress when the peer takes it, and asks
   * the caller to wait while the peer does not read.
   */
  waitForDrain(): Maybe<void> {
    if (this.#writer && this.#writer.length >= PIECE) this.flush();
    if (!this.full || this.#queue.closed) return;
    // What was written is not to wait for more that would make a whole piece.
    this.flush();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Between requests: nobody's reply waits long for what others have asked. */
  static relieve(now: number): void {
    if (unflushed.length >= MAX_POOLED || (unflushed.length > 0 && now - since > WAIT_MS)) flushAll();
  }

  flush(): void {
    const writer = this.#writer;
    if (!writer) return;
    this.#writer = undefined;
    const bytes = writer.take();
    if (pool.length < MAX_POOLED) pool.push(writer);
    else writer.leave();
    if (this.#long.going) this.#long.hold(bytes);
    else this.#queue.push(bytes);
  }

  /** Writes one message as its pieces come: see `LongMessages.write`. */
  writeLong(pieces: AsyncIterable<Buffer>, waiting?: number): Promise<void> {
    return this.#long.write(pieces, waiting);
  }

  freed(): void {
    this.#wakeNext();
    this.ended();
  }

  #taken(): void {
    giveBackSlabs(this.#all);
    if (!this.#queue.waits) this.#long.goOn();
    this.#wakeNext();
    if (!this.#long.going) this.ended();
  }

  /** One after another: the first may fill it again. */
  #wakeNext(): void {
    if (this.full) return;
    this.#waiting.shift()?.();
    if (this.#waiting.length === 0 || this.#waking) return;
    this.#waking = true;
    setImmediate(() => {
      this.#waking = false;
      this.#wakeNext();
    });
  }

  /** No long message is going: whoever waits until nothing is left may go on when that is so. */
  ended(): void {
    if (this.unsent === 0 && !this.#long.going) this.#draining = wake(this.#draining);
  }

  /** Resolves when everything written so far is with the kernel, or the connection is gone. */
  drained(): Maybe<void> {
    this.flush();
    if (this.#queue.closed || (this.unsent === 0 && !this.#long.going)) return;
    return new Promise((resolve) => this.#draining.push(resolve));
  }

  /** Goes on with another socket over the same connection (StartTLS). Everything must be drained. */
  moveTo(socket: Socket): void {
    this.#queue.moveTo(socket);
  }

  /** Nothing more is sent; whoever waits for room goes on. */
  close(): void {
    this.#queue.close();
    this.flush();
    this.#long.close();
    this.#waiting = wake(this.#waiting);
    this.#draining = wake(this.#draining);
    giveBackSlabs(this.#all);
  }
}

function wake(waiting: (() => void)[]): (() => void)[] {
  if (waiting.length === 0) return waiting;
  for (const resolve of waiting) resolve();
  return [];
}
