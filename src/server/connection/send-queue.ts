import type { Socket } from 'node:net';
import { isSlab, releaseSlab, SLAB } from '../../protocol/slabs.js';
import type { Unsent } from './unsent.js';

/**
 * Bytes on their way to a socket. A piece is handed to it alone, so that each one taken by the peer counts as progress;
 * the others wait here, where they are counted.
 */
export class SendQueue {
  #socket: Socket;
  readonly #taken: () => void;
  readonly #all: Unsent;
  readonly #pieces: Buffer[] = [];
  #waiting = 0;
  #inSocket = 0;
  #closed = false;
  /** `performance.now()` when the piece that the socket holds was given to it; 0 when it holds none. */
  sentAt = 0;

  /** `taken` is called whenever the peer has taken a piece, after the next one went to the socket. */
  constructor(socket: Socket, all: Unsent, taken: () => void) {
    this.#socket = socket;
    this.#all = all;
    this.#taken = taken;
  }

  /** Bytes that the peer has not taken. */
  get bytes(): number {
    return this.#waiting + this.#inSocket;
  }

  /** Whether pieces wait for the socket. */
  get waits(): boolean {
    return this.#waiting > 0;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** The piece is released as a slab when nobody reads it any more. */
  push(piece: Buffer): void {
    if (this.#closed || piece.length === 0) {
      releaseSlab(piece);
      return;
    }
    this.#all.bytes += piece.length;
    if (this.#inSocket > 0) {
      this.#pieces.push(kept(piece));
      this.#waiting += piece.length;
    } else this.#send(piece);
  }

  #send(piece: Buffer): void {
    this.#inSocket = piece.length;
    this.sentAt = performance.now();
    this.#socket.write(piece, () => this.#sent(piece));
  }

  #sent(piece: Buffer): void {
    releaseSlab(piece);
    if (this.#closed) return;
    this.#all.bytes -= piece.length;
    this.#inSocket = 0;
    this.sentAt = 0;
    const next = this.#pieces.shift();
    if (next) {
      this.#waiting -= next.length;
      this.#send(next);
    }
    this.#taken();
  }

  /** Goes on with another socket over the same connection. Nothing may be on its way. */
  moveTo(socket: Socket): void {
    this.#socket = socket;
  }

  /** Nothing more is sent. */
  close(): void {
    this.#closed = true;
    this.#all.bytes -= this.bytes;
    // The socket may still read what it was given.
    for (const piece of this.#pieces.splice(0)) releaseSlab(piece);
    this.#waiting = this.#inSocket = 0;
    this.sentAt = 0;
  }
}

/** A small piece of a large buffer is copied: while it waits it would keep the whole of it. */
function kept(piece: Buffer): Buffer {
  const whole = isSlab(piece) ? SLAB : piece.buffer.byteLength;
  if (piece.length >= whole / 2) return piece;
  const copy = Buffer.from(piece);
  releaseSlab(piece);
  return copy;
}
