import { appendFileSync } from 'node:fs';
import { formatRows } from './report.mjs';

/** Formats a figure with its unit. */
export function shown({ unit, value }) {
  const digits = unit === '/s' || unit === 'bytes' || unit === 'MiB' || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  const number = value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return unit === '/s' ? `${number}/s` : `${number} ${unit}`;
}

/**
 * Formats a Markdown table: a line for each measurement, a column for each size, and the ratio of the last to the
 * first.
 */
export function scaleTable(columns) {
  const titles = [...columns[0].results.keys()];
  const heads = ['work', ...columns.map(({ size }) => size.toLocaleString('en-US')), 'last ÷ first'];
  const lines = titles.map((title) => {
    const cells = columns.map(({ results }) => results.get(title));
    const times = cells.at(-1).value / cells[0].value;
    return [title, ...cells.map(shown), times.toFixed(2)];
  });
  return formatRows([heads, ...lines]);
}

export function recordScale(file, { machine, command, columns }) {
  appendFileSync(
    file,
    `
## How cost grows: ${machine.date}, commit ${machine.commit}

${machine.cores} cores of ${machine.cpu}, ${machine.memoryGiB} GiB, Linux ${machine.kernel}, Node ${machine.node}.
\`${command}\`: people loaded through a pipe while they are made, 8 connections.

${scaleTable(columns)}
`,
  );
}
