import type { Request } from '../../protocol/ldap-messages.js';

/** The counters of one process. Plain data, which can be sent to another process. */
export interface Counts {
  /** Number of the worker process. 0: a single process, or the supervisor of the workers. */
  readonly worker: number;
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
  readonly worker: number;
  readonly startedAt = Date.now();
  connectionsCurrent = 0;
  connectionsTotal = 0;
  connectionsRefused = 0;
  entriesSent = 0;
  readonly operations = noOperations();

  constructor(worker = 0) {
    this.worker = worker;
  }

  counts(): Counts {
    const { worker, startedAt, connectionsCurrent, connectionsTotal, connectionsRefused, entriesSent } = this;
    const busyMs = performance.eventLoopUtilization().active;
    const process_ = { worker, pid: process.pid, startedAt, memoryBytes: process.memoryUsage.rss(), busyMs };
    const connections = { connectionsCurrent, connectionsTotal, connectionsRefused };
    return { ...process_, ...connections, entriesSent, operations: { ...this.operations } };
  }

  /** Adds the totals of a process that has ended. */
  inherit(ended: Counts): void {
    this.connectionsTotal += ended.connectionsTotal;
    this.connectionsRefused += ended.connectionsRefused;
    this.entriesSent += ended.entriesSent;
    for (const [op, count] of Object.entries(ended.operations)) this.operations[op as Request['op']] += count;
  }
}

/** Returns the sum of the counters, with `worker` and `pid` of the first element. */
export function sumCounts(all: readonly [Counts, ...Counts[]]): Counts {
  const sum = (of: (counts: Counts) => number): number => all.reduce((total, counts) => total + of(counts), 0);
  const operations = noOperations();
  for (const op of Object.keys(operations) as Request['op'][]) operations[op] = sum((counts) => counts.operations[op]);
  return {
    worker: all[0].worker,
    pid: all[0].pid,
    startedAt: Math.min(...all.map((counts) => counts.startedAt)),
    memoryBytes: sum((counts) => counts.memoryBytes),
    busyMs: sum((counts) => counts.busyMs),
    connectionsCurrent: sum((counts) => counts.connectionsCurrent),
    connectionsTotal: sum((counts) => counts.connectionsTotal),
    connectionsRefused: sum((counts) => counts.connectionsRefused),
    entriesSent: sum((counts) => counts.entriesSent),
    operations,
  };
}
