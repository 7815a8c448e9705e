import { LdapError } from '../../ldap/ldap-error.js';
import type { Writer } from '../../protocol/writer.js';
import type { SendQueue } from './send-queue.js';
import type { Unsent } from './unsent.js';

/** So much of a long message is gathered before it begins to go: an error until then can be answered. */
const BEGINNING = 256 * 1024;
/** So many long messages of a connection are begun at a time; nothing is read for the others. */
const BEGINNERS = 4;

/** What the beginning of a long message is written to, and who is told of its end. */
export interface LongMessageOwner {
  readonly writer: Writer;
  readonly isFull: boolean;
  flush(): void;
  /** A message has gone, and what was held with it. */
  ended(): void;
  /** Less is kept than before. */
  freed(): void;
  /** A message broke off. */
  close(): void;
}

/**
 * The messages of a connection that go in pieces, one after another. Nobody else's bytes come between the pieces of
 * one: what others write meanwhile is held here.
 */
export class LongMessages {
  readonly #queue: SendQueue;
  readonly #owner: LongMessageOwner;
  readonly #all: Unsent;
  /** The message that goes in pieces; it resolves when the last one was taken. */
  #going: Promise<void> | undefined;
  readonly #held: Buffer[] = [];
  #heldBytes = 0;
  #beginners = 0;
  /** Wait until they may begin. */
  readonly #turns: (() => void)[] = [];
  /** Waits until the socket takes the next piece. */
  #nextPiece: (() => void) | undefined;

  constructor(queue: SendQueue, owner: LongMessageOwner, all: Unsent) {
    this.#queue = queue;
    this.#owner = owner;
    this.#all = all;
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
    this.#count(bytes.length);
  }

  #count(bytes: number): void {
    this.#heldBytes += bytes;
    this.#all.bytes += bytes;
  }

  /**
   * Writes one message as its pieces come: the next is asked for when the peer has taken the one before the last.
   * Rejects with `CutMessage` when the pieces end with an error after some have gone, and with `canceled` when the peer
   * has gone before the last one. `waiting`: bytes that are kept for it until it has gone.
   */
  async write(pieces: AsyncIterable<Buffer>, waiting = 0): Promise<void> {
    this.#count(waiting);
    const source = pieces[Symbol.asyncIterator]();
    try {
      while (this.#beginners >= BEGINNERS) await new Promise<void>((resolve) => this.#turns.push(resolve));
      this.#beginners++;
      this.#requirePeer();
      await this.#writeFrom(source);
    } finally {
      this.#count(-waiting);
      await source.return?.();
      this.#beginners--;
      this.#turns.shift()?.();
      this.#owner.freed();
    }
  }

  async #writeFrom(source: AsyncIterator<Buffer>): Promise<void> {
    const beginning: Buffer[] = [];
    let bytes = 0;
    let next: IteratorResult<Buffer> | undefined;
    try {
      next = await source.next();
      while (!next.done && bytes < BEGINNING && (bytes === 0 || !this.#owner.isFull)) {
        beginning.push(next.value);
        bytes += next.value.length;
        this.#count(next.value.length);
        next = await source.next();
      }
      while (this.#going) await this.#going;
    } finally {
      this.#count(-bytes);
    }
    this.#requirePeer();
    for (const piece of beginning) this.#owner.writer.raw(piece);
    this.#owner.flush();
    if (next.done) return;
    this.#going = this.#writePieces(source, next.value);
    await this.#going;
  }

  async #writePieces(source: AsyncIterator<Buffer>, first: Buffer): Promise<void> {
    let piece: Buffer | undefined = first;
    try {
      while (piece && !this.#queue.closed) {
        this.#queue.push(piece);
        if (this.#queue.hasQueued) await new Promise<void>((resolve) => (this.#nextPiece = resolve));
        const next: IteratorResult<Buffer> = await source.next();
        piece = next.done ? undefined : next.value;
      }
    } catch (error) {
      this.#owner.close();
      throw new CutMessage(error);
    } finally {
      this.#going = undefined;
      this.#release();
      this.#owner.ended();
    }
    if (piece) this.#requirePeer();
  }

  /** Whoever makes the pieces is to know that nobody takes them. */
  #requirePeer(): void {
    if (this.#queue.closed) throw new LdapError('canceled', 'the client has gone');
  }

  /** Nothing waits for the socket: the next piece may come. */
  goOn(): void {
    this.#nextPiece?.();
    this.#nextPiece = undefined;
  }

  /** What others wrote meanwhile goes, or is forgotten. */
  #release(): void {
    for (const bytes of this.#held.splice(0)) {
      this.#count(-bytes.length);
      this.#queue.push(bytes);
    }
  }

  /** Forgets what is held, and lets the message that is going see that the queue is closed. */
  close(): void {
    this.#release();
    this.goOn();
  }
}

/** Half of a message has gone: the peer cannot make sense of anything after it. */
export class CutMessage extends Error {
  constructor(cause: unknown) {
    super('a message broke off in the middle', { cause });
  }
}
