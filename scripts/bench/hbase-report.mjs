import { appendFileSync } from 'node:fs';
import { formatRows } from './report.mjs';

const rate = (value) => (value === undefined ? '' : `${Math.round(value).toLocaleString('en-US')}/s`);
const digits = (value, count) => (value === undefined ? '' : value.toFixed(count));

const HEADS = [
  'work',
  'in flight',
  'wanted',
  'Rowan',
  'of wanted',
  'p99 ms',
  'requests',
  'front end µs',
  'HBase µs',
  'load µs',
  'busy',
];

function cells({ title, depth, wanted, frontEnds, rate: reached, p99, requests, front, hbase, load, busy }) {
  return [
    frontEnds > 1 ? `${title}, ${frontEnds} front ends` : title,
    depth === undefined ? '' : String(depth),
    rate(wanted),
    rate(reached),
    wanted === undefined ? '' : digits(reached / wanted, 2),
    digits(p99, 2),
    digits(requests, 2),
    front.map((one) => digits(one, 0)).join(' + '),
    digits(hbase, 0),
    digits(load, 0),
    digits(busy, 2),
  ];
}

export function rowLine(row) {
  return formatRows([HEADS, cells(row)])
    .split('\n')
    .at(-1);
}

function rpcTable(rpc) {
  const lines = rpc.map((one) => [
    one.name,
    String(one.callers),
    rate(one.rate),
    digits(one.client, 1),
    digits(one.hbase, 1),
  ]);
  return formatRows([['HBase client alone', 'callers', 'rate', 'client µs', 'HBase µs'], ...lines]);
}

/** Compares each rate of two front ends with the rate of one front end measured just before. */
function ratios(rows) {
  return rows.flatMap((row, i) => {
    if (row.frontEnds < 2) return [];
    const { rate: one } = rows[i - 1];
    return [`Two front ends against one, ${row.title}: ${digits(row.rate / one, 2)} times.`];
  });
}

export function hbaseTables({ rows, rpc }) {
  const parts = [formatRows([HEADS, ...rows.map(cells)])];
  if (rpc.length > 0) parts.push(rpcTable(rpc));
  const compared = ratios(rows);
  if (compared.length > 0) parts.push(compared.join('\n'));
  return parts.join('\n\n');
}

export function recordHBase(file, { machine, command, run }) {
  const { entries, turns, seconds, memory } = run.options;
  appendFileSync(
    file,
    `
## On HBase: ${machine.date}, ${entries.toLocaleString('en-US')} entries, commit ${machine.commit}

${machine.cores} cores of ${machine.cpu}, ${machine.memoryGiB} GiB, Linux ${machine.kernel}, Node ${machine.node}; HBase in one JVM with ${memory} of heap on the same cores.
\`${command}\`: ${turns} turns of ${seconds} s, medians, 8 connections; \`alone\` is one connection with one request at a time. Tables
flushed after the load. \`requests\`: to HBase, an operation. \`µs\`: processor time an operation. \`busy\`: processors that all processes of the
machine kept busy.

${hbaseTables(run)}
`,
  );
}
