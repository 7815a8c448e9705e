/** npm run bench -- profile: the time of the main thread by part of the program, for each row. */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { rowsToDrive } from './certificate.mjs';
import { describeMachine } from './machine.mjs';
import { Profiled } from './profiled.mjs';
import { formatRows } from './report.mjs';
import { loadRows } from './rows.mjs';
import { PARTS, sharesOf } from './shares.mjs';

const names = ['load', ...loadRows.map((row) => row.name)];

const USAGE = `npm run bench -- profile [options]
  --entries N      people to load (100000)
  --seconds N      length of each load (5)
  --only ROW,ROW   only these: ${names.join(', ')}
  --record         append to docs/lab/runs.md
Environment: ROWAN_BENCH_PROGRAM is measured instead of scripts/rowan.cjs.
`;

const HEADS = ['work', 'in flight', 'busy', 'µs', ...PARTS];

function line(title, depth, { profile, from, until, ops }) {
  const { busy, waiting, parts } = sharesOf(profile, from, until);
  const share = (part, whole) => `${Math.round((100 * part) / whole)} %`;
  const micros = (busy / ((busy + waiting) / 1e6) / ops).toFixed(busy / ops > 1e6 ? 0 : 1);
  return [title, depth, share(busy, busy + waiting), micros, ...PARTS.map((part) => share(parts.get(part) ?? 0, busy))];
}

export async function main(root, args) {
  const { values } = parseArgs({
    args,
    options: {
      entries: { type: 'string', default: '100000' },
      seconds: { type: 'string', default: '5' },
      only: { type: 'string' },
      record: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const only = values.only?.split(',') ?? names;
  const unknown = only.find((name) => !names.includes(name));
  if (unknown !== undefined) throw new Error(`no row is called ${unknown}; there are ${names.join(', ')}`);
  const [entries, seconds] = [Number(values.entries), Number(values.seconds)];
  const rows = rowsToDrive(
    loadRows.filter(({ name }) => only.includes(name)),
    (text) => process.stderr.write(`${text}\n`),
  );
  const profiled = new Profiled(
    root,
    entries,
    rows.some((row) => row.tls),
  );
  const lines = [];
  const add = (cells) => {
    lines.push(cells);
    process.stderr.write(`${cells.join(' | ')}\n`);
  };
  const loaded = profiled.load();
  if (only.includes('load')) add(line('bulk load', '', loaded));
  if (only.includes('middle')) profiled.rowan.addMiddleIndex();
  let first = entries;
  for (const row of rows) {
    for (const depth of row.depths) {
      add(line(row.title, String(depth), await profiled.run(row, { depth, seconds, first })));
      first += 10_000_000;
    }
  }
  const table = formatRows([HEADS, ...lines]);
  process.stdout.write(`\n${table}\n`);
  const command = ['npm run bench -- profile', ...args].join(' ');
  if (values.record) appendFileSync(join(root, 'docs/lab/runs.md'), recorded(describeMachine(root), command, table));
}

function recorded(machine, command, table) {
  return `
## Where the time goes: ${machine.date}, commit ${machine.commit}

${machine.cores} cores of ${machine.cpu}, ${machine.memoryGiB} GiB, Linux ${machine.kernel}, Node ${machine.node}.
\`${command}\`: the main thread while it is profiled, which takes time itself; 8 connections. \`busy\`: of the time, the
rest is waiting. \`µs\`: busy, an operation (of prefix searches a search, not an entry). The rest of a line adds up to the busy time.

${table}
`;
}
