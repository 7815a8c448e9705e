import type { Request } from '../../protocol/ldap-messages.js';

type Op = Request['op'];

const OPS: readonly Op[] = [
  'bind',
  'unbind',
  'search',
  'compare',
  'add',
  'modify',
  'delete',
  'modifyDN',
  'abandon',
  'extended',
];

/** Upper bounds of the latency buckets, in milliseconds. The last bucket has no bound. */
export const LATENCY_BOUNDS_MS: readonly number[] = [
  0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000,
];

/** Counters of the ended operations of one kind. */
export interface EndedCounts {
  /** By result code. */
  results: Record<number, number>;
  /** Number of operations in each bucket of `LATENCY_BOUNDS_MS`, by the time from start to response. */
  latencies: number[];
  /** Sum of the times from start to response, in milliseconds. */
  workMs: number;
  /** Sum of the times from arrival to start, in milliseconds. */
  waitMs: number;
}

/** Current figures of the connections of a process. */
export interface ConnectionGauges {
  /** Connections with requests that have arrived but may not begin yet. */
  readonly connectionsWaiting: number;
  /** Connections whose clients have not received all responses yet. */
  readonly connectionsUnread: number;
}

/** The counters of one process. Plain data, which can be sent to another process. */
export interface Counts extends ConnectionGauges {
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
  readonly referencesSent: number;
  /** Number of sent messages that end an operation. */
  readonly resultsSent: number;
  readonly bytesSent: number;
  /** Searches that succeeded without an index although they examined many rows. */
  readonly unindexedSearches: number;
  /** Number of begun operations. */
  readonly operations: Readonly<Record<Op, number>>;
  readonly ended: Readonly<Record<Op, EndedCounts>>;
}

/** Counters that grow until the process ends. */
const TOTALS = [
  'connectionsTotal',
  'connectionsRefused',
  'entriesSent',
  'referencesSent',
  'resultsSent',
  'bytesSent',
  'unindexedSearches',
] as const;
/** Figures that are summed over processes, but are not kept when a process ends. */
const CURRENT_FIGURES = [
  'memoryBytes',
  'busyMs',
  'connectionsCurrent',
  'connectionsWaiting',
  'connectionsUnread',
] as const;

function perOp<T>(make: () => T): Record<Op, T> {
  return Object.fromEntries(OPS.map((op) => [op, make()])) as Record<Op, T>;
}

const NO_GAUGES: ConnectionGauges = { connectionsWaiting: 0, connectionsUnread: 0 };

/** The counters of this process. Plain fields, because the hot path increments them. */
export class Statistics {
  readonly workerNumber: number;
  readonly startedAt = Date.now();
  connectionsCurrent = 0;
  connectionsTotal = 0;
  connectionsRefused = 0;
  entriesSent = 0;
  referencesSent = 0;
  resultsSent = 0;
  bytesSent = 0;
  unindexedSearches = 0;
  readonly operations = perOp(() => 0);
  readonly ended = perOp<EndedCounts>(() => ({
    results: {},
    latencies: Array(LATENCY_BOUNDS_MS.length + 1).fill(0),
    workMs: 0,
    waitMs: 0,
  }));

  readonly #gauges: () => ConnectionGauges;

  constructor(workerNumber = 0, gauges: () => ConnectionGauges = () => NO_GAUGES) {
    this.workerNumber = workerNumber;
    this.#gauges = gauges;
  }

  countEnd(op: Op, code: number, workMs: number, waitMs: number): void {
    const ended = this.ended[op];
    ended.results[code] = (ended.results[code] ?? 0) + 1;
    let bucket = 0;
    while (bucket < LATENCY_BOUNDS_MS.length && workMs > LATENCY_BOUNDS_MS[bucket]!) bucket++;
    ended.latencies[bucket]!++;
    ended.workMs += workMs;
    ended.waitMs += waitMs;
  }

  counts(): Counts {
    const busyMs = performance.eventLoopUtilization().active;
    const memoryBytes = process.memoryUsage.rss();
    const ended = structuredClone(this.ended);
    const operations = { ...this.operations };
    return { ...this, ...this.#gauges(), pid: process.pid, memoryBytes, busyMs, operations, ended };
  }

  /** Adds the totals of a process that has ended. */
  inherit(endedCounts: Counts): void {
    addTotals(this, endedCounts);
  }
}

type Totals = Pick<Counts, 'operations' | 'ended'> & { -readonly [K in (typeof TOTALS)[number]]: number };

function addTotals(sum: Totals, counts: Counts): void {
  for (const key of TOTALS) sum[key] += counts[key];
  const operations: Record<Op, number> = sum.operations;
  for (const op of OPS) {
    operations[op] += counts.operations[op];
    const from = counts.ended[op];
    const to = sum.ended[op];
    for (const [code, count] of Object.entries(from.results))
      to.results[Number(code)] = (to.results[Number(code)] ?? 0) + count;
    for (const [i, count] of from.latencies.entries()) to.latencies[i]! += count;
    to.workMs += from.workMs;
    to.waitMs += from.waitMs;
  }
}

/** Returns the sum of the counters, with `workerNumber` and `pid` of the first element. */
export function sumCounts([firstCounts, ...otherCounts]: readonly [Counts, ...Counts[]]): Counts {
  const sum = structuredClone(firstCounts) as { -readonly [K in keyof Counts]: Counts[K] };
  for (const counts of otherCounts) {
    sum.startedAt = Math.min(sum.startedAt, counts.startedAt);
    for (const key of CURRENT_FIGURES) sum[key] += counts[key];
    addTotals(sum, counts);
  }
  return sum;
}
