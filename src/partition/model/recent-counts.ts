const MAX_AGE_MS = 1000;
const MAX_COUNTS = 16_384;

/**
 * Caches row counts of substring rows. A plan uses these counts to choose the shortest id lists for a pattern. An
 * outdated count makes a search slower, never incomplete (ADR 21).
 */
export class RecentCounts {
  readonly #countsByTable = new Map<string, Map<number, number>>();
  #count = 0;
  #sinceMs = 0;

  get(table: string, prefix: Buffer): number | undefined {
    const nowMs = performance.now();
    if (nowMs - this.#sinceMs > MAX_AGE_MS || this.#count >= MAX_COUNTS) {
      this.#countsByTable.clear();
      this.#count = 0;
      this.#sinceMs = nowMs;
    }
    return this.#countsByTable.get(table)?.get(gramNumber(prefix));
  }

  set(table: string, prefix: Buffer, count: number): void {
    let counts = this.#countsByTable.get(table);
    if (!counts) {
      counts = new Map();
      this.#countsByTable.set(table, counts);
    }
    counts.set(gramNumber(prefix), count);
    this.#count++;
  }
}

/** Returns the three bytes in a `gramPrefix` as a number. */
function gramNumber(prefix: Buffer): number {
  return (prefix[1]! << 16) | (prefix[2]! << 8) | prefix[3]!;
}
