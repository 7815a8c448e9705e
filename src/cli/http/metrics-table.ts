import { resultName } from '../../ldap/ldap-error.js';
import { type Counts, LATENCY_BOUNDS_MS, type Latencies, OPS } from '../../server/processes/statistics.js';

type Labels = Readonly<Record<string, string | number>>;

export interface Sample {
  readonly labels: Labels;
  readonly value: number;
  /** Name with the suffix of a histogram's parts. */
  readonly metricName?: string;
}

/** Reads the value of a metric. An undefined value is left out. */
type Read = (counts: Counts) => number | undefined | Sample[];
/** The counts that are numbers. */
type NumberName = { [K in keyof Counts]: Counts[K] extends number ? K : never }[keyof Counts];

/** A metric of a process. */
export interface Metric {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly read: Read | NumberName;
}

function gauge(name: string, help: string, read: Read | NumberName): Metric {
  return { name: `rowan_${name}`, type: 'gauge', help, read };
}

function counter(name: string, help: string, read: Read | NumberName): Metric {
  return { name: `rowan_${name}_total`, type: 'counter', help, read };
}

function histogram(name: string, help: string, read: (counts: Counts) => [Labels, Latencies][]): Metric {
  const fullName = `rowan_${name}`;
  const readSamples = (counts: Counts): Sample[] =>
    read(counts).flatMap(([labels, latencies]) => histogramSamples(fullName, labels, latencies));
  return { name: fullName, type: 'histogram', help, read: readSamples };
}

/** Samples with cumulative buckets in seconds, as Prometheus has them. */
function histogramSamples(name: string, labels: Labels, { latencies, workMs }: Latencies): Sample[] {
  let value = 0;
  const buckets = latencies.map((count, i) => {
    value += count;
    const bound = LATENCY_BOUNDS_MS[i];
    return {
      metricName: `${name}_bucket`,
      labels: { ...labels, le: bound === undefined ? '+Inf' : bound / 1000 },
      value,
    };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: workMs / 1000 },
    { metricName: `${name}_count`, labels, value },
  ];
}

function operationSamples(value: (counts: Counts, op: (typeof OPS)[number]) => number): Read {
  return (counts) => OPS.map((operation) => ({ labels: { operation }, value: value(counts, operation) }));
}

function seconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1000;
}

/** The metrics of each process. docs/metrics.md says how they are read. */
export const METRICS: readonly Metric[] = [
  counter(
    'operations_started',
    'Operations begun.',
    operationSamples(({ operations }, op) => operations[op]),
  ),
  counter('operations', 'Operations ended, by the result that the client was given.', (counts) =>
    OPS.flatMap((operation) =>
      Object.entries(counts.ended[operation].results).map(([code, value]) => ({
        labels: { operation, result: resultName(Number(code)) },
        value,
      })),
    ),
  ),
  histogram('operation_duration_seconds', 'Time from the start of an operation to its response.', (counts) =>
    OPS.map((operation) => [{ operation }, counts.ended[operation]]),
  ),
  counter(
    'operation_wait_seconds',
    'Time that received requests waited before they began.',
    operationSamples(({ ended }, op) => ended[op].waitMs / 1000),
  ),
  gauge('connections', 'Open client connections.', 'connectionsCurrent'),
  counter('connections_opened', 'Client connections accepted.', 'connectionsTotal'),
  counter('connections_refused', 'Client connections refused, for their number or at the end.', 'connectionsRefused'),
  counter('entries_sent', 'Entries sent.', 'entriesSent'),
  counter('sent_bytes', 'Bytes of responses sent.', 'bytesSent'),
  counter('log_lines_dropped', 'Lines of access and audit log that could not be written.', 'logLinesDropped'),
  counter('unindexed_searches', 'Searches that an index would have spared many rows.', 'unindexedSearches'),
  gauge(
    'saturation_ratio',
    'Share of the last seconds in which an arriving request had to wait, from 0 to 1.',
    (counts) => {
      return counts.gauges.saturation;
    },
  ),
  counter('event_loop_busy_seconds', 'Time in which the event loop worked.', ({ busyMs }) => seconds(busyMs)),
  histogram('event_loop_lag_seconds', 'How late timers were, sampled ten times a second.', ({ loopLag }) => [
    [{}, loopLag],
  ]),
  gauge('queue_length', 'Work that waits now, by its queue.', ({ gauges }) =>
    Object.entries({
      password_hashes: gauges.waitingHashes,
      long_requests: gauges.longRequests,
      commits: gauges.waitingCommits,
      request_memory: gauges.waitingRequests,
    }).flatMap(([queue, value]) => (value === undefined ? [] : { labels: { queue }, value })),
  ),
  gauge('request_bytes', 'Memory taken by requests.', ({ gauges }) => gauges.requestBytes),
  gauge('unsent_bytes', 'Responses that clients have not read yet.', ({ gauges }) => gauges.unsentBytes),
  counter('commits', 'Transactions committed, each with one flush.', ({ totals }) => totals.commits),
  counter('committed_writes', 'Writes in the transactions.', ({ totals }) => totals.committedPlans),
  counter('commit_seconds', 'Time of the transactions with their flushes.', ({ totals }) => seconds(totals.commitMs)),
  counter('password_cache_hits', 'Binds whose password was verified a short time before.', ({ totals }) => {
    return totals.passwordCacheHits;
  }),
  counter(
    'password_cache_misses',
    'Binds whose password had to be hashed.',
    ({ totals }) => totals.passwordCacheMisses,
  ),
  gauge('certificate_expiry_timestamp_seconds', 'End of the validity of the certificate in use.', ({ gauges }) => {
    return seconds(gauges.certificateExpiresAt);
  }),
  gauge('memory_bytes', 'Resident memory.', 'memoryBytes'),
  counter('cpu_seconds', 'Processor time.', ({ cpuMs }) => seconds(cpuMs)),
  gauge('start_time_seconds', 'Start of the process.', ({ startedAt }) => seconds(startedAt)),
  gauge('counts_age_seconds', 'Age of these figures; it grows while the process does not answer.', ({ takenAt }) => {
    return seconds(Math.max(0, Date.now() - takenAt));
  }),
];
