/** npm run bench -- flame: the profile of a server that answers (uid=x), as a flame graph. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { flameSvg } from './flame-svg.mjs';
import { Profiled } from './profiled.mjs';
import { loadRows } from './rows.mjs';

const USAGE = `npm run bench -- flame [options]
  --entries N      people to load (100000)
  --seconds N      length of the load (5)
  --profile FILE   draw this V8 profile instead of making one
  --out FILE       the picture (docs/lab/flamegraph-search.svg)
Environment: ROWAN_BENCH_PROGRAM is measured instead of scripts/rowan.cjs.
`;

const DEPTH = 16;

export async function main(root, args) {
  const { values } = parseArgs({
    args,
    options: {
      entries: { type: 'string', default: '100000' },
      seconds: { type: 'string', default: '5' },
      profile: { type: 'string' },
      out: { type: 'string', default: join(root, 'docs/lab/flamegraph-search.svg') },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const about = `(uid=x), 8 connections, ${DEPTH} in flight on each`;
  const taken = values.profile
    ? { profile: JSON.parse(readFileSync(values.profile, 'utf8')), from: 0, until: Number.POSITIVE_INFINITY }
    : await profileSearch(root, Number(values.entries), Number(values.seconds));
  const people = Number(values.entries).toLocaleString('en-US');
  const title = values.profile
    ? 'Profile'
    : `${about}, ${people} entries: ${Math.round(taken.ops).toLocaleString('en-US')}/s while profiled`;
  writeFileSync(values.out, flameSvg(taken, title));
  process.stdout.write(`${values.out}\n`);
}

async function profileSearch(root, entries, seconds) {
  const profiled = new Profiled(root, entries);
  profiled.load();
  return profiled.run(loadRows[0], { depth: DEPTH, seconds });
}
