import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { AggregatorRegistry } from 'prom-client';
import { reportFollowers, secondsBehind } from '../../replica/report.js';
import type { Counts } from '../../server/processes/statistics.js';
import { VERSION } from '../../server/words/version.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { DATA_FILE } from '../../store/lmdb/file/data-file.js';
import type { Settings } from '../options.js';
import type { HealthSource } from './health.js';
import { METRICS, type Metric, type Sample } from './metrics-table.js';
import type { Route } from './route.js';

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
