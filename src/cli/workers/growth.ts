import { availableParallelism } from 'node:os';

/** Rules for the number of serving processes. */
export interface GrowthRules {
  readonly maxProcesses: number;
  /** Time of high load after which a process is started, in milliseconds. */
  readonly startMs: number;
  /** Time of low load after which a process is ended, in milliseconds. */
  readonly endMs: number;
}

const MAX_PROCESSES = 8;
/** Load is high when the event loops are busy for this share of the time on average. */
const BUSY_SHARE = 0.8;
/** Load is low when one process fewer would be this busy. The distance to `BUSY_SHARE` prevents oscillation. */
const IDLE_SHARE = 0.4;

/** Leaves one core to threads, the system and other programs. */
function defaultRules(): GrowthRules {
  return {
    maxProcesses: Math.max(1, Math.min(MAX_PROCESSES, availableParallelism() - 1)),
    startMs: 5000,
    endMs: 300_000,
  };
}

/** Returns the rules of this machine. `ROWAN_AUTO_WORKERS=MAX,STARTMS,ENDMS` overrides them for tests. */
export function growthRules(env: string | undefined = process.env.ROWAN_AUTO_WORKERS): GrowthRules {
  const match = /^(\d{1,3}),(\d{1,9}),(\d{1,9})$/.exec(env ?? '');
  if (!match) return defaultRules();
  return { maxProcesses: Number(match[1]), startMs: Number(match[2]), endMs: Number(match[3]) };
}

/** Decides from the load of the processes whether their number changes. */
export class GrowthPolicy {
  readonly #rules: GrowthRules;
  #busySince: number | undefined;
  #idleSince: number | undefined;

  constructor(rules: GrowthRules) {
    this.#rules = rules;
  }

  /**
   * Returns the change in the number of processes: 1, 0 or −1. `shares` has, for each process that accepts connections,
   * the busy share since the last call, from 0 to 1.
   */
  decide(shares: readonly number[], now: number): number {
    const { maxProcesses, startMs, endMs } = this.#rules;
    const work = shares.reduce((sum, share) => sum + share, 0);
    this.#busySince = work >= BUSY_SHARE * shares.length ? (this.#busySince ?? now) : undefined;
    this.#idleSince =
      shares.length > 1 && work <= IDLE_SHARE * (shares.length - 1) ? (this.#idleSince ?? now) : undefined;
    if (shares.length < maxProcesses && hasLasted(this.#busySince, startMs, now)) return this.#restartTimes(1);
    if (hasLasted(this.#idleSince, endMs, now)) return this.#restartTimes(-1);
    return 0;
  }

  /** Restarts both times, so that the effect of a change is measured first. */
  #restartTimes(by: number): number {
    this.#busySince = undefined;
    this.#idleSince = undefined;
    return by;
  }
}

function hasLasted(since: number | undefined, ms: number, now: number): boolean {
  return since !== undefined && now - since >= ms;
}
