/** How long a count is believed, milliseconds. */
const MAX_AGE_MS = 1000;
/** Of all tables together. */
const MAX_COUNTS = 16_384;

/**
 * How many rows substring keys had a moment ago. A pattern has a key for every three of its characters, and of most of
 * them a plan only wants to know that there are shorter lists: a number that is no longer true costs it time, never an
 * entry (ADR 21).
 */
export class RecentCounts {
  readonly #tables = new Map<string, Map<number, number>>();
  #size = 0;
  #since = 0;

  /** Undefined when it was not counted lately. */
  get(table: string, prefix: Buffer): number | undefined {
    const now = performance.now();
    if (now - this.#since > MAX_AGE_MS || this.#size >= MAX_COUNTS) {
      this.#tables.clear();
      this.#size = 0;
      this.#since = now;
    }
    return this.#tables.get(table)?.get(numberOf(prefix));
  }

  set(table: string, prefix: Buffer, count: number): void {
    let counts = this.#tables.get(table);
    if (!counts) {
      counts = new Map();
      this.#tables.set(table, counts);
    }
    counts.set(numberOf(prefix), count);
    this.#size++;
  }
}

/** The three bytes of a `gramPrefix`. */
function numberOf(prefix: Buffer): number {
  return (prefix[1]! << 16) | (prefix[2]! << 8) | prefix[3]!;
}
