import { printable } from '../../server/words/printable.js';
import { formatNumber } from '../exit.js';
import type { TopFigures } from './top-figures.js';

/** Formats the figures as lines for a terminal, with control characters escaped. */
export function formatTop(figures: TopFigures, title: string): string[] {
  const { connections, operations, entriesSent, bytesSent, kinds, workers, slowSearches, clients } = figures;
  const sent = `${rate(entriesSent)} entries/s, ${rate(bytesSent / 1024)} KiB/s sent`;
  return [
    `${title}: ${connections} connections, ${rate(operations)} operations/s, ${sent}`,
    '',
    row(['OPERATION', 12], ['PER SECOND', -11], ['MEAN MS', -10], ['HIGHEST MS', -11]),
    ...kinds.map(({ op, perSecond, meanMs, highestMs }) =>
      row([op, 12], [rate(perSecond), -11], [meanMs.toFixed(2), -10], [highestMs.toFixed(2), -11]),
    ),
    '',
    row(['WORKER', 7], ['PID', -9], ['CONNECTIONS', -12], ['BUSY', -7], ['MEMORY', -10]),
    ...workers.map(({ worker, pid, connections: open, busyShare, memoryBytes }) =>
      row(
        [String(worker || 1), 7],
        [String(pid), -9],
        [String(open), -12],
        [`${Math.round(busyShare * 100)} %`, -7],
        [`${Math.round(memoryBytes / 2 ** 20)} MiB`, -10],
      ),
    ),
    '',
    row(['CLIENT', 24], ['PER SECOND', -11], ['MS/S', -8], ['  BOUND AS', 10]),
    ...clients.map(({ address, boundAs, operationCount, workMs }) =>
      row(
        [printable(address ?? 'local socket'), 24],
        [rate(operationCount), -11],
        [workMs.toFixed(1), -8],
        [`  ${printable(boundAs) || 'anonymous'}`, 10],
      ),
    ),
    '',
    row(['SLOWEST SEARCHES', 18], ['MS', -8], ['LOOKED AT', -10], ['SENT', -8], ['  FILTER, BASE, ADVICE', 10]),
    ...slowSearches.map(({ plan, workMs, rowsExamined, entryCount, shape, base, scope, advice }) =>
      row(
        [printable(plan), 18],
        [workMs.toFixed(1), -8],
        [formatNumber(rowsExamined), -10],
        [formatNumber(entryCount), -8],
        [`  ${printable(shape)} ${scope} ${printable(base)}${advice ? `; ${printable(advice)}` : ''}`, 10],
      ),
    ),
  ];
}

function rate(perSecond: number): string {
  return perSecond >= 10 ? formatNumber(Math.round(perSecond)) : perSecond.toFixed(1);
}

/** A line of texts with their widths; a negative width: right-aligned. */
function row(...cells: readonly (readonly [text: string, width: number])[]): string {
  return cells
    .map(([text, width]) => (width < 0 ? text.padStart(-width) : text.padEnd(width)))
    .join('')
    .trimEnd();
}
