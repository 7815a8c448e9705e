/** The chunks of one LDAP message from another thread. The next chunk is requested when one was consumed. */
export class PieceSource implements AsyncIterable<Buffer> {
  readonly #requestNext: () => void;
  readonly #chunks: Buffer[] = [];
  #ending: 'complete' | 'broken' | undefined;
  #wakeReader: (() => void) | undefined;

  constructor(requestNext: () => void) {
    this.#requestNext = requestNext;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#wakeReader?.();
  }

  /** `isBroken`: no more chunks come, but the message is not complete. */
  end(isBroken: boolean): void {
    this.#ending = isBroken ? 'broken' : 'complete';
    this.#wakeReader?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, undefined> {
    for (;;) {
      const chunk = this.#chunks.shift();
      if (chunk) {
        yield chunk;
        this.#requestNext();
      } else if (this.#ending === 'broken') throw new Error('a message broke off');
      else if (this.#ending) return;
      else
        await new Promise<void>((resolve) => {
          this.#wakeReader = resolve;
        });
    }
  }
}
