import { availableParallelism } from 'node:os';

/**
 * When the number of processes that serve changes. Shares are those of a processor that event loops were at work, 0 to
 * 1.
 */
export interface GrowthRules {
  /** Processes at most. */
  readonly most: number;
  /** Busy for so long, in milliseconds: one more. */
  readonly startMs: number;
  /** Idle for so long, in milliseconds: one fewer. */
  readonly endMs: number;
}

const MOST = 8;
/** Those that serve are busy when they are at work for this share of the time, on average … */
const BUSY = 0.8;
/**
 * … and idle when one fewer could do the work in this share of its time. Far enough apart that neither brings the other
 * about.
 */
const IDLE = 0.4;

/** One core is left to the threads, the system and other programs. */
function usualRules(): GrowthRules {
  return { most: Math.max(1, Math.min(MOST, availableParallelism() - 1)), startMs: 5000, endMs: 300_000 };
}

/** The rules of this machine. `ROWAN_AUTO_WORKERS=MOST,STARTMS,ENDMS` has tests grow on any machine, and soon. */
export function growthRules(env: string | undefined = process.env.ROWAN_AUTO_WORKERS): GrowthRules {
  const given = /^(\d{1,3}),(\d{1,9}),(\d{1,9})$/.exec(env ?? '');
  if (!given) return usualRules();
  return { most: Number(given[1]), startMs: Number(given[2]), endMs: Number(given[3]) };
}

/** Says by what share of the time each process was at work whether there are to be more of them. */
export class Growth {
  readonly #rules: GrowthRules;
  #busySince: number | undefined;
  #idleSince: number | undefined;

  constructor(rules: GrowthRules) {
    this.#rules = rules;
  }

  /**
   * `shares`: of each process that is given connections, since the last call. How many more there are to be: 1, 0 or
   * −1.
   */
  next(shares: readonly number[], now: number): number {
    const { most, startMs, endMs } = this.#rules;
    const work = shares.reduce((sum, share) => sum + share, 0);
    this.#busySince = work >= BUSY * shares.length ? (this.#busySince ?? now) : undefined;
    this.#idleSince = shares.length > 1 && work <= IDLE * (shares.length - 1) ? (this.#idleSince ?? now) : undefined;
    if (shares.length < most && isOver(this.#busySince, startMs, now)) return this.#change(1);
    if (isOver(this.#idleSince, endMs, now)) return this.#change(-1);
    return 0;
  }

  /** Both times begin anew: what the change brings is looked at first. */
  #change(by: number): number {
    this.#busySince = undefined;
    this.#idleSince = undefined;
    return by;
  }
}

function isOver(since: number | undefined, ms: number, now: number): boolean {
  return since !== undefined && now - since >= ms;
}
