/**
 * npm run bench -- replica: what a log, a replica and consumers of content synchronization cost the writes of a
 * primary, and how many changes a second a replica follows.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Client } from 'ldapts';
import { compileLoad, drive, makePeople } from './load.mjs';
import { cpuSeconds } from './machine.mjs';
import { formatRows, median } from './report.mjs';
import { ADMIN, BASE } from './rows.mjs';
import { Rowan } from './servers.mjs';

const USAGE = `npm run bench -- replica [options]
  --entries N      people to load (20000)
  --turns N        turns of each server, medians of ratios are taken (5)
  --seconds N      length of a turn (2)
  --consumers N    consumers of content synchronization (10)
  --as DN          whom the consumers bind as: a person, or the administrator (${ADMIN})
  --backlog N      changes that a replica catches up (20000)
  --only TEXT      only the rows whose names contain the text
`;

const WORKS = { modify: ['-m', 'modify'], add: ['-m', 'add'] };
/** Writes before the turns of a row: V8 compiles meanwhile, in threads that count as the server's. */
const WARM_WRITES = 6000;
/** Numbers reserved for each turn that adds people. */
const NEW_A_TURN = 1_000_000;
/** The passwords of people.mjs. */
const PERSON_PASSWORD = 'password';

/** A primary, or a replica once it follows one, with a listener for replicas. */
class Machine extends Rowan {
  constructor(folder, name, root) {
    super(join(folder, name), root);
    this.socketUrl = `ldapi://${encodeURIComponent(join(folder, `${name}.sock`))}`;
    this.flags = ['--listen', this.socketUrl];
    this.passwordFile = join(folder, `${name}.password`);
  }

  grant(replica) {
    this.run('replica', 'grant', 'second', '--data', this.data, '--password-file', replica.passwordFile);
  }

  follow(primary) {
    this.empty();
    const access = ['--of', primary.socketUrl, '--name', 'second', '--password-file', this.passwordFile];
    this.run('replica', 'init', '--data', this.data, ...access);
  }

  async read(dn, attribute) {
    const { searchEntries } = await this.client.search(dn, { scope: 'base', attributes: [attribute] });
    return String(searchEntries[0][attribute]);
  }

  /** Binds here, so that no turn has the cost of a bind. */
  async start() {
    await super.start();
    this.client = new Client({ url: `ldap://127.0.0.1:${this.port}` });
    await this.client.bind(ADMIN, this.password);
  }

  async stop() {
    await this.client?.unbind();
    this.client = undefined;
    await super.stop();
  }

  /** Number of its last change. */
  async position() {
    return Number(/change (\d+)/.exec(await this.read('cn=Replication,cn=Monitor', 'description'))[1]);
  }
}

/** Consumers of a primary, while they follow. */
class Consumers {
  constructor(primary, { consumers, as }) {
    this.primary = primary;
    const password = as === ADMIN ? primary.password : PERSON_PASSWORD;
    this.args = [consumers, as, password].map(String);
  }

  async start() {
    const csn = await this.primary.read(BASE, 'contextCSN');
    const program = fileURLToPath(new URL('sync-consumers.mjs', import.meta.url));
    this.process = fork(program, [String(this.primary.port), ...this.args, csn]);
    this.process.once('exit', (code) => {
      if (code) throw new Error('the consumers have failed');
    });
    await once(this.process, 'message');
  }

  /** Resolves when all consumers have all changes. */
  async level() {
    const csn = await this.primary.read(BASE, 'contextCSN');
    for (let last = ''; last < csn; await sleep(5)) {
      const answer = once(this.process, 'message');
      this.process.send('tell');
      last = (await answer)[0].csn;
    }
  }

  async stop() {
    const ended = once(this.process, 'exit');
    this.process.disconnect();
    await ended;
  }
}

export async function main(root, args) {
  const { values } = parseArgs({
    args,
    options: {
      entries: { type: 'string', default: '20000' },
      turns: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '2' },
      consumers: { type: 'string', default: '10' },
      as: { type: 'string', default: ADMIN },
      backlog: { type: 'string', default: '20000' },
      only: { type: 'string', default: '' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  compileLoad(root);
  const bench = new Bench(root, values);
  try {
    await bench.run();
  } finally {
    await bench.close();
  }
}

class Bench {
  #root;
  #options;
  #folder = mkdtempSync(join(tmpdir(), 'rowan-replica-'));
  /** The replica of a second machine does not flush to the disk of the primary. */
  #memory = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'rowan-replica-'));
  #newPeople = 0;

  constructor(root, options) {
    this.#root = root;
    this.#options = options;
    const machine = (name, folder = this.#folder) => new Machine(folder, name, root);
    this.plain = machine('plain');
    this.logged = machine('logged');
    this.followed = machine('followed');
    this.consumed = machine('consumed');
    this.replica = machine('replica', this.#memory);
    this.machines = [this.plain, this.logged, this.followed, this.consumed, this.replica];
    process.once('SIGINT', () => process.exit(130));
    process.once('exit', () => {
      for (const { process: server } of this.machines) server?.kill('SIGKILL');
      for (const folder of [this.#folder, this.#memory]) rmSync(folder, { recursive: true, force: true });
    });
  }

  async run() {
    const { replica, followed, plain, logged, consumed } = this;
    const file = join(this.#folder, 'people.ldif');
    makePeople(this.#root, this.#options.entries, file);
    for (const primary of [plain, logged, followed, consumed]) primary.load(file);
    logged.grant({ passwordFile: join(this.#folder, 'unused.password') });
    followed.grant(replica);
    for (const primary of [plain, logged, followed, consumed]) await primary.start();
    replica.follow(followed);
    await replica.start();
    const costs = [];
    for (const work of Object.keys(WORKS)) costs.push(...(await this.#costs(work)));
    if (costs.length > 0)
      print(['a primary with', 'writes/s', 'without', 'loss', 'CPU µs a write', 'without', 'more'], costs);
    const paces = [];
    for (const work of Object.keys(WORKS)) paces.push(...(await this.#paces(work)));
    if (paces.length > 0)
      print(['a replica that', 'changes/s', 'primary CPU µs a change', 'replica CPU µs a change'], paces);
  }

  #wants(name) {
    return name.includes(this.#options.only);
  }

  /** The rows of one kind of write: each turn with followers has one without them beside it. */
  async #costs(work) {
    const { plain, logged, followed, consumed, replica } = this;
    const consumers = new Consumers(consumed, this.#options);
    const nothing = { level: () => undefined };
    const kinds = [
      { name: `${work}: a log`, primary: logged, follower: nothing },
      {
        name: `${work}: a log and a replica`,
        primary: followed,
        follower: { level: () => this.#level(replica, followed) },
      },
      { name: `${work}: ${this.#options.consumers} consumers`, primary: consumed, follower: consumers },
    ].filter(({ name }) => this.#wants(name));
    const rows = [];
    for (const { name, primary, follower } of kinds) {
      const pairs = [];
      await follower.start?.();
      const sides = {
        without: () => this.#turn(plain, work, nothing),
        with: () => this.#turn(primary, work, follower),
      };
      for (const turn of Object.values(sides))
        for (let count = 0; count < WARM_WRITES; ) count += (await turn()).rate * this.#options.seconds;
      for (let turn = 0; turn < Number(this.#options.turns); turn++) {
        const pair = {};
        for (const side of turn % 2 === 0 ? ['without', 'with'] : ['with', 'without']) pair[side] = await sides[side]();
        pairs.push(pair);
      }
      await follower.stop?.();
      rows.push(costRow(name, pairs));
      process.stderr.write(`${rows.at(-1).join('  ')}\n`);
    }
    return rows;
  }

  /** Writes for one turn. The processor time is that until all followers have the changes. */
  async #turn(primary, work, follower) {
    const { pid } = primary.process;
    const before = cpuSeconds(pid);
    const rate = this.#write(primary, work, this.#options.seconds);
    await follower.level();
    const micros = (1e6 * (cpuSeconds(pid) - before)) / (rate * this.#options.seconds);
    return { rate, micros };
  }

  /** Returns writes a second. */
  #write(primary, work, seconds) {
    const people = ['-n', this.#options.entries, '-b', BASE, '-D', ADMIN, '-W', primary.password];
    this.#newPeople += NEW_A_TURN;
    const args = ['-c', 1, '-d', 16, '-t', seconds, '-s', this.#newPeople, ...people, ...WORKS[work]];
    return drive(this.#root, primary.port, args).ops;
  }

  /** Resolves when the replica has all changes. */
  async #level(replica, primary) {
    const last = await primary.position();
    while ((await replica.position()) < last) await sleep(5);
  }

  /** How fast the replica follows while the primary writes, and how fast it catches up. */
  async #paces(work) {
    const { followed, replica } = this;
    const kinds = [
      {
        name: `${work}: follows writes at full speed`,
        pace: () => this.#pace(() => this.#write(followed, work, this.#options.seconds)),
      },
      { name: `${work}: catches up ${this.#options.backlog} changes`, pace: () => this.#catchUp(work) },
    ].filter(({ name }) => this.#wants(name));
    const rows = [];
    for (const { name, pace } of kinds) {
      const taken = [];
      for (let turn = 0; turn < Number(this.#options.turns); turn++) taken.push(await pace());
      const column = (key) =>
        spread(
          taken.map((one) => one[key]),
          (value) => Math.round(value).toString(),
        );
      rows.push([name, column('rate'), column('primary'), column('replica')]);
      process.stderr.write(`${rows.at(-1).join('  ')}\n`);
    }
    await this.#level(replica, followed);
    return rows;
  }

  /** The changes that the replica lacks, and those of `work`, by the time until it has them all. */
  async #pace(work, from) {
    const { followed, replica } = this;
    const first = from ?? (await replica.position());
    const cpu = () => [followed, replica].map(({ process: { pid } }) => cpuSeconds(pid));
    const before = cpu();
    const begin = performance.now();
    work();
    await this.#level(replica, followed);
    const seconds = (performance.now() - begin) / 1000;
    const count = (await replica.position()) - first;
    const [primaryMicros, replicaMicros] = cpu().map((after, i) => (1e6 * (after - before[i])) / count);
    return { rate: count / seconds, primary: primaryMicros, replica: replicaMicros };
  }

  async #catchUp(work) {
    const { followed, replica } = this;
    const first = await replica.position();
    await replica.stop();
    while ((await followed.position()) - first < this.#options.backlog) this.#write(followed, work, 1);
    await replica.start();
    return this.#pace(() => undefined, first);
  }

  async close() {
    for (const machine of this.machines) await machine.stop();
  }
}

function costRow(name, pairs) {
  const of = (key, side) => Math.round(median(pairs.map((pair) => pair[side][key]))).toString();
  const change = (key, sign) =>
    spread(
      pairs.map((pair) => sign * (pair.with[key] / pair.without[key] - 1)),
      (value) => `${(100 * value).toFixed(1)} %`,
    );
  const rates = [of('rate', 'with'), of('rate', 'without'), change('rate', -1)];
  return [name, ...rates, of('micros', 'with'), of('micros', 'without'), change('micros', 1)];
}

/** The median, and the least and the greatest value. */
function spread(values, format) {
  const [least, greatest] = [Math.min(...values), Math.max(...values)];
  return `${format(median(values))} (${format(least)} to ${format(greatest)})`;
}

function print(heads, rows) {
  process.stdout.write(`\n${formatRows([heads, ...rows])}\n`);
}
