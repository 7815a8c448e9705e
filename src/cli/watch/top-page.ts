import { printable } from '../../server/words/printable.js';
import { formatNumber } from '../exit.js';
import type { TopFigures } from './top-figures.js';

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
