/** npm run bench -- scale: how costs grow with the number of entries. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Client } from 'ldapts';
import { compileLoad, drive, driveBeside } from './load.mjs';
import { describeMachine } from './machine.mjs';
import { median } from './report.mjs';
import { ADMIN, BASE, CONNECTIONS } from './rows.mjs';
import { recordScale, scaleTable, shown } from './scale-report.mjs';
import { Rowan } from './servers.mjs';

const SIZES = [10_000, 100_000, 1_000_000, 10_000_000];
/** Disk space in bytes for a person during a load, with a reserve. */
const BYTES_A_PERSON = 2000;
const MEMBERS = 100_000;
const GROUP = `cn=group,${BASE}`;
/** First number of new people and members, so that numbers do not collide. */
const FIRST_NEW = 100_000_000;

const USAGE = `npm run bench -- scale [options]
  --sizes N,N      people to load, one directory after another (${SIZES.join(',')})
  --seconds N      length of each measurement (3)
  --folder DIR     where the directories are made (${tmpdir()})
  --record         append the table to docs/lab/runs.md
Environment: ROWAN_BENCH_PROGRAM is measured instead of scripts/rowan.cjs.
`;

function readOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      sizes: { type: 'string', default: SIZES.join(',') },
      seconds: { type: 'string', default: '3' },
      folder: { type: 'string', default: tmpdir() },
      record: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  const sizes = values.sizes.split(',').map(Number);
  const seconds = Number(values.seconds);
  if (!sizes.every((size) => Number.isSafeInteger(size) && size >= 10) || !(seconds > 0))
    throw new Error('--sizes needs numbers from 10 up and --seconds a number above 0');
  return { ...values, sizes, seconds };
}

function checkDisk({ sizes, folder }) {
  const { bavail, bsize } = statfsSync(folder);
  const needed = Math.max(...sizes) * BYTES_A_PERSON;
  if (bavail * bsize < needed)
    throw new Error(`${folder} has ${bavail * bsize} bytes free and ${needed} are needed; choose --sizes or --folder`);
}

const people = [
  ['(uid=x), all attributes', ['-m', 'search']],
  ['modify, durable', ['-m', 'modify']],
  ['add, durable', ['-m', 'add']],
];

const grouped = [
  ['test one of 100,000 members', ['-m', 'compare', '-a', 'member', '-f', GROUP]],
  ['(member=x), of the group its cn', ['-m', 'search', '-a', 'member', '-r', 'cn', '-b', BASE]],
  ['(member=x), the whole group', ['-m', 'search', '-a', 'member', '-b', BASE]],
  ['add one member to 100,000', ['-m', 'grow', '-a', 'member', '-f', GROUP, '-s', FIRST_NEW]],
];

/** All measurements of one directory. */
class Directory {
  results = new Map();

  constructor(root, folder, size, seconds) {
    this.root = root;
    this.size = size;
    this.seconds = seconds;
    this.folder = folder;
    this.rowan = new Rowan(folder, root);
    this.rowan.rowan = process.env.ROWAN_BENCH_PROGRAM ?? this.rowan.rowan;
  }

  add(title, unit, value) {
    this.results.set(title, { unit, value });
    process.stderr.write(`${this.size}  ${title}  ${shown({ unit, value })}\n`);
  }

  async measure() {
    this.load();
    this.loadGroup();
    const starts = [];
    for (let i = 0; i < 3; i++) {
      await this.rowan.stop();
      starts.push(await this.rowan.start());
    }
    this.add('start until a bind is answered', 'ms', median(starts));
    const first = drive(this.root, this.rowan.port, ['-m', 'search', '-n', this.size, '-c', 1, '-t', this.seconds]);
    this.add('(uid=x), what the load has left in memory: median', 'ms', first.p50_ms);
    this.add('rowan warm', 's', this.rowan.run('warm', '--data', this.rowan.data));
    for (const [title, args] of people) this.drivePeople(title, args);
    await this.searchBesideScans();
    await this.rename();
    this.add('memory outside the page cache, afterwards', 'MiB', this.rowan.memory() / 2 ** 20);
    for (const [title, args] of grouped) this.driveGroup(title, args);
    this.add('the same with the group', 'MiB', this.rowan.memory() / 2 ** 20);
    await this.rowan.stop();
  }

  /** Loads through a pipe: the people are made while they are read. */
  load() {
    const { rowan } = this;
    rowan.empty();
    rowan.run('init', '--data', rowan.data, '--suffix', BASE, '--admin-dn', ADMIN);
    const script = '"$0" "$1" "$2" | "$0" "$3" import --data "$4" -';
    const args = [
      '-c',
      script,
      process.execPath,
      join(this.root, 'scripts/people.mjs'),
      this.size,
      rowan.rowan,
      rowan.data,
    ];
    const start = performance.now();
    const run = spawnSync('sh', args.map(String), { encoding: 'utf8', maxBuffer: 2 ** 26 });
    const seconds = (performance.now() - start) / 1000;
    const loaded = Number(/loaded ([\d,]+) entries/.exec(run.stdout + run.stderr)?.[1].replaceAll(',', ''));
    if (run.status !== 0 || loaded !== this.size + 2) throw new Error(`loading failed:\n${run.stdout}${run.stderr}`);
    this.add('bulk load', '/s', loaded / seconds);
    const bytes = readdirSync(rowan.data).reduce((sum, name) => sum + allocated(join(rowan.data, name)), 0);
    this.add('disk an entry', 'bytes', bytes / loaded);
  }

  loadGroup() {
    const file = join(this.folder, 'group.ldif');
    const members = Array.from({ length: MEMBERS }, (_, i) => `member: uid=user.${i},ou=people,${BASE}`);
    writeFileSync(file, `dn: ${GROUP}\nobjectClass: groupOfNames\ncn: group\n${members.join('\n')}\n`);
    this.add('load of a group with 100,000 members', 's', this.rowan.run('import', '--data', this.rowan.data, file));
  }

  get admin() {
    return ['-D', ADMIN, '-W', this.rowan.password];
  }

  /** Measures the median of one client with one request at a time, and the rates of eight clients. */
  drivePeople(title, args) {
    const writes = title.includes('durable');
    const turn = (connections, depth, numbers) => {
      const load = [...args, '-n', this.size, '-c', connections, '-d', depth, '-t', this.seconds];
      if (writes) load.push(...this.admin, '-s', FIRST_NEW + numbers * 10_000_000);
      return drive(this.root, this.rowan.port, load);
    };
    this.add(`${title}: median, one client`, 'ms', turn(1, 1, 0).p50_ms);
    this.add(`${title}: rate, 1 in flight`, '/s', turn(CONNECTIONS, 1, 1).ops);
    this.add(`${title}: rate, 16 in flight`, '/s', turn(CONNECTIONS, 16, 2).ops);
  }

  driveGroup(title, args) {
    const load = [...args, '-n', MEMBERS, '-c', 1, '-d', 1, '-t', this.seconds, '-v', `uid=user.%u,ou=people,${BASE}`];
    this.add(`${title}: median`, 'ms', drive(this.root, this.rowan.port, [...load, ...this.admin]).p50_ms);
  }

  /** Measures (uid=x) of one client while another searches everything without an index. */
  async searchBesideScans() {
    const { port } = this.rowan;
    const common = ['-n', this.size, '-c', 1, '-d', 1];
    const scans = driveBeside(this.root, port, ['-m', 'unindexed', '-e', -1, '-t', this.seconds + 1, ...common]);
    const beside = driveBeside(this.root, port, ['-m', 'search', '-t', this.seconds, ...common]);
    const { p50_ms, p99_ms } = await beside();
    await scans();
    this.add('(uid=x) beside unindexed scans: median', 'ms', p50_ms);
    this.add('(uid=x) beside unindexed scans: p99', 'ms', p99_ms);
  }

  /** Renames the subtree of all people, and renames it back. */
  async rename() {
    const client = new Client({ url: `ldap://127.0.0.1:${this.rowan.port}` });
    await client.bind(ADMIN, this.rowan.password);
    const taken = [];
    for (const [from, to] of Array.from({ length: 10 }, () => [
      ['people', 'others'],
      ['others', 'people'],
    ]).flat()) {
      const start = performance.now();
      await client.modifyDN(`ou=${from},${BASE}`, `ou=${to}`);
      taken.push(performance.now() - start);
    }
    await client.unbind();
    this.add('rename of the subtree of all: median', 'ms', median(taken));
  }
}

/** Returns the bytes of a file that are allocated on disk. */
function allocated(file) {
  return statSync(file).blocks * 512;
}

export async function main(root, args) {
  if (args.includes('--help')) {
    process.stdout.write(USAGE);
    return;
  }
  const options = readOptions(args);
  checkDisk(options);
  compileLoad(root);
  const machine = describeMachine(root);
  const columns = [];
  let directory;
  let folder;
  const clear = () => {
    directory?.rowan.process?.kill('SIGKILL');
    if (folder) rmSync(folder, { recursive: true, force: true });
  };
  process.once('SIGINT', () => process.exit(130));
  process.once('exit', clear);
  for (const size of options.sizes) {
    folder = mkdtempSync(join(options.folder, 'rowan-scale-'));
    directory = new Directory(root, folder, size, options.seconds);
    await directory.measure();
    columns.push({ size, results: directory.results });
    clear();
  }
  const command = ['npm run bench -- scale', ...args].join(' ');
  process.stdout.write(`\n${scaleTable(columns)}\n`);
  if (options.record) recordScale(join(root, 'docs/lab/runs.md'), { machine, command, columns });
}
