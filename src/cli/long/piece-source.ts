/** One message that comes in pieces from elsewhere; each is asked for when the one before was taken. */
export class PieceSource implements AsyncIterable<Buffer> {
  readonly #more: () => void;
  readonly #pieces: Buffer[] = [];
  #ended: 'wholly' | 'broken' | undefined;
  #wake: (() => void) | undefined;

  /** `more` asks for the next piece. */
  constructor(more: () => void) {
    this.#more = more;
  }

  push(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#wake?.();
  }

  end(broken: boolean): void {
    this.#ended = broken ? 'broken' : 'wholly';
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, undefined> {
    for (;;) {
      const piece = this.#pieces.shift();
      if (piece) {
        yield piece;
        this.#more();
      } else if (this.#ended === 'broken') throw new Error('a message broke off');
      else if (this.#ended) return;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }
}
