/** npm run bench -- flame: the profile of a server that answers (uid=x), as a flame graph. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { flameSvg } from './flame-svg.mjs';
import { compileLoad, drive, makePeople } from './load.mjs';
import { Rowan } from './servers.mjs';

const USAGE = `npm run bench -- flame [options]
  --entries N      people to load (100000)
  --seconds N      length of the load (5)
  --profile FILE   draw this V8 profile instead of making one
  --out FILE       the picture (docs/flamegraph-search.svg)
Environment: ROWAN_BENCH_PROGRAM is measured instead of scripts/rowan.
`;

/** The first part of the load, in which functions are still being compiled, ms. */
const WARM_UP = 1500;
const CONNECTIONS = 8;
const DEPTH = 16;

/** Runs the load on a server that is profiled; the profile, and the microseconds of it that count. */
async function profileSearch(root, { entries, seconds }) {
  const folder = mkdtempSync(join(tmpdir(), 'rowan-flame-'));
  const rowan = new Rowan(join(folder, 'rowan'), root);
  process.once('exit', () => {
    rowan.process?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  rowan.rowan = process.env.ROWAN_BENCH_PROGRAM ?? rowan.rowan;
  const file = join(folder, 'people.ldif');
  makePeople(root, entries, file);
  rowan.load(file);
  rowan.nodeFlags = ['--cpu-prof', '--cpu-prof-interval=250', `--cpu-prof-dir=${folder}`];
  const spawned = performance.now();
  await rowan.start();
  const loaded = performance.now() - spawned;
  const args = ['-m', 'search', '-n', entries, '-c', CONNECTIONS, '-d', DEPTH, '-t', seconds];
  const { ops } = drive(root, rowan.port, args);
  await rowan.stop();
  const name = readdirSync(folder).find((file) => file.endsWith('.cpuprofile'));
  if (name === undefined) throw new Error('the server has left no profile');
  const profile = JSON.parse(readFileSync(join(folder, name), 'utf8'));
  const until = loaded + seconds * 1000;
  return { profile, from: (loaded + Math.min(WARM_UP, (seconds * 1000) / 2)) * 1000, until: until * 1000, ops };
}

export async function main(root, args) {
  const { values } = parseArgs({
    args,
    options: {
      entries: { type: 'string', default: '100000' },
      seconds: { type: 'string', default: '5' },
      profile: { type: 'string' },
      out: { type: 'string', default: join(root, 'docs/flamegraph-search.svg') },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  compileLoad(root);
  const about = `(uid=x), ${CONNECTIONS} connections, ${DEPTH} in flight on each`;
  const taken = values.profile
    ? { profile: JSON.parse(readFileSync(values.profile, 'utf8')), from: 0, until: Number.POSITIVE_INFINITY }
    : await profileSearch(root, { entries: values.entries, seconds: Number(values.seconds) });
  const people = Number(values.entries).toLocaleString('en-US');
  const title = values.profile
    ? 'Profile'
    : `${about}, ${people} entries: ${Math.round(taken.ops).toLocaleString('en-US')}/s while profiled`;
  writeFileSync(values.out, flameSvg(taken, title));
  process.stdout.write(`${values.out}\n`);
}
