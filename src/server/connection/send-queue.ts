import type { Socket } from 'node:net';
import { isSlabPiece, releaseSlab, SLAB } from '../../protocol/slabs.js';
import type { Unsent } from './unsent.js';

/**
 * Queue of the bytes to be written to a socket. The socket gets one piece at a time, because each piece received by the
 * peer counts as progress.
 */
export class SendQueue {
  #socket: Socket;
  readonly #onSent: () => void;
  readonly #allUnsent: Unsent;
  readonly #pieces: Buffer[] = [];
  #queuedBytes = 0;
  #socketBytes = 0;
  #closed = false;
  /** `performance.now()` when the current piece was written to the socket; 0 when the socket holds none. */
  sentAt = 0;

  /** `onSent` is called for each piece received by the peer, after the next piece was written to the socket. */
  constructor(socket: Socket, allUnsent: Unsent, onSent: () => void) {
    this.#socket = socket;
    this.#allUnsent = allUnsent;
    this.#onSent = onSent;
  }

  /** Bytes that the peer has not received. */
  get bytes(): number {
    return this.#queuedBytes + this.#socketBytes;
  }

  /** Whether pieces are queued behind the one in the socket. */
  get hasQueued(): boolean {
    return this.#queuedBytes > 0;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Appends a piece. A slab is released after it was sent. */
  push(piece: Buffer): void {
    if (this.#closed || piece.length === 0) {
      releaseSlab(piece);
      return;
    }
    this.#allUnsent.bytes += piece.length;
    if (this.#socketBytes > 0) {
      this.#pieces.push(compact(piece));
      this.#queuedBytes += piece.length;
    } else this.#send(piece);
  }

  #send(piece: Buffer): void {
    this.#socketBytes = piece.length;
    this.sentAt = performance.now();
    this.#socket.write(piece, () => this.#sent(piece));
  }

  #sent(piece: Buffer): void {
    releaseSlab(piece);
    if (this.#closed) return;
    this.#allUnsent.bytes -= piece.length;
    this.#socketBytes = 0;
    this.sentAt = 0;
    const next = this.#pieces.shift();
    if (next) {
      this.#queuedBytes -= next.length;
      this.#send(next);
    }
    this.#onSent();
  }

  /** Continues with another socket over the same connection. The queue must be empty. */
  moveTo(socket: Socket): void {
    this.#socket = socket;
  }

  /** Drops the queue. Later pieces are dropped, too. */
  close(): void {
    this.#closed = true;
    this.#allUnsent.bytes -= this.bytes;
    // The piece in the socket is not released here: the socket may still read it.
    for (const piece of this.#pieces.splice(0)) releaseSlab(piece);
    this.#queuedBytes = this.#socketBytes = 0;
    this.sentAt = 0;
  }
}

/** Copies a small piece of a large buffer, which would keep the whole buffer in memory while it is queued. */
function compact(piece: Buffer): Buffer {
  const bufferBytes = isSlabPiece(piece) ? SLAB : piece.buffer.byteLength;
  if (piece.length >= bufferBytes / 2) return piece;
  const copy = Buffer.from(piece);
  releaseSlab(piece);
  return copy;
}
