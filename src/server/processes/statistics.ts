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

/** Times, counted by their length. */
export interface Latencies {
  /** Number of times in each bucket of `LATENCY_BOUNDS_MS`. */
  latencies: number[];
  /** Sum of the times, in milliseconds. */
  workMs: number;
}

/** Counters of the ended operations of one kind. A latency is the time from start to response. */
export interface EndedCounts extends Latencies {
  /** By result code. */
  results: Record<number, number>;
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

/** Figures that parts of a process keep. An absent figure does not exist with the store or the settings. */
export interface PartFigures extends ConnectionGauges {
  readonly gauges: Readonly<
    Partial<
      Record<
        | 'waitingHashes'
        | 'longRequests'
        | 'waitingCommits'
        | 'waitingRequests'
        | 'requestBytes'
        | 'unsentBytes'
        /** In milliseconds since 1970. */
        | 'certificateExpiresAt'
        /** Share of the last seconds in which the event loop was active, from 0 to 1. */
        | 'saturation',
        number | undefined
      >
    >
  >;
  /** Figures that grow until the process ends. */
  readonly totals: Readonly<
    Partial<
      Record<
        'commits' | 'committedPlans' | 'commitMs' | 'passwordCacheHits' | 'passwordCacheMisses',
        number | undefined
      >
    >
  >;
  /** How late timers of the event loop were. */
  readonly loopLag: Latencies;
}

/** The counters of one process. Plain data, which can be sent to another process. */
export interface Counts extends PartFigures {
  /** Number of the worker process. 0: a single process, or the supervisor of the workers. */
  readonly workerNumber: number;
  /** 0: the totals of the ended processes of this number. */
  readonly pid: number;
  /** Time of the figures, in milliseconds since 1970. A process that is too busy to answer has old ones. */
  readonly takenAt: number;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly memoryBytes: number;
  /** Time that the event loop was active, in milliseconds. */
  readonly busyMs: number;
  /** Processor time, in milliseconds. */
  readonly cpuMs: number;
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
  /** Lines of the access log and records of the audit log that could not be written. */
  readonly logLinesDropped: number;
  /** Number of begun operations. */
  readonly operations: Readonly<Record<Op, number>>;
  readonly ended: Readonly<Record<Op, EndedCounts>>;
}

/** Figures that are summed over processes. */
const SUMMED = [
  'memoryBytes',
  'busyMs',
  'cpuMs',
  'connectionsCurrent',
  'connectionsWaiting',
  'connectionsUnread',
  'connectionsTotal',
  'connectionsRefused',
  'entriesSent',
  'referencesSent',
  'resultsSent',
  'bytesSent',
  'unindexedSearches',
  'logLinesDropped',
] as const;

export function noLatencies(): Latencies {
  return { latencies: Array(LATENCY_BOUNDS_MS.length + 1).fill(0), workMs: 0 };
}

export function countLatency(counts: Latencies, ms: number): void {
  let bucket = 0;
  while (bucket < LATENCY_BOUNDS_MS.length && ms > LATENCY_BOUNDS_MS[bucket]!) bucket++;
  counts.latencies[bucket]!++;
  counts.workMs += ms;
}

function perOp<T>(make: () => T): Record<Op, T> {
  return Object.fromEntries(OPS.map((op) => [op, make()])) as Record<Op, T>;
}

function noPartFigures(): PartFigures {
  return { connectionsWaiting: 0, connectionsUnread: 0, gauges: {}, totals: {}, loopLag: noLatencies() };
}

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
  logLinesDropped = 0;
  readonly operations = perOp(() => 0);
  readonly ended = perOp<EndedCounts>(() => ({
    ...noLatencies(),
    results: {},
    waitMs: 0,
  }));
  readonly #readPartFigures: () => PartFigures;
  #memoryBytes = 0;

  constructor(workerNumber = 0, readPartFigures: () => PartFigures = noPartFigures) {
    this.workerNumber = workerNumber;
    this.#readPartFigures = readPartFigures;
  }

  countEnd(op: Op, code: number, workMs: number, waitMs: number): void {
    const ended = this.ended[op];
    ended.results[code] = (ended.results[code] ?? 0) + 1;
    countLatency(ended, workMs);
    ended.waitMs += waitMs;
  }

  counts(): Counts {
    const { user, system } = process.cpuUsage();
    return structuredClone({
      ...this,
      ...this.#readPartFigures(),
      pid: process.pid,
      takenAt: Date.now(),
      memoryBytes: this.#readMemory(),
      busyMs: performance.eventLoopUtilization().active,
      cpuMs: (user + system) / 1000,
    });
  }

  /** Returns the resident memory. A process that may open no more files cannot read it: then the last figure stays. */
  #readMemory(): number {
    try {
      this.#memoryBytes = process.memoryUsage.rss();
    } catch {
      // Figures are wanted most by an operator whose server has too many files open.
    }
    return this.#memoryBytes;
  }
}

/** Returns what stays of the counts of a process that has ended. */
export function endedTotals(counts: Counts): Counts {
  const noConnections = { connectionsCurrent: 0, connectionsWaiting: 0, connectionsUnread: 0 };
  return { ...counts, ...noConnections, pid: 0, memoryBytes: 0, gauges: {} };
}

/** Returns the sum of the counters, without gauges, with `workerNumber` and `pid` of the first element. */
export function sumCounts([firstCounts, ...otherCounts]: readonly [Counts, ...Counts[]]): Counts {
  const sum: { -readonly [K in keyof Counts]: Counts[K] } = { ...structuredClone(firstCounts), gauges: {} };
  for (const counts of otherCounts) {
    sum.startedAt = Math.min(sum.startedAt, counts.startedAt);
    for (const key of SUMMED) sum[key] += counts[key];
    addNumbers(sum.operations, counts.operations);
    for (const op of OPS) {
      addLatencies(sum.ended[op], counts.ended[op]);
      addNumbers(sum.ended[op].results, counts.ended[op].results);
      sum.ended[op].waitMs += counts.ended[op].waitMs;
    }
    addNumbers(sum.totals, counts.totals);
    addLatencies(sum.loopLag, counts.loopLag);
  }
  return sum;
}

function addNumbers(sum: Partial<Record<string, number>>, numbers: Readonly<Partial<Record<string, number>>>): void {
  for (const [name, number] of Object.entries(numbers)) sum[name] = (sum[name] ?? 0) + (number ?? 0);
}

function addLatencies(sum: Latencies, counts: Latencies): void {
  for (const [i, count] of counts.latencies.entries()) sum.latencies[i]! += count;
  sum.workMs += counts.workMs;
}
