/**
 * Replies of all connections that their clients have not taken. A connection may have as much waiting as there is free:
 * however many do not read, they come to share the whole evenly, and one that reads finds room at any time.
 */
export class Unsent {
  readonly #limit: number;
  bytes = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** What one connection may have waiting now. */
  get share(): number {
    return this.#limit - this.bytes;
  }
}
