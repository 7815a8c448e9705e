/**
 * npm run bench -- history: how long a search as of a moment takes, what its change record costs a modify, and what a
 * backup costs the searches beside it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client, Control } from 'ldapts';
import { compileLoad, drive, makePeople } from './load.mjs';
import { cpuSeconds } from './machine.mjs';
import { formatRows, median } from './report.mjs';
import { ADMIN, BASE } from './rows.mjs';
import { Rowan } from './servers.mjs';

const USAGE = `npm run bench -- history [options]
  --entries N      people of the directory that is searched (100000)
  --changes N      changes since the moment (10000)
  --large N        people of the directory that is backed up (1000000)
  --turns N        turns of each kind, medians are taken (5)
  --seconds N      length of a turn (3)
  --only TEXT      only: search, modify, or backup
`;

/** The control of docs/formats/as-of.md. Its value is the moment, without BER. */
const AS_OF = '2.25.52069437446289482231917277112766022336.4.1';
/** People whom the modifications of a turn change. */
const MODIFIED = 2000;
const IN_FLIGHT = 16;
/** More than the time by which change records may be out of order. */
const LOAD_AGE_MS = 15_000;

export async function main(root, args) {
  const { values } = parseArgs({
    args,
    options: {
      entries: { type: 'string', default: '100000' },
      changes: { type: 'string', default: '10000' },
      large: { type: 'string', default: '1000000' },
      turns: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '3' },
      only: { type: 'string', default: '' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const { only, ...texts } = values;
  const numbers = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, Number(text)]));
  compileLoad(root);
  const folder = mkdtempSync(join(tmpdir(), 'rowan-history-'));
  const bench = new Bench(root, folder, numbers);
  process.once('SIGINT', () => process.exit(130));
  process.once('exit', () => {
    bench.server.process?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  for (const part of ['search', 'modify', 'backup']) if (part.includes(only)) await bench[part]();
}

class Bench {
  #root;
  #folder;
  #options;

  constructor(root, folder, options) {
    this.#root = root;
    this.#folder = folder;
    this.#options = options;
    this.server = new Rowan(join(folder, 'rowan'), root);
  }

  async #load(people) {
    const file = join(this.#folder, 'people.ldif');
    makePeople(this.#root, people, file);
    this.server.load(file);
    rmSync(file);
    await this.server.start();
  }

  /** A search of a few entries now, and as of the moment before the changes. */
  async search() {
    const { entries, changes, turns } = this.#options;
    await this.#load(entries);
    const { port, password } = this.server;
    // Records of the load that are hardly older than the moment would be read, too.
    await sleep(LOAD_AGE_MS);
    const moment = new Date().toISOString().replaceAll(/[-:T]/g, '');
    const write = ['-m', 'modify', '-n', entries, '-b', BASE, '-D', ADMIN, '-W', password, '-c', 1, '-d', 16];
    let done = 0;
    while (done < changes) done += drive(this.#root, port, [...write, '-t', 1]).ops;
    const client = new Client({ url: `ldap://127.0.0.1:${port}` });
    await client.bind(ADMIN, password);
    const control = new Control(AS_OF, { critical: true });
    control.writeControl = (writer) => writer.writeString(moment, 4);
    const rows = [];
    for (const filter of ['(uid=user.77)', '(sn=Sur77)', '(l=City7)']) {
      const now = [];
      const then = [];
      const busy = [];
      let count = 0;
      for (let turn = -1; turn < turns; turn++)
        for (const [times, controls] of [
          [now, []],
          [then, [control]],
        ]) {
          const before = cpuSeconds(this.server.process.pid);
          const begin = performance.now();
          const { searchEntries } = await client.search(`ou=people,${BASE}`, { filter }, controls);
          count = searchEntries.length;
          // The first turn warms the server.
          if (turn < 0) continue;
          times.push(performance.now() - begin);
          if (times === then) busy.push(1000 * (cpuSeconds(this.server.process.pid) - before));
        }
      const milliseconds = [now, then, busy].map((values) => `${median(values).toFixed(1)} ms`);
      rows.push([filter, String(count), ...milliseconds]);
      process.stderr.write(`${rows.at(-1).join('  ')}\n`);
    }
    await client.unbind();
    await this.server.stop();
    print([
      [`search, ${Math.round(done)} changes since`, 'entries', 'now', 'as of before them', 'processor time'],
      ...rows,
    ]);
  }

  /** Modifications whose change records are written, and such whose are left out of the plan, by the same process. */
  async modify() {
    const { turns, seconds } = this.#options;
    const module = (path) => import(join(this.#root, 'dist', path));
    const { change, openFixture, SUFFIX } = await module('test/partition/fixture.js');
    const fixture = await openFixture('lmdb');
    const { store } = fixture;
    const commit = store.commit.bind(store);
    let isRecorded = true;
    const isRecord = (step) => step.append !== undefined && step.table === 'changes';
    store.commit = (plan) =>
      commit(isRecorded ? plan : { ...plan, steps: plan.steps.filter((step) => !isRecord(step)) });
    await fixture.unit('people');
    for (let n = 0; n < MODIFIED; n++)
      await fixture.person(`p${n}`, `ou=people,${SUFFIX}`, { description: 'first', mail: `p${n}@example.com` });
    let number = 0;
    const turn = async (recorded) => {
      isRecorded = recorded;
      const before = process.cpuUsage();
      const end = performance.now() + seconds * 1000;
      let count = 0;
      const write = async () => {
        for (; performance.now() < end; count++)
          await fixture.modify(
            `cn=p${number++ % MODIFIED},ou=people,${SUFFIX}`,
            change('replace', 'description', `text ${number}`),
          );
      };
      await Promise.all(Array.from({ length: IN_FLIGHT }, write));
      const { user, system } = process.cpuUsage(before);
      return { rate: count / seconds, micros: (user + system) / count };
    };
    const costs = [];
    for (let n = -1; n < turns; n++) {
      const order = n % 2 === 0 ? [true, false] : [false, true];
      const pair = {};
      for (const recorded of order) pair[recorded] = await turn(recorded);
      if (n >= 0)
        costs.push({ rate: 1 - pair.true.rate / pair.false.rate, cpu: pair.true.micros / pair.false.micros - 1 });
    }
    await fixture.close();
    const cell = (key) => percent(costs.map((cost) => cost[key]));
    print([
      ['modify, its change record costs', 'of the rate', 'more processor time'],
      [`${IN_FLIGHT} in flight, durable`, cell('rate'), cell('cpu')],
    ]);
  }

  /** Searches alone, and beside a backup, in turn. */
  async backup() {
    const { large, turns, seconds } = this.#options;
    await this.#load(large);
    const search = ['-m', 'search', '-n', large, '-b', BASE, '-c', 8, '-d', 16, '-t', seconds];
    const rate = () => drive(this.#root, this.server.port, search).ops;
    const losses = [];
    const durations = [];
    rate();
    for (let turn = 0; turn < turns; turn++) {
      const to = join(this.#folder, `backup${turn}`);
      const before = rate();
      const begin = performance.now();
      const child = spawn(this.server.rowan, ['backup', '--data', this.server.data, '--to', to], { stdio: 'inherit' });
      let seconds;
      const ended = once(child, 'exit').then(() => {
        seconds = (performance.now() - begin) / 1000;
      });
      const rates = [];
      // `drive` blocks this process: what it measures counts if the backup had not ended behind it.
      for (; !existsSync(to); await new Promise(setImmediate)) {
        const beside = rate();
        if (!existsSync(to) || rates.length === 0) rates.push(beside);
      }
      await ended;
      if (child.exitCode !== 0) throw new Error('the backup failed');
      durations.push(seconds);
      losses.push(1 - median(rates) / ((before + rate()) / 2));
      process.stderr.write(`backup ${seconds.toFixed(1)} s, searches lose ${percent(losses.slice(-1))}\n`);
      rmSync(to, { recursive: true });
    }
    await this.server.stop();
    print([
      [`backup of ${large} people`, 'seconds beside searches', 'searches lose'],
      ['rowan backup', median(durations).toFixed(1), percent(losses)],
    ]);
  }
}

/** The median, and the least and the greatest value. */
function percent(values) {
  const format = (value) => `${(100 * value).toFixed(1)} %`;
  if (values.length === 1) return format(values[0]);
  return `${format(median(values))} (${format(Math.min(...values))} to ${format(Math.max(...values))})`;
}

function print(rows) {
  process.stdout.write(`\n${formatRows(rows)}\n`);
}
