import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ADMIN, BASE } from './rows.mjs';
import { ROWAN_FLAGS, Server, timed } from './servers.mjs';

const COUNT = pathToFileURL(join(dirname(fileURLToPath(import.meta.url)), 'hbase-count.mjs')).href;

/**
 * As on a cluster. Reports list the current requests; at the default of half a second they take a fifth of a bulk load.
 */
const REPORT_MS = 3000;

function isFree(port) {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** Below the ports for outgoing connections. The ports of `scripts/hbase` are derived from this port. */
async function freeMasterPort() {
  while (true) {
    const port = 21_000 + Math.floor(Math.random() * 8_000);
    const needed = [port, port + 20, port - 7920, port - 13_819];
    if ((await Promise.all(needed.map(isFree))).every(Boolean)) return port;
  }
}

/** An HBase for this run: one JVM, which ends with this process. `url`: one that runs already, and goes on. */
export class HBase {
  constructor(root, data, memory, url) {
    this.url = url;
    this.script = join(root, 'scripts/hbase');
    this.data = data;
    this.memory = memory;
  }

  async start() {
    if (this.url !== undefined) return;
    const port = await freeMasterPort();
    const args = ['start', '--data', this.data, '--port', port, '--memory', this.memory, '--while', process.pid];
    args.push('--report-ms', REPORT_MS);
    const run = spawnSync(process.execPath, [this.script, ...args.map(String)], { encoding: 'utf8' });
    if (run.status !== 0) throw new Error(`scripts/hbase does not start:\n${run.stderr}`);
    this.url = `${run.stdout.trim()}/bench`;
    this.pid = JSON.parse(readFileSync(join(this.data, 'process.json'), 'utf8')).pid;
  }

  stop() {
    if (this.pid === undefined) return;
    spawnSync(process.execPath, [this.script, 'stop', '--now', '--data', this.data]);
    this.pid = undefined;
  }
}

/** `rowan serve` over an HBase. */
export class FrontEnd extends Server {
  name = 'Rowan';

  /** `dist`: the compiled form. Default: that of the checkout. */
  constructor(folder, root, url, dist) {
    super(folder);
    this.url = url;
    this.dist = dist ?? join(root, 'dist');
    // Not the bundle: hbase-count.mjs reads the counts of the HBase client of `dist/src`.
    this.program = join(this.dist, 'src/cli/main.js');
    this.nodeFlags = (process.env.ROWAN_BENCH_NODE_FLAGS ?? '').split(' ').filter(Boolean);
  }

  get stdio() {
    return ['ignore', 'pipe', 'pipe', 'ipc'];
  }

  run(...args) {
    const env = { ...process.env, ROWAN_ADMIN_PASSWORD: this.password };
    return timed(process.execPath, [this.program, ...args, '--store', this.url], { env });
  }

  init() {
    this.run('init', '--suffix', BASE, '--admin-dn', ADMIN, '--access', 'anybody-reads');
  }

  /** Returns the duration in seconds. */
  load(file) {
    return this.run('import', file);
  }

  command() {
    const args = ['serve', '--store', this.url, '--listen', `ldap://127.0.0.1:${this.port}`, ...ROWAN_FLAGS];
    return {
      program: process.execPath,
      args: ['--import', COUNT, ...this.nodeFlags, this.program, ...args],
      env: { ROWAN_BENCH_DIST: this.dist },
    };
  }

  /** Returns the number of requests to HBase since the start. Rejects if the front end ends instead of answering. */
  async requests() {
    const statistics = await new Promise((resolve, reject) => {
      const fail = () => reject(new Error(`the front end has ended without its counts:\n${this.said}`));
      this.process.once('message', resolve);
      this.process.send('count', (error) => error && fail());
      void this.ended.then(fail);
    });
    return Object.values(statistics.calls).reduce((sum, count) => sum + count, 0);
  }
}
