import { LdapError } from '../../ldap/ldap-error.js';
import type { Writer } from '../../protocol/writer.js';
import type { SendQueue, UnsentTotal } from './send-queue.js';

/** Bytes of a chunked message that are collected before any is sent: an error until then can be answered. */
const COLLECTED_BYTES = 256 * 1024;
/** Most chunked messages of a connection whose chunks are read at the same time. The others wait. */
const MAX_BEGUN_MESSAGES = 4;

/** The output that chunked messages are written to. */
export interface ChunkedMessageOwner {
  readonly writer: Writer;
  readonly isFull: boolean;
  flush(): void;
  /** Called when a message and the bytes deferred behind it have been queued. */
  onMessageEnd(): void;
  /** Called when `pendingBytes` has become smaller. */
  onBytesFreed(): void;
  /** Closes the connection after a message that was sent in part. */
  close(): void;
}

/**
 * Sends messages of a connection in chunks, one message after another. Bytes of other messages are deferred until the
 * current message has ended.
 */
export class ChunkedMessages {
  readonly #queue: SendQueue;
  readonly #owner: ChunkedMessageOwner;
  readonly #unsentTotal: UnsentTotal;
  /** Resolves when the last chunk of the current message was queued; undefined: no message is being sent. */
  #currentMessage: Promise<number> | undefined;
  readonly #deferredBuffers: Buffer[] = [];
  #pendingBytes = 0;
  #begunCount = 0;
  /** Functions that resume messages which have not begun, oldest first. */
  readonly #waitingMessages: (() => void)[] = [];
  /** Resumes the current message when the socket can take another chunk. */
  #resumeMessage: (() => void) | undefined;

  constructor(queue: SendQueue, owner: ChunkedMessageOwner, unsentTotal: UnsentTotal) {
    this.#queue = queue;
    this.#owner = owner;
    this.#unsentTotal = unsentTotal;
  }

  /** Whether a message is being sent, so that bytes of other messages must be deferred. */
  get isSending(): boolean {
    return this.#currentMessage !== undefined;
  }

  /** Bytes of collected chunks, deferred buffers, and rows that callers keep in memory. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /** Keeps bytes of other messages until the current message has ended. */
  defer(bytes: Buffer): void {
    this.#deferredBuffers.push(bytes);
    this.#addPending(bytes.length);
  }

  #addPending(bytes: number): void {
    this.#pendingBytes += bytes;
    this.#unsentTotal.bytes += bytes;
  }

  /**
   * Writes one message and resolves with its length. A chunk is requested when the peer has received the chunk before
   * the previous one. Rejects with `BrokenMessageError` when `chunks` fails after some were sent, and with `canceled`
   * when the peer has closed before the last one. `keptBytes`: bytes that the caller keeps in memory meanwhile.
   */
  async write(chunks: AsyncIterable<Buffer>, keptBytes = 0): Promise<number> {
    this.#addPending(keptBytes);
    const source = chunks[Symbol.asyncIterator]();
    try {
      while (this.#begunCount >= MAX_BEGUN_MESSAGES)
        await new Promise<void>((resolve) => this.#waitingMessages.push(resolve));
      this.#begunCount++;
      this.#requirePeer();
      return await this.#writeFrom(source);
    } finally {
      this.#addPending(-keptBytes);
      await source.return?.();
      this.#begunCount--;
      this.#waitingMessages.shift()?.();
      this.#owner.onBytesFreed();
    }
  }

  async #writeFrom(source: AsyncIterator<Buffer>): Promise<number> {
    const collected: Buffer[] = [];
    let length = 0;
    let result: IteratorResult<Buffer> | undefined;
    try {
      result = await source.next();
      while (!result.done && length < COLLECTED_BYTES && (length === 0 || !this.#owner.isFull)) {
        collected.push(result.value);
        length += result.value.length;
        this.#addPending(result.value.length);
        result = await source.next();
      }
      while (this.#currentMessage) await this.#currentMessage;
    } finally {
      this.#addPending(-length);
    }
    this.#requirePeer();
    for (const chunk of collected) this.#owner.writer.raw(chunk);
    this.#owner.flush();
    if (result.done) return length;
    this.#currentMessage = this.#writeChunks(source, result.value);
    return length + (await this.#currentMessage);
  }

  /** Writes the remaining chunks. Resolves with their length. */
  async #writeChunks(source: AsyncIterator<Buffer>, firstChunk: Buffer): Promise<number> {
    let chunk: Buffer | undefined = firstChunk;
    let length = 0;
    try {
      while (chunk && !this.#queue.isClosed) {
        length += chunk.length;
        this.#queue.push(chunk);
        if (this.#queue.hasQueuedChunks) await new Promise<void>((resolve) => (this.#resumeMessage = resolve));
        const result: IteratorResult<Buffer> = await source.next();
        chunk = result.done ? undefined : result.value;
      }
    } catch (error) {
      this.#owner.close();
      throw new BrokenMessageError(error);
    } finally {
      this.#currentMessage = undefined;
      this.#queueDeferred();
      this.#owner.onMessageEnd();
    }
    if (chunk) this.#requirePeer();
    return length;
  }

  /** Throws when the connection is closed, so that the source of the chunks stops. */
  #requirePeer(): void {
    if (this.#queue.isClosed) throw new LdapError('canceled', 'the client has gone');
  }

  /** Called when no chunk waits for the socket. */
  resume(): void {
    this.#resumeMessage?.();
    this.#resumeMessage = undefined;
  }

  /** Passes the deferred buffers to the queue, which drops them when it is closed. */
  #queueDeferred(): void {
    for (const bytes of this.#deferredBuffers.splice(0)) {
      this.#addPending(-bytes.length);
      this.#queue.push(bytes);
    }
  }

  /** Drops the deferred buffers and ends the current message. Called after the queue was closed. */
  close(): void {
    this.#queueDeferred();
    this.resume();
  }
}

/** Thrown when a message was sent in part. Later bytes would make no sense to the peer. */
export class BrokenMessageError extends Error {
  constructor(cause: unknown) {
    super('a message broke off in the middle', { cause });
  }
}
