const MAX_AGE_MS = 1000;
const MAX_COUNTS = 16_384;

/**
 * Recent row counts of substring keys. A pattern has a key for every three of its characters, and for most keys a plan
 * only needs to know that shorter lists exist. An outdated count costs the plan time, but never an entry (ADR 21).
 */
export class RecentCounts {
  readonly #tables = new Map<string, Map<number, number>>();
  #size = 0;
  #since = 0;

  get(table: string, prefix: Buffer): number | undefined {
    const now = performance.now();
    if (now - this.#since > MAX_AGE_MS || this.#size >= MAX_COUNTS) {
      this.#tables.clear();
      this.#size = 0;
      this.#since = now;
    }
    return this.#tables.get(table)?.get(gramNumber(prefix));
  }

  set(table: string, prefix: Buffer, count: number): void {
    let counts = this.#tables.get(table);
    if (!counts) {
      counts = new Map();
      this.#tables.set(table, counts);
    }
    counts.set(gramNumber(prefix), count);
    this.#size++;
  }
}

/** Returns the three bytes of a `gramPrefix` as a number. */
function gramNumber(prefix: Buffer): number {
  return (prefix[1]! << 16) | (prefix[2]! << 8) | prefix[3]!;
}
