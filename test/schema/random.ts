/** Random values from a seed: `ROWAN_SEED` repeats a run. */
export class Random {
  readonly seed: number;
  private state: number;

  constructor(seed = Number(process.env.ROWAN_SEED ?? Math.floor(Math.random() * 2 ** 31))) {
    this.seed = seed;
    this.state = seed;
  }

  /** From 0 up to, not including, `n`. */
  below(n: number): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }

  /** Up to `max` items joined. */
  text(items: readonly string[], max: number): string {
    return Array.from({ length: this.below(max + 1) }, () => this.pick(items)).join('');
  }

  bytes(max: number): Buffer {
    return Buffer.from(Array.from({ length: this.below(max + 1) }, () => this.below(256)));
  }

  shuffle<T>(items: readonly T[]): T[] {
    const out = [...items];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [out[i], out[j]] = [out[j]!, out[i]!];
    }
    return out;
  }
}

/** Runs `body` so often; a failure says which seed repeats it. */
export function repeat(times: number, body: (random: Random, round: number) => void): void {
  const random = new Random();
  for (let i = 0; i < times; i++) {
    try {
      body(random, i);
    } catch (error) {
      if (error instanceof Error) error.message += ` (round ${i}; ROWAN_SEED=${random.seed} repeats it)`;
      throw error;
    }
  }
}
