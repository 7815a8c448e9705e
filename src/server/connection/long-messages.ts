import type { Writer } from '../../protocol/writer.js';
import type { SendQueue } from './send-queue.js';

/** So much of a long message is gathered before it begins to go: an error until then can be answered. */
const BEGINNING = 256 * 1024;
/** So many long messages of a connection are begun at a time; nothing is read for the others. */
const BEGINNERS = 8;

/** What the beginning of a long message is written to, and who is told of its end. */
export interface LongMessageOwner {
  readonly writer: Writer;
  flush(): void;
  /** A message has gone, and what was held with it. */
  ended(): void;
  /** A message broke off. */
  close(): void;
}

/**
 * The messages of a connection that go in pieces, one after another. Nobody else's bytes come between the pieces of one:
 * what others write meanwhile is held here.
 */
export class LongMessages {
  readonly #queue: SendQueue;
  readonly #owner: LongMessageOwner;
  /** The message that goes in pieces; it resolves when the last one was taken. */
  #going: Promise<void> | undefined;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #beginners = 0;
  /** Wait until they may begin. */
  readonly #turns: (() => void)[] = [];
  /** Waits until the socket takes the next piece. */
  #nextPiece: (() => void) | undefined;

  constructor(queue: SendQueue, owner: LongMessageOwner) {
    this.#queue = queue;
    this.#owner = owner;
  }

  /** Whether one is going: what others write is to be held. */
  get going(): boolean {
    return this.#going !== undefined;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  hold(bytes: Buffer): void {
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
  }

  /**
   * Writes one message as its pieces come: the next is asked for when the peer has taken the one before the last. Rejects
   * with `CutMessage` when the pieces end with an error after some have gone.
   */
  async write(pieces: AsyncIterable<Buffer>): Promise<void> {
    while (this.#beginners >= BEGINNERS) await new Promise<void>((resolve) => this.#turns.push(resolve));
    this.#beginners++;
    const source = pieces[Symbol.asyncIterator]();
    try {
      if (!this.#queue.closed) await this.#writeFrom(source);
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
    while (this.#going) await this.#going;
    for (const piece of beginning) this.#owner.writer.raw(piece);
    this.#owner.flush();
    if (next.done) return;
    this.#going = this.#writePieces(source, next.value);
    await this.#going;
  }

  async #writePieces(source: AsyncIterator<Buffer>, first: Buffer): Promise<void> {
    try {
      for (let piece: Buffer | undefined = first; piece && !this.#queue.closed; ) {
        this.#queue.push(piece);
        if (this.#queue.waits) await new Promise<void>((resolve) => (this.#nextPiece = resolve));
        const next: IteratorResult<Buffer> = await source.next();
        piece = next.done ? undefined : next.value;
      }
    } catch (error) {
      this.#owner.close();
      throw new CutMessage(error);
    } finally {
      this.#going = undefined;
      this.#heldBytes = 0;
      for (const bytes of this.#held.splice(0)) this.#queue.push(bytes);
      this.#owner.ended();
    }
  }

  /** Nothing waits for the socket: the next piece may come. */
  goOn(): void {
    this.#nextPiece?.();
    this.#nextPiece = undefined;
  }

  /** Forgets what is held, and lets the message that is going see that the queue is closed. */
  close(): void {
    this.#held = [];
    this.#heldBytes = 0;
    this.goOn();
  }
}

/** Half of a message has gone: the peer cannot make sense of anything after it. */
export class CutMessage extends Error {
  constructor(cause: unknown) {
    super('a message broke off in the middle', { cause });
  }
}
