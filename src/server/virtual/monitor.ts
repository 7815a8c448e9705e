import { SUBSCHEMA_DN } from '../entry/computed.js';
import type { Siblings } from '../processes/siblings.js';
import { type Counts, type Statistics, sumCounts } from '../processes/statistics.js';
import { chain, type Maybe } from '../words/maybe.js';
import { VENDOR, VERSION } from '../words/version.js';
import { generalizedTime } from './subschema.js';
import type { VirtualAttributes } from './virtual-attributes.js';

/** Attributes of cn=Monitor: figures of all processes together, then of each process. */
export function monitorAttributes(statistics: Statistics, siblings: Siblings | undefined): Maybe<VirtualAttributes> {
  const ownCounts = statistics.counts();
  if (!siblings || siblings.isAlone) return monitorEntry(ownCounts, figures(ownCounts));
  return chain(siblings.ask({ about: 'counts' }), (answers) => {
    const otherCounts = answers.flatMap(({ counts }) => counts ?? []);
    const workers = [ownCounts, ...otherCounts]
      .filter(({ workerNumber: worker }) => worker > 0)
      .sort((a, b) => a.workerNumber - b.workerNumber);
    const total = sumCounts([ownCounts, ...otherCounts]);
    return monitorEntry(total, [
      ...figures(total),
      `worker: ${ownCounts.workerNumber}`,
      ...workers.flatMap(workerFigures),
    ]);
  });
}

function figures(counts: Counts): string[] {
  return [
    `uptimeSeconds: ${Math.floor((Date.now() - counts.startedAt) / 1000)}`,
    `connectionsCurrent: ${counts.connectionsCurrent}`,
    `connectionsTotal: ${counts.connectionsTotal}`,
    `connectionsRefused: ${counts.connectionsRefused}`,
    `entriesSent: ${counts.entriesSent}`,
    `memoryBytes: ${counts.memoryBytes}`,
    ...Object.entries(counts.operations).map(([name, count]) => `operations.${name}: ${count}`),
  ];
}

function workerFigures({ workerNumber: worker, pid, memoryBytes, connectionsCurrent, operations }: Counts): string[] {
  const operationCount = Object.values(operations).reduce((total, count) => total + count, 0);
  return [
    `worker.${worker}.pid: ${pid}`,
    `worker.${worker}.connectionsCurrent: ${connectionsCurrent}`,
    `worker.${worker}.memoryBytes: ${memoryBytes}`,
    `worker.${worker}.operations: ${operationCount}`,
  ];
}

/** Puts each figure into a value of `description`, `name: number`, which clients show by default. */
function monitorEntry({ startedAt }: Counts, figures: readonly string[]): VirtualAttributes {
  const time = generalizedTime(new Date(startedAt));
  return [
    ['objectClass', ['top', 'monitor', 'monitorServer', 'extensibleObject']],
    ['cn', ['Monitor']],
    ['description', [`version: ${VERSION}`, ...figures]],
    ['monitoredInfo', [`${VENDOR} ${VERSION}`]],
    ['monitorTimestamp', [time]],
    ['createTimestamp', [time]],
    ['entryDN', ['cn=Monitor']],
    ['subschemaSubentry', [SUBSCHEMA_DN]],
    ['structuralObjectClass', ['monitorServer']],
    ['hasSubordinates', ['TRUE']],
  ];
}
