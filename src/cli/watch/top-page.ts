import type { BusyClient, SlowSearch, TopSample } from '../../server/processes/siblings.js';
import { countEnded, OPS } from '../../server/processes/statistics.js';
import { printable } from '../../server/words/printable.js';
import { formatNumber } from '../exit.js';

/** Figures of all processes over one interval. */
export type TopFigures = ReturnType<typeof figuresBetween>;

const MAX_ROWS = 10;

/**
 * Compares two samples of each process. Processes without an earlier sample are left out. Returns operations, entries,
 * bytes, and the operations and work of clients per second; `seconds` is the length of the interval.
 */
export function figuresBetween(earlier: readonly TopSample[], later: readonly TopSample[]) {
  const pairs = later.flatMap((sample) => {
    const before = earlier.find(({ counts }) => counts.pid === sample.counts.pid);
    return before && sample.counts.takenAt > before.counts.takenAt ? [{ before, sample }] : [];
  });
  const milliseconds = Math.max(1, ...pairs.map(({ before, sample }) => sample.counts.takenAt - before.counts.takenAt));
  const seconds = milliseconds / 1000;
  const gained = (read: (sample: TopSample) => number): number =>
    pairs.reduce((sum, { before, sample }) => sum + read(sample) - read(before), 0);
  const kinds = OPS.map((op) => {
    const count = gained(({ counts }) => countEnded(counts.ended[op]));
    const workMs = gained(({ counts }) => counts.ended[op].workMs);
    const highestMs = Math.max(0, ...pairs.map(({ sample }) => sample.highestMs[op] ?? 0));
    return { op, perSecond: count / seconds, meanMs: count === 0 ? 0 : workMs / count, highestMs };
  });
  return {
    seconds,
    connections: later.reduce((sum, { counts }) => sum + counts.connectionsCurrent, 0),
    operations: kinds.reduce((sum, { perSecond }) => sum + perSecond, 0),
    entriesSent: gained(({ counts }) => counts.entriesSent) / seconds,
    bytesSent: gained(({ counts }) => counts.bytesSent) / seconds,
    kinds: kinds.filter(({ perSecond }) => perSecond > 0).sort((a, b) => b.perSecond - a.perSecond),
    workers: pairs.map(workerFigures).sort((a, b) => a.worker - b.worker),
    slowSearches: slowestByShape(later),
    clients: busiestClients(later, seconds),
  };
}

/** `worker` is 0 for a single process. `busyShare` is the share of the time in which the event loop was busy. */
function workerFigures({ before, sample }: { before: TopSample; sample: TopSample }) {
  const { workerNumber: worker, pid, connectionsCurrent: connections, memoryBytes, busyMs } = sample.counts;
  const share = (busyMs - before.counts.busyMs) / (sample.counts.takenAt - before.counts.takenAt);
  return { worker, pid, connections, busyShare: Math.min(1, share), memoryBytes };
}

function slowestByShape(samples: readonly TopSample[]): SlowSearch[] {
  const searches = samples.flatMap(({ slowSearches }) => slowSearches).sort((a, b) => b.workMs - a.workMs);
  const isFirst = (search: SlowSearch, i: number) => searches.findIndex(({ shape }) => shape === search.shape) === i;
  return searches.filter(isFirst).slice(0, MAX_ROWS);
}

function busiestClients(samples: readonly TopSample[], seconds: number): BusyClient[] {
  const clients = new Map<string, BusyClient>();
  for (const client of samples.flatMap((sample) => sample.clients)) {
    const key = `${client.address} ${client.boundAs}`;
    const known = clients.get(key) ?? { operationCount: 0, workMs: 0 };
    const operationCount = known.operationCount + client.operationCount / seconds;
    clients.set(key, { ...client, operationCount, workMs: known.workMs + client.workMs / seconds });
  }
  return [...clients.values()].sort((a, b) => b.operationCount - a.operationCount).slice(0, MAX_ROWS);
}

/** Formats the figures as lines for a terminal, with control characters escaped. */
export function formatTop(figures: TopFigures, title: string): string[] {
  const { connections, operations, entriesSent, bytesSent, kinds, workers, slowSearches, clients } = figures;
  const sent = `${rate(entriesSent)} entries/s, ${rate(bytesSent / 1024)} KiB/s sent`;
  return [
    `${title}: ${connections} connections, ${rate(operations)} operations/s, ${sent}`,
    ...table(
      { OPERATION: 12, 'PER SECOND': -11, 'MEAN MS': -10, 'HIGHEST MS': -11 },
      kinds.map(({ op, perSecond, meanMs, highestMs }) => [
        op,
        rate(perSecond),
        meanMs.toFixed(2),
        highestMs.toFixed(2),
      ]),
    ),
    ...table(
      { WORKER: 7, PID: -9, CONNECTIONS: -12, BUSY: -7, MEMORY: -10 },
      workers.map(({ worker, pid, connections: open, busyShare, memoryBytes }) => {
        return [worker || 1, pid, open, `${Math.round(busyShare * 100)} %`, `${Math.round(memoryBytes / 2 ** 20)} MiB`];
      }),
    ),
    ...table(
      { CLIENT: 24, 'PER SECOND': -11, 'MS/S': -8, '  BOUND AS': 10 },
      clients.map(({ address = 'local socket', boundAs, operationCount, workMs }) => {
        return [printable(address), rate(operationCount), workMs.toFixed(1), `  ${printable(boundAs) || 'anonymous'}`];
      }),
    ),
    ...table(
      { 'SLOWEST SEARCHES': 18, MS: -8, 'LOOKED AT': -10, SENT: -8, '  FILTER, BASE, ADVICE': 10 },
      slowSearches.map(({ plan, workMs, rowsExamined, entryCount, shape, base, scope, advice }) => {
        const text = `  ${printable(shape)} ${scope} ${printable(base)}${advice ? `; ${printable(advice)}` : ''}`;
        return [printable(plan), workMs.toFixed(1), formatNumber(rowsExamined), formatNumber(entryCount), text];
      }),
    ),
  ];
}

function rate(perSecond: number): string {
  return perSecond >= 10 ? formatNumber(Math.round(perSecond)) : perSecond.toFixed(1);
}

/** Returns an empty line, the heads, and the rows. `widths`: those of the columns by head; negative: right-aligned. */
function table(widths: Readonly<Record<string, number>>, rows: readonly (readonly (string | number)[])[]): string[] {
  const columns = Object.values(widths);
  const align = (text: string, width: number): string => (width < 0 ? text.padStart(-width) : text.padEnd(width));
  const lines = [Object.keys(widths), ...rows].map((cells) => cells.map((cell, i) => align(String(cell), columns[i]!)));
  return ['', ...lines.map((texts) => texts.join('').trimEnd())];
}
