import type { Socket } from 'node:net';
import { isSlabView, releaseSlab, SLAB } from '../../protocol/slabs.js';

/**
 * Queue of the bytes to be written to a socket. The socket gets one chunk at a time, because each chunk received by the
 * peer counts as progress.
 */
export class SendQueue {
  #socket: Socket;
  readonly #onSent: () => void;
  readonly #unsentTotal: UnsentTotal;
  readonly #chunks: Buffer[] = [];
  #queuedBytes = 0;
  #socketBytes = 0;
  #isClosed = false;
  /** `performance.now()` when the current chunk was written to the socket; 0: the socket has none. */
  writtenAt = 0;

  /** `onSent` is called for each chunk received by the peer, after the next chunk was written to the socket. */
  constructor(socket: Socket, unsentTotal: UnsentTotal, onSent: () => void) {
    this.#socket = socket;
    this.#unsentTotal = unsentTotal;
    this.#onSent = onSent;
  }

  /** Bytes that the peer has not received. */
  get unsentBytes(): number {
    return this.#queuedBytes + this.#socketBytes;
  }

  /** Whether chunks are queued behind the one in the socket. */
  get hasQueuedChunks(): boolean {
    return this.#queuedBytes > 0;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Appends a chunk. A slab is released after it was sent. */
  push(chunk: Buffer): void {
    if (this.#isClosed || chunk.length === 0) {
      releaseSlab(chunk);
      return;
    }
    this.#unsentTotal.bytes += chunk.length;
    if (this.#socketBytes > 0) {
      this.#chunks.push(copyIfSmall(chunk));
      this.#queuedBytes += chunk.length;
    } else this.#send(chunk);
  }

  #send(chunk: Buffer): void {
    this.#socketBytes = chunk.length;
    this.writtenAt = performance.now();
    this.#socket.write(chunk, () => this.#onWritten(chunk));
  }

  #onWritten(chunk: Buffer): void {
    releaseSlab(chunk);
    if (this.#isClosed) return;
    this.#unsentTotal.bytes -= chunk.length;
    this.#socketBytes = 0;
    this.writtenAt = 0;
    const nextChunk = this.#chunks.shift();
    if (nextChunk) {
      this.#queuedBytes -= nextChunk.length;
      this.#send(nextChunk);
    }
    this.#onSent();
  }

  /** Continues with another socket over the same connection. The queue must be empty. */
  moveTo(socket: Socket): void {
    this.#socket = socket;
  }

  /** Drops the queue. Later chunks are dropped, too. */
  close(): void {
    this.#isClosed = true;
    this.#unsentTotal.bytes -= this.unsentBytes;
    // The chunk in the socket is not released here: the socket may still read it.
    for (const chunk of this.#chunks.splice(0)) releaseSlab(chunk);
    this.#queuedBytes = this.#socketBytes = 0;
    this.writtenAt = 0;
  }
}

/** Copies a chunk that is a small part of a buffer, and would keep the whole buffer in memory while it is queued. */
function copyIfSmall(chunk: Buffer): Buffer {
  const bufferBytes = isSlabView(chunk) ? SLAB : chunk.buffer.byteLength;
  if (chunk.length >= bufferBytes / 2) return chunk;
  const copy = Buffer.from(chunk);
  releaseSlab(chunk);
  return copy;
}

/**
 * Size of the responses of all connections that the clients have not received. A connection may have as many unsent
 * bytes as are free. So clients that do not read come to share the limit evenly, and a client that reads always finds
 * free bytes.
 */
export class UnsentTotal {
  limitBytes: number;
  bytes = 0;

  constructor(limit: number) {
    this.limitBytes = limit;
  }

  /** Unsent bytes that one connection may have now. */
  get freeBytes(): number {
    return this.limitBytes - this.bytes;
  }
}
