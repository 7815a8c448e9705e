/** A small seeded generator (splitmix32), so that a failing random test can be run again. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** An integer in [0, below). */
  below(below: number): number {
    this.#state = (this.#state + 0x9e3779b9) | 0;
    let z = this.#state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return Math.floor((((z ^ (z >>> 15)) >>> 0) / 0x100000000) * below);
  }

  chance(oneIn: number): boolean {
    return this.below(oneIn) === 0;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }

  bytes(max: number): Buffer {
    const bytes = Buffer.alloc(this.below(max + 1));
    for (let i = 0; i < bytes.length; i++) bytes[i] = this.below(256);
    return bytes;
  }

  list<T>(max: number, make: () => T): T[] {
    return Array.from({ length: this.below(max + 1) }, make);
  }
}

/** Runs `body` with a generator seeded by ROWAN_SEED or the clock; a failure names the seed. */
export function seeded(body: (random: Random) => void): () => void {
  return () => {
    const seed = Number(process.env.ROWAN_SEED ?? Date.now() % 0x7fffffff);
    try {
      body(new Random(seed));
    } catch (error) {
      throw new Error(`with ROWAN_SEED=${seed}: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    }
  };
}
