import type { Request } from '../../protocol/ldap-messages.js';

/** The counters of one process. Plain data, which can be sent to another process. */
export interface Counts {
  /** Number of the worker process. 0: a single process, or the supervisor of the workers. */
  readonly workerNumber: number;
  readonly pid: number;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly memoryBytes: number;
  /** Time that the event loop was active, in milliseconds. */
  readonly busyMs: number;
  readonly connectionsCurrent: number;
  readonly connectionsTotal: number;
  readonly connectionsRefused: number;
  readonly entriesSent: number;
  readonly operations: Readonly<Record<Request['op'], number>>;
}

function noOperations(): Record<Request['op'], number> {
  return {
    bind: 0,
    unbind: 0,
    search: 0,
    compare: 0,
    add: 0,
    modify: 0,
    delete: 0,
    modifyDN: 0,
    abandon: 0,
    extended: 0,
  };
}

/** The counters that `cn=Monitor` shows. Plain fields, because the hot path increments them. */
export class Statistics {
  readonly workerNumber: number;
  readonly startedAt = Date.now();
  connectionsCurrent = 0;
  connectionsTotal = 0;
  connectionsRefused = 0;
  entriesSent = 0;
  readonly operations = noOperations();

  constructor(workerNumber = 0) {
    this.workerNumber = workerNumber;
  }

  counts(): Counts {
    const busyMs = performance.eventLoopUtilization().active;
    const memoryBytes = process.memoryUsage.rss();
    return { ...this, pid: process.pid, memoryBytes, busyMs, operations: { ...this.operations } };
  }

  /** Adds the totals of a process that has ended. */
  inherit(endedCounts: Counts): void {
    this.connectionsTotal += endedCounts.connectionsTotal;
    this.connectionsRefused += endedCounts.connectionsRefused;
    this.entriesSent += endedCounts.entriesSent;
    for (const [op, count] of Object.entries(endedCounts.operations)) this.operations[op as Request['op']] += count;
  }
}

const SUMMED_COUNTERS = [
  'memoryBytes',
  'busyMs',
  'connectionsCurrent',
  'connectionsTotal',
  'connectionsRefused',
  'entriesSent',
] as const;

/** Returns the sum of the counters, with `workerNumber` and `pid` of the first element. */
export function sumCounts([firstCounts, ...otherCounts]: readonly [Counts, ...Counts[]]): Counts {
  const sum = { ...firstCounts, operations: { ...firstCounts.operations } };
  for (const counts of otherCounts) {
    sum.startedAt = Math.min(sum.startedAt, counts.startedAt);
    for (const key of SUMMED_COUNTERS) sum[key] += counts[key];
    for (const op of Object.keys(sum.operations) as Request['op'][]) sum.operations[op] += counts.operations[op];
  }
  return sum;
}
