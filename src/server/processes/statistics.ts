import type { Request } from '../../protocol/ldap-messages.js';

type Op = Request['op'];

/** The kinds of operations. */
export const OPS: readonly Op[] = [
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

/** Figures by name. An absent figure does not exist with the store or the settings. */
type Figures<Name extends string> = Readonly<Partial<Record<Name, number | undefined>>>;

/** Figures that parts of a process keep. */
export interface PartFigures {
  /** Connections with requests that have arrived but may not begin yet. */
  readonly connectionsWaiting: number;
  /** Connections whose clients have not received all responses yet. */
  readonly connectionsUnread: number;
  readonly gauges: Figures<
    | 'waitingHashes'
    | 'longRequests'
    | 'waitingCommits'
    | 'waitingRequests'
    | 'requestBytes'
    | 'unsentBytes'
    /** In milliseconds since 1970. */
    | 'certificateExpiresAt'
    /** Share of the last seconds in which the event loop was active, from 0 to 1. */
    | 'saturation'
  >;
  /** Figures that grow until the process ends. */
  readonly totals: Figures<'commits' | 'committedPlans' | 'commitMs' | 'passwordCacheHits' | 'passwordCacheMisses'>;
  /** How late timers of the event loop were. */
  readonly loopLag: Latencies;
}

/** The counters of one process. Plain data, which can be sent to another process. */
export interface Counts extends PartFigures, Readonly<Omit<Statistics, 'countEnd' | 'counts'>> {
  /** 0: the totals of the ended processes of this number. */
  readonly pid: number;
  /** Time of the figures, in milliseconds since 1970. A process that is too busy to answer has old ones. */
  readonly takenAt: number;
  readonly memoryBytes: number;
  /** Time that the event loop was active, in milliseconds. */
  readonly busyMs: number;
  /** Processor time, in milliseconds. */
  readonly cpuMs: number;
}

function noLatencies(): Latencies {
  return { latencies: Array(LATENCY_BOUNDS_MS.length + 1).fill(0), workMs: 0 };
}

function countLatency(counts: Latencies, ms: number): void {
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
  /** Number of the worker process. 0: a single process, or the supervisor of the workers. */
  readonly workerNumber: number;
  /** Milliseconds since 1970. */
  readonly startedAt = Date.now();
  connectionsCurrent = 0;
  connectionsTotal = 0;
  connectionsRefused = 0;
  entriesSent = 0;
  referencesSent = 0;
  /** Number of sent messages that end an operation. */
  resultsSent = 0;
  bytesSent = 0;
  /** Searches that succeeded without an index although they examined many rows. */
  unindexedSearches = 0;
  /** Lines of the access log and records of the audit log that could not be written. */
  logLinesDropped = 0;
  /** Number of begun operations. */
  readonly operations = perOp(() => 0);
  readonly ended = perOp<EndedCounts>(() => ({ ...noLatencies(), results: {}, waitMs: 0 }));
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

export function countEnded({ results }: EndedCounts): number {
  return Object.values(results).reduce((sum, count) => sum + count, 0);
}

/** Returns what stays of the counts of a process that has ended. */
export function endedTotals(counts: Counts): Counts {
  const noConnections = { connectionsCurrent: 0, connectionsWaiting: 0, connectionsUnread: 0 };
  return { ...counts, ...noConnections, pid: 0, memoryBytes: 0, gauges: {} };
}

/** Returns the sum of the counters, without gauges, with `workerNumber` and `pid` of the first element. */
export function sumCounts(allCounts: readonly [Counts, ...Counts[]]): Counts {
  const [firstCounts, ...otherCounts] = allCounts;
  const sum = structuredClone(firstCounts);
  for (const counts of otherCounts) addNumbers(sum, counts);
  const { workerNumber, pid, takenAt } = firstCounts;
  const startedAt = Math.min(...allCounts.map((counts) => counts.startedAt));
  return { ...sum, workerNumber, pid, takenAt, startedAt, gauges: {} };
}

/** Adds the numbers in `counts`, at any depth, to those of the same names in `sum`. */
function addNumbers(sum: object, counts: object): void {
  const numbers = sum as Record<string, number | undefined>;
  for (const [name, value] of Object.entries(counts)) {
    if (typeof value === 'number') numbers[name] = (numbers[name] ?? 0) + value;
    else if (value !== undefined) addNumbers((sum as Record<string, object>)[name]!, value as object);
  }
}

const SAMPLE_MS = 100;
/** Number of samples in half of the time that `saturation` covers. */
const WINDOW_SAMPLES = 50;

/** Measures how late the event loop is, and how busy. */
export class EventLoopMeter {
  /** How late a timer of `SAMPLE_MS` was. */
  readonly lag = noLatencies();
  #sampledMs = performance.now();
  #sampleCount = 0;
  #windowStart = performance.eventLoopUtilization();
  #windowMiddle = this.#windowStart;
  readonly #timer = setInterval(() => this.#sample(), SAMPLE_MS).unref();

  #sample(): void {
    const nowMs = performance.now();
    countLatency(this.lag, Math.max(0, nowMs - this.#sampledMs - SAMPLE_MS));
    this.#sampledMs = nowMs;
    if (++this.#sampleCount % WINDOW_SAMPLES !== 0) return;
    this.#windowStart = this.#windowMiddle;
    this.#windowMiddle = performance.eventLoopUtilization();
  }

  /**
   * Share of the last 5 to 10 seconds in which the event loop was active, from 0 to 1. A request that arrives in this
   * time has to wait, since a process does one thing at a time.
   */
  get saturation(): number {
    return performance.eventLoopUtilization(this.#windowStart).utilization;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
