/** The pieces of one message, received from another thread. The next piece is requested when one was consumed. */
export class PieceSource implements AsyncIterable<Buffer> {
  readonly #requestNext: () => void;
  readonly #pieces: Buffer[] = [];
  #end: 'complete' | 'broken' | undefined;
  #wake: (() => void) | undefined;

  constructor(requestNext: () => void) {
    this.#requestNext = requestNext;
  }

  push(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#wake?.();
  }

  /** `isBroken`: no more pieces come, but the message is not complete. */
  end(isBroken: boolean): void {
    this.#end = isBroken ? 'broken' : 'complete';
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, undefined> {
    for (;;) {
      const piece = this.#pieces.shift();
      if (piece) {
        yield piece;
        this.#requestNext();
      } else if (this.#end === 'broken') throw new Error('a message broke off');
      else if (this.#end) return;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }
}
