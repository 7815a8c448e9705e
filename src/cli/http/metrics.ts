import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { AggregatorRegistry } from 'prom-client';
import { resultName } from '../../ldap/ldap-error.js';
import { reportFollowers, secondsBehind } from '../../replica/report.js';
import { type Counts, LATENCY_BOUNDS_MS, type Latencies, OPS } from '../../server/processes/statistics.js';
import { VERSION } from '../../server/words/version.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { DATA_FILE } from '../../store/lmdb/file/data-file.js';
import type { Settings } from '../options.js';
import type { HealthSource } from './health.js';
import type { Route } from './http-server.js';

/** A metric with its samples, as prom-client aggregates metrics: samples with the same labels are summed. */
interface SampledMetric extends Omit<Metric, 'read'> {
  readonly aggregator: 'sum';
  readonly values: readonly Sample[];
}

/** The route that Prometheus scrapes. `ask` returns the answers of all processes and the totals of ended ones. */
export function metricsRoute(settings: Settings, source: Pick<HealthSource, 'ask' | 'partition'>): Route {
  return {
    method: 'GET',
    path: '/metrics',
    handle: async () => {
      const answers = await source.ask({ about: 'counts' });
      const allCounts = answers.flatMap(({ counts }) => counts ?? []);
      const metrics = METRICS.map((metric) => sampleMetric(metric, allCounts));
      metrics.push(...(await serverMetrics(settings)), ...(await replicationMetrics(source)));
      const registry = AggregatorRegistry.aggregate([metrics.filter(({ values }) => values.length > 0)]);
      return { type: registry.contentType, body: await registry.metrics() };
    },
  };
}

/**
 * Totals of ended processes stay in the counters of their worker number: the sums never fall, and a worker that starts
 * again continues the series.
 */
function sampleMetric({ read, ...metric }: Metric, allCounts: readonly Counts[]): SampledMetric {
  const values = allCounts
    .filter(({ pid }) => pid !== 0 || metric.type !== 'gauge')
    .flatMap((counts) => {
      const value = (typeof read === 'string' ? counts[read] : read(counts)) ?? [];
      const samples: Sample[] = typeof value === 'number' ? [{ labels: {}, value }] : value;
      return samples.map((sample) => ({ ...sample, labels: { worker: counts.workerNumber, ...sample.labels } }));
    });
  return { ...metric, aggregator: 'sum', values };
}

/** Metrics of the server as a whole. A directory in HBase has no data file. */
async function serverMetrics({ store }: Settings): Promise<SampledMetric[]> {
  const common = { type: 'gauge', aggregator: 'sum' } as const;
  const versionSample = { labels: { version: VERSION }, value: 1 };
  const sizes = isHBaseUrl(store) ? [] : [(await stat(join(store, DATA_FILE))).size];
  return [
    { ...common, name: 'rowan_build_info', help: 'Version of the program, as a label.', values: [versionSample] },
    {
      ...common,
      name: 'rowan_store_size_bytes',
      help: 'Size of the data file.',
      values: sizes.map((value) => ({ labels: {}, value })),
    },
  ];
}

/** Metrics of a replica, and of the replicas that follow this server. */
async function replicationMetrics(source: Pick<HealthSource, 'ask' | 'partition'>): Promise<SampledMetric[]> {
  const answers = await source.ask({ about: 'replicas' });
  // No process serves yet.
  if (answers.length === 0) return [];
  const own = answers.flatMap(({ follows }) => follows ?? []);
  const followers = (await reportFollowers(source.partition.store, answers)).filter(({ isConnected }) => isConnected);
  const sample = (value: number, replica?: string): Sample => ({ labels: replica ? { replica } : {}, value });
  const gauges: [string, string, Sample[]][] = [
    ['behind_changes', 'Changes that a replica lacks.', own.map((one) => sample(Number(one.last - one.position)))],
    ['behind_seconds', 'Age of the data of a replica.', own.map((one) => sample(secondsBehind(one)))],
    [
      'follower_behind_changes',
      'Changes that a follower lacks.',
      followers.map((one) => sample(one.changes, one.name)),
    ],
  ];
  const common = { type: 'gauge', aggregator: 'sum' } as const;
  return gauges.map(([name, help, values]) => ({ ...common, name: `rowan_replica_${name}`, help, values }));
}

type Labels = Readonly<Record<string, string | number>>;

interface Sample {
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
interface Metric {
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
const METRICS: readonly Metric[] = [
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
