/**
 * Writes of one entry of which another was faster. They are made again one after another: were they made at once, all
 * but one would fail again, and hold the event loop meanwhile.
 */
export class RetryLines {
  /** Who waits, by the name of the entry; the line is there while the one before them is at work. */
  readonly #lines = new Map<string, (() => void)[]>();

  /** Whether a write of the entry is being made again. */
  has(name: Buffer): boolean {
    return this.#lines.size > 0 && this.#lines.has(name.toString('latin1'));
  }

  /** Resolves when it is the caller's turn, which lasts until `leave`. */
  async enter(name: string): Promise<void> {
    const line = this.#lines.get(name);
    if (line) await new Promise<void>((resolve) => line.push(resolve));
    else this.#lines.set(name, []);
  }

  leave(name: string): void {
    const next = this.#lines.get(name)!.shift();
    if (next) next();
    else this.#lines.delete(name);
  }
}
