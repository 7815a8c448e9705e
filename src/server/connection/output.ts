import type { Socket } from 'node:net';
import { Writer } from '../../protocol/writer.js';
import type { Maybe } from '../maybe.js';

/** A piece is handed to the socket alone, so that each one taken by the peer counts as progress. */
const PIECE = 64 * 1024;
/** So much of a long message is gathered before it begins to go: an error until then can be answered. */
const BEGINNING = 256 * 1024;
/** So many long messages of a connection are begun at a time; nothing is read for the others. */
const BEGINNERS = 8;
const MAX_POOLED = 16;

/** Writers not in use. A connection holds one only while it has bytes that are not flushed, so an idle one holds no buffer. */
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

/**
 * The way out of a connection. Replies are written into one buffer and go to the socket together, with those of the other
 * connections at the end of the event loop's turn: a write that finds the peer awake costs a fraction of one that has to
 * wake it. At most one piece is with the socket at a time; the others wait here, where they are counted.
 */
export class Output {
  #socket: Socket;
  #writer: Writer | undefined;
  readonly #pieces: Buffer[] = [];
  #queued = 0;
  #inSocket = 0;
  #closed = false;
  readonly #limit: number;
  /** Wait until there is room again. */
  #waiting: (() => void)[] = [];
  /** Wait until nothing is left. */
  #draining: (() => void)[] = [];
  /** A message is going in pieces; it resolves when the last one was taken. What others write waits in `#held`. */
  #long: Promise<void> | undefined;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #beginners = 0;
  /** Wait until they may begin. */
  readonly #turns: (() => void)[] = [];
  /** Waits until the socket takes the next piece. */
  #nextPiece: (() => void) | undefined;
  /** `performance.now()` when the piece that the socket holds was given to it; 0 when it holds none. */
  sentAt = 0;

  constructor(socket: Socket, limit: number) {
    this.#socket = socket;
    this.#limit = limit;
  }

  /** Bytes that the peer has not taken. */
  get unsent(): number {
    return this.#queued + this.#inSocket + this.#heldBytes + (this.#writer?.length ?? 0);
  }

  get full(): boolean {
    return this.unsent > this.#limit;
  }

  /** To write the next message with. Not to be kept beyond it. */
  get writer(): Writer {
    if (!this.#writer) {
      this.#writer = pool.pop() ?? new Writer();
      if (unflushed.length === 0) {
        since = performance.now();
        setImmediate(flushAll);
      }
      unflushed.push(this);
    }
    return this.#writer;
  }

  /** After each message of many: keeps pieces small, and asks the caller to wait while the peer does not read. */
  room(): Maybe<void> {
    if (this.#writer && this.#writer.length >= PIECE) this.flush();
    if (!this.full || this.#closed) return;
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
    if (bytes.length === 0 || this.#closed) return;
    if (this.#long) {
      this.#held.push(bytes);
      this.#heldBytes += bytes.length;
    } else this.#enqueue(bytes);
  }

  #enqueue(bytes: Buffer): void {
    if (this.#inSocket > 0) {
      this.#pieces.push(bytes);
      this.#queued += bytes.length;
    } else this.#send(bytes);
  }

  /**
   * Writes one message as its pieces come: the next is asked for when the peer has taken the one before the last. Nobody
   * else's bytes come between them. Rejects with `CutMessage` when the pieces end with an error after some have gone.
   */
  async writeLong(pieces: AsyncIterable<Buffer>): Promise<void> {
    while (this.#beginners >= BEGINNERS) await new Promise<void>((resolve) => this.#turns.push(resolve));
    this.#beginners++;
    const source = pieces[Symbol.asyncIterator]();
    try {
      if (!this.#closed) await this.#writeFrom(source);
    } finally {
      await source.return?.();
      this.#beginners--;
      this.#turns.shift()?.();
    }
  }

  async #writeFrom(source: AsyncIterator<Buffer>): Promise<void> {
    const beginning: Buffer[] = [];
    let next = await source.next();
    for (let bytes = 0; !next.done && bytes < BEGINNING; next = await source.next()) {
      beginning.push(next.value);
      bytes += next.value.length;
    }
    while (this.#long) await this.#long;
    for (const piece of beginning) this.writer.raw(piece);
    this.flush();
    if (next.done) return;
    this.#long = this.#writePieces(source, next.value);
    await this.#long;
  }

  async #writePieces(source: AsyncIterator<Buffer>, first: Buffer): Promise<void> {
    try {
      for (let piece: Buffer | undefined = first; piece && !this.#closed; ) {
        this.#enqueue(piece);
        if (this.#queued > 0) await new Promise<void>((resolve) => (this.#nextPiece = resolve));
        const next: IteratorResult<Buffer> = await source.next();
        piece = next.done ? undefined : next.value;
      }
    } catch (error) {
      this.close();
      throw new CutMessage(error);
    } finally {
      this.#long = undefined;
      this.#heldBytes = 0;
      for (const bytes of this.#held.splice(0)) this.#enqueue(bytes);
      if (this.unsent === 0) this.#draining = wake(this.#draining);
    }
  }

  #send(bytes: Buffer): void {
    this.#inSocket = bytes.length;
    this.sentAt = performance.now();
    this.#socket.write(bytes, this.#sent);
  }

  readonly #sent = (): void => {
    this.#inSocket = 0;
    this.sentAt = 0;
    const next = this.#pieces.shift();
    if (next && !this.#closed) {
      this.#queued -= next.length;
      this.#send(next);
    }
    if (this.#queued === 0) this.#goOn();
    if (!this.full) this.#waiting = wake(this.#waiting);
    if (this.unsent === 0 && !this.#long) this.#draining = wake(this.#draining);
  };

  #goOn(): void {
    this.#nextPiece?.();
    this.#nextPiece = undefined;
  }

  /** Resolves when everything written so far is with the kernel, or the connection is gone. */
  drained(): Maybe<void> {
    this.flush();
    if (this.#closed || (this.unsent === 0 && !this.#long)) return;
    return new Promise((resolve) => this.#draining.push(resolve));
  }

  /** Goes on with another socket over the same connection (StartTLS). Everything must be drained. */
  moveTo(socket: Socket): void {
    this.#socket = socket;
  }

  /** Nothing more is sent; whoever waits for room goes on. */
  close(): void {
    this.#closed = true;
    this.#pieces.length = 0;
    this.#held = [];
    this.#queued = this.#heldBytes = 0;
    this.#inSocket = 0;
    this.sentAt = 0;
    if (this.#writer) {
      this.#writer.take();
      if (pool.length < MAX_POOLED) pool.push(this.#writer);
      this.#writer = undefined;
    }
    this.#goOn();
    this.#waiting = wake(this.#waiting);
    this.#draining = wake(this.#draining);
  }
}

/** Half of a message has gone: the peer cannot make sense of anything after it. */
export class CutMessage extends Error {
  constructor(cause: unknown) {
    super('a message broke off in the middle', { cause });
  }
}

function wake(waiting: (() => void)[]): (() => void)[] {
  if (waiting.length === 0) return waiting;
  for (const resolve of waiting) resolve();
  return [];
}
