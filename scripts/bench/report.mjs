import { appendFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

const FORMATS = {
  rate: (value) => `${Math.round(value).toLocaleString('en-US')}/s`,
  seconds: (value) => `${value.toFixed(2)} s`,
  milliseconds: (value) => `${value.toFixed(0)} ms`,
  bytes: (value) => `${(value / 2 ** 20).toFixed(0)} MiB`,
};

/** Returns how many times better Rowan is. For a rate more is better, for other units less. */
export function ratio(result) {
  if (result.rowan === undefined || result.other === undefined) return undefined;
  return result.unit === 'rate' ? result.rowan / result.other : result.other / result.rowan;
}

function cells(result) {
  const show = (value) => (value === undefined ? '–' : FORMATS[result.unit](value));
  const p99 = (value) => (value === undefined ? '' : value.toFixed(2));
  const times = ratio(result);
  return [
    result.title,
    result.depth === undefined ? '' : String(result.depth),
    show(result.rowan),
    show(result.other),
    times === undefined ? '–' : times.toFixed(2),
    p99(result.rowanP99),
    p99(result.otherP99),
  ];
}

/** `other`: the server that Rowan is compared with. */
export function formatTable(results, other) {
  const heads = ['work', 'in flight', 'Rowan', other, 'ratio', 'p99 ms', `${other} p99 ms`];
  return formatRows([heads, ...results.map(cells)]);
}

/** Formats an aligned Markdown table. The first row has the headings. */
export function formatRows(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  const line = (row) =>
    `| ${row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join(' | ')} |`;
  const rule = `| ${widths.map((width, i) => (i === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`)).join(' | ')} |`;
  return [line(rows[0]), rule, ...rows.slice(1).map(line)].join('\n');
}

/** Appends the run to the page. Creates a missing page. */
export function record(file, { machine, run, results }) {
  if (!existsSync(file)) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, '# Recorded runs\n');
  }
  const beside = run.against ?? (machine.slapd === undefined ? 'no slapd' : `slapd ${machine.slapd}`);
  appendFileSync(
    file,
    `
## ${machine.date}, ${run.entries.toLocaleString('en-US')} entries, commit ${machine.commit}

${machine.cores} cores of ${machine.cpu}, ${machine.memoryGiB} GiB, Linux ${machine.kernel}, Node ${machine.node}, ${beside}.
\`${run.command}\`:
${run.turns} turns of ${run.seconds} s, medians, 8 connections; a ratio above 1 means that Rowan is better.

${formatTable(results, run.against === undefined ? 'slapd' : 'before')}
`,
  );
}
