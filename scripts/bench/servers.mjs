import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Attribute, Change, Client } from 'ldapts';
import { privateMemory, processes } from './machine.mjs';
import { ADMIN, BASE } from './rows.mjs';

const PASSWORD = 'secret';
const START_LIMIT_MS = 60_000;
/** An anonymous bind, and the bytes of its success: message 1, bindResponse, success. */
const BIND = Buffer.from('300c020101600702010304008000', 'hex');

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function answers(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(BIND));
    socket.once('data', (data) => {
      socket.destroy();
      resolve(data[0] === 0x30);
    });
    socket.once('error', () => resolve(false));
    socket.once('close', () => resolve(false));
  });
}

/** Runs a program to its end. Returns the duration in seconds. */
export function timed(program, args, options = {}) {
  const start = performance.now();
  const run = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 2 ** 26, ...options });
  if (run.error) throw run.error;
  if (run.status !== 0) throw new Error(`${program} ${args.join(' ')} failed:\n${run.stdout}${run.stderr}`);
  return (performance.now() - start) / 1000;
}

/** A server that is loaded from a file, started and stopped. Subclasses define the programs. */
export class Server {
  /** Certificate files for TLS at `tlsPort`; undefined for no TLS. Must be set before the load. */
  certificate;

  constructor(folder) {
    this.folder = folder;
  }

  get password() {
    return PASSWORD;
  }

  get stdio() {
    return ['ignore', 'pipe', 'pipe'];
  }

  /** Starts the server. Returns the milliseconds until it answers a bind. */
  async start() {
    this.port = await freePort();
    if (this.certificate) this.tlsPort = await freePort();
    const start = performance.now();
    const { program, args, env } = this.command();
    this.process = spawn(program, args, { stdio: this.stdio, env: { ...process.env, ...env } });
    this.said = '';
    for (const stream of [this.process.stdout, this.process.stderr])
      stream.on('data', (data) => (this.said = (this.said + data).slice(-4000)));
    this.ended = new Promise((resolve) => this.process.once('exit', resolve));
    while (!(await answers(this.port))) {
      if (this.process.exitCode !== null) throw new Error(`${this.name} ended at once:\n${this.said}`);
      if (performance.now() - start > START_LIMIT_MS) throw new Error(`${this.name} does not answer:\n${this.said}`);
      await sleep(2);
    }
    return performance.now() - start;
  }

  async stop() {
    if (!this.process || this.process.exitCode !== null) return;
    this.process.kill('SIGTERM');
    const killer = setTimeout(() => this.process.kill('SIGKILL'), 10_000);
    await this.ended;
    clearTimeout(killer);
  }

  memory() {
    return processes(this.process.pid).reduce((sum, pid) => sum + privateMemory(pid), 0);
  }

  /** Syncs the disk first, so that earlier writes do not slow a later measurement. */
  empty() {
    rmSync(this.folder, { recursive: true, force: true });
    mkdirSync(this.folder, { recursive: true });
    timed('sync', []);
  }
}

export class Rowan extends Server {
  name = 'Rowan';

  constructor(folder, root, workers = 1) {
    super(folder);
    this.workers = workers;
    this.flags = [];
    this.rowan = join(root, 'scripts/rowan.cjs');
    this.data = join(folder, 'data');
    this.nodeFlags = (process.env.ROWAN_BENCH_NODE_FLAGS ?? '').split(' ').filter(Boolean);
  }

  run(...args) {
    const env = { ...process.env, ROWAN_ADMIN_PASSWORD: PASSWORD };
    const [program, ...first] = this.launch();
    return timed(program, [...first, ...args], { env });
  }

  /** Starts with the Node flags of the first line of the program, as a user does, or with other flags. */
  launch() {
    return this.nodeFlags.length > 0 ? [process.execPath, ...this.nodeFlags, this.rowan] : [this.rowan];
  }

  /** Loads `file` into an empty directory. Returns the duration in seconds. */
  load(file) {
    this.empty();
    this.run('init', '--data', this.data, '--suffix', BASE, '--admin-dn', ADMIN, '--access', 'anybody-reads');
    return this.run('import', '--data', this.data, file);
  }

  addMiddleIndex() {
    this.run('index', 'add', 'cn', '--substring', '--data', this.data);
  }

  /** Sets the passwords of the first people again, so that the server hashes them. */
  async hashPasswords(people) {
    const client = new Client({ url: `ldap://127.0.0.1:${this.port}` });
    try {
      await client.bind(ADMIN, PASSWORD);
      for (let i = 0; i < people; i++) {
        const modification = new Attribute({ type: 'userPassword', values: ['password'] });
        await client.modify(`uid=user.${i},ou=people,${BASE}`, new Change({ operation: 'replace', modification }));
      }
    } finally {
      await client.unbind();
    }
  }

  command() {
    const [program, ...first] = this.launch();
    const args = [...first, 'serve', '--data', this.data, '--listen', `ldap://127.0.0.1:${this.port}`];
    if (this.certificate) {
      const { cert, key } = this.certificate;
      args.push('--listen', `ldaps://127.0.0.1:${this.tlsPort}`, '--tls-cert', cert, '--tls-key', key);
    }
    return { program, args: [...args, '--workers', String(this.workers), ...ROWAN_FLAGS, ...this.flags], env: {} };
  }
}

/** The settings of slapd.conf: everybody reads, results are unlimited, stored passwords stay as they are. */
export const ROWAN_FLAGS = [
  '--passwords-upgrade-at-bind',
  'false',
  '--limits-search-size-limit',
  '0',
  '--log-level',
  'error',
];

export class Slapd extends Server {
  name = 'slapd';
  /** Further configuration lines: before the database, and inside it. */
  globals = [];
  lines = [];

  constructor(folder, root) {
    super(folder);
    this.template = join(root, 'scripts/load/slapd.conf');
    this.conf = join(folder, 'slapd.conf');
  }

  load(file) {
    this.empty();
    const template = readFileSync(this.template, 'utf8').replaceAll('DIR', this.folder);
    const whole = template.replace('database mdb\n', [...this.globals, 'database mdb\n'].join('\n'));
    writeFileSync(this.conf, this.#tls() + [whole, ...this.lines].join('\n'));
    return timed('slapadd', ['-q', '-f', this.conf, '-l', file]);
  }

  /** slapd.conf already has a `sub` index on cn. */
  addMiddleIndex() {}

  #tls() {
    if (!this.certificate) return '';
    const { cert, key } = this.certificate;
    return `TLSCertificateFile ${cert}\nTLSCertificateKeyFile ${key}\n`;
  }

  command() {
    const urls = [`ldap://127.0.0.1:${this.port}/`];
    if (this.certificate) urls.push(`ldaps://127.0.0.1:${this.tlsPort}/`);
    return { program: 'slapd', args: ['-f', this.conf, '-h', urls.join(' '), '-d', '0'], env: {} };
  }
}
