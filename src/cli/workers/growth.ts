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
  #busySinceMs: number | undefined;
  #idleSinceMs: number | undefined;

  constructor(rules: GrowthRules) {
    this.#rules = rules;
  }

  /**
   * Returns the change in the number of processes: 1, 0 or −1. `shares` has, for each process that accepts connections,
   * the busy share since the last call, from 0 to 1.
   */
  decide(shares: readonly number[], nowMs: number): number {
    const { maxProcesses, startMs, endMs } = this.#rules;
    const totalShare = shares.reduce((sum, share) => sum + share, 0);
    this.#busySinceMs = totalShare >= BUSY_SHARE * shares.length ? (this.#busySinceMs ?? nowMs) : undefined;
    this.#idleSinceMs =
      shares.length > 1 && totalShare <= IDLE_SHARE * (shares.length - 1) ? (this.#idleSinceMs ?? nowMs) : undefined;
    if (shares.length < maxProcesses && hasLasted(this.#busySinceMs, startMs, nowMs)) return this.#restartTimes(1);
    if (hasLasted(this.#idleSinceMs, endMs, nowMs)) return this.#restartTimes(-1);
    return 0;
  }

  /** Restarts both times, so that the effect of a change is measured first. */
  #restartTimes(countChange: number): number {
    this.#busySinceMs = undefined;
    this.#idleSinceMs = undefined;
    return countChange;
  }
}

function hasLasted(sinceMs: number | undefined, ms: number, now: number): boolean {
  return sinceMs !== undefined && now - sinceMs >= ms;
}
