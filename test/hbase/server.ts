import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { HBaseClient } from '../../src/store/hbase/rpc/client.js';
import { type HBaseOptions, type HBaseSettings, hbaseSettings } from '../../src/store/hbase/settings.js';
import { needs } from '../require.js';
import { TableRegions } from './regions.js';

/**
 * The one HBase of a test run: one JVM with two region servers, started when the first test asks, ended with its
 * process, however that ends. Tests keep apart by a prefix of their own for their tables.
 */
const script = fileURLToPath(new URL('../../../scripts/hbase', import.meta.url));
const START_MS = 600_000;
const FOLDER = 'rowan-hbase-';
/**
 * Its processes live for minutes and are started again and again: without the second compiler they come up with two
 * thirds of the work.
 */
const JAVA = { JAVA_TOOL_OPTIONS: `${process.env.JAVA_TOOL_OPTIONS ?? ''} -XX:TieredStopAtLevel=1`.trim() };

export interface HBaseServer {
  /** `host:port` of the master. */
  readonly master: string;
  /** `host:port` of the region servers. */
  readonly regionServers: readonly string[];
  /** Address of the REST gateway. */
  readonly rest: string;
  /** What `--store` takes. */
  url(prefix: string): string;
  settings(prefix: string, options?: Partial<HBaseOptions>): HBaseSettings;
  /** kill -9; resolves when the process is gone. */
  kill(): Promise<void>;
  /** Starts it again on the same data and ports; resolves when it answers. No effect while it runs. */
  restart(): Promise<void>;
  /** Does something with the regions of the table (HBase's full name). */
  withRegions<T>(table: string, work: (regions: TableRegions) => Promise<T>): Promise<T>;
  /** SIGSTOP: connections stay open and nothing answers any more when it resolves. */
  suspend(): Promise<void>;
  /** SIGCONT. */
  resume(): void;
}

let started: Promise<OwnServer> | undefined;
let lastPrefix = 0;

/**
 * The HBase of this run, in a hook or test: `const server = await hbase(this)`. Leaves the test or suite out, by name,
 * where Java or Maven is missing.
 */
export function hbase(context: Mocha.Context): Promise<HBaseServer> {
  needs(context, 'hbase');
  context.timeout(START_MS);
  return runningHBase();
}

/** The HBase of this run, started when there is none; for those who know that this machine can. */
export async function runningHBase(): Promise<HBaseServer> {
  started ??= OwnServer.start();
  const server = await started;
  if (!server.isDown) return server;
  // The test that did not bring it up again fails alone.
  await server.kill();
  started = OwnServer.start();
  return started;
}

/** A prefix that no other test of the run has. */
export function freshPrefix(): string {
  lastPrefix++;
  return `t${lastPrefix}`;
}

/**
 * Below the ports that systems give to outgoing connections: one of those may take the port of an HBase that was
 * killed.
 */
async function freePort(): Promise<number> {
  while (true) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const server = createServer();
    const free = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
    });
    if (free) return port;
  }
}

/** Two ports in a row, for the two region servers. */
async function freePair(): Promise<number> {
  while (true) {
    const port = await freePort();
    const next = createServer();
    const free = await new Promise<boolean>((resolve) => {
      next.once('error', () => resolve(false)).listen(port + 1, '127.0.0.1', () => next.close(() => resolve(true)));
    });
    if (free) return port;
  }
}

function runScript(args: readonly string[]): Promise<string> {
  const env = { ...process.env, ...JAVA };
  const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'pipe'], env });
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => (code === 0 ? resolve(out.trim()) : reject(new Error(`scripts/hbase: ${err}`))));
  });
}

/** Whether every thread of a process that was sent SIGSTOP has stopped. */
function stands(pid: number): boolean {
  const states = execFileSync('ps', ['-L', '-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' });
  return states
    .trim()
    .split('\n')
    .every((state) => state.startsWith('T'));
}

/** Removes what runs that were killed have left; their HBase ended with them. */
function sweep(): void {
  for (const name of readdirSync(tmpdir())) {
    const pid = Number(/^rowan-hbase-(\d+)-/.exec(name)?.[1]);
    if (!(pid > 0)) continue;
    try {
      process.kill(pid, 0);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ESRCH')
        rmSync(join(tmpdir(), name), { recursive: true, force: true });
    }
  }
}

class OwnServer implements HBaseServer {
  readonly master: string;
  readonly regionServers: readonly string[];
  readonly rest: string;
  readonly #data: string;
  readonly #start: readonly string[];
  #pid = 0;
  /** Killed, and not up again. */
  isDown = false;

  private constructor(data: string, ports: { master: number; region: number; rest: number; zookeeper: number }) {
    this.#data = data;
    this.master = `127.0.0.1:${ports.master}`;
    this.regionServers = [`localhost:${ports.region}`, `localhost:${ports.region + 1}`];
    this.rest = `http://127.0.0.1:${ports.rest}`;
    this.#start = [
      ...['start', '--data', data, '--while', String(process.pid), '--region-servers', '2'],
      ...['--port', String(ports.master), '--region-port', String(ports.region)],
      ...['--rest-port', String(ports.rest), '--zookeeper-port', String(ports.zookeeper)],
    ];
  }

  static async start(): Promise<OwnServer> {
    sweep();
    const data = mkdtempSync(join(tmpdir(), `${FOLDER}${process.pid}-`));
    const [master, region, rest, zookeeper] = [await freePort(), await freePair(), await freePort(), await freePort()];
    const server = new OwnServer(data, { master, region, rest, zookeeper });
    // A kill -9 is what --while is for.
    process.once('exit', () => server.#endNow());
    await server.restart();
    return server;
  }

  url(prefix: string): string {
    return `hbase://${this.master}/${prefix}?rest=${new URL(this.rest).host}`;
  }

  settings(prefix: string, options: Partial<HBaseOptions> = {}): HBaseSettings {
    return hbaseSettings({ regions: 1, ...options, url: this.url(prefix) });
  }

  async kill(): Promise<void> {
    this.isDown = true;
    await runScript(['stop', '--now', '--data', this.#data]);
    this.#pid = 0;
  }

  async restart(): Promise<void> {
    await runScript(this.#start);
    const status = await runScript(['status', '--data', this.#data]);
    this.#pid = Number(/ pid (\d+)$/.exec(status)?.[1]);
    this.isDown = false;
  }

  async suspend(): Promise<void> {
    process.kill(this.#pid, 'SIGSTOP');
    // Where the machine is busy its threads stop later.
    while (!stands(this.#pid)) await sleep(5);
  }

  resume(): void {
    process.kill(this.#pid, 'SIGCONT');
  }

  async withRegions<T>(table: string, work: (regions: TableRegions) => Promise<T>): Promise<T> {
    const client = new HBaseClient(this.settings('none'));
    try {
      return await work(new TableRegions(client, table));
    } finally {
      await client.close();
    }
  }

  #endNow(): void {
    if (this.#pid > 0) {
      execFileSync(process.execPath, [script, 'stop', '--now', '--data', this.#data], { stdio: 'ignore' });
    }
    rmSync(this.#data, { recursive: true, force: true });
  }
}
