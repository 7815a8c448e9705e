import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
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
 * The HBase of a test run: one JVM with two region servers, started when the first test asks, ended with its process,
 * however that ends. Tests keep apart by a prefix of their own for their tables. Tests that kill region servers have
 * another beside it.
 */
const script = fileURLToPath(new URL('../../../scripts/hbase', import.meta.url));
const START_MS = 600_000;
const FOLDER = 'rowan-hbase-';
/**
 * The processes live for minutes and are started again and again. Without the second compiler they start with two
 * thirds of the work.
 */
const JAVA = {
  JAVA_TOOL_OPTIONS: `${process.env.JAVA_TOOL_OPTIONS ?? ''} -XX:TieredStopAtLevel=1`.trim(),
};

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

/** One whose region servers have processes of their own. */
export interface SeparateServers extends HBaseServer {
  /** kill -9 of the one with this address (`regionServers`). */
  killServer(address: string): void;
  /** Stops it in order; resolves when its process is gone. */
  stopServer(address: string): Promise<void>;
  /** Starts it again; resolves when the master knows it. */
  startServer(address: string): Promise<void>;
  /** Ends all of it. */
  end(): Promise<void>;
}

/** The one for all, and the one whose region servers are killed. */
const TOGETHER = { servers: 2, args: ['--report-ms', '2000'] } as const;
/** A region server that was killed is given up after its session, and none because the machine is busy. */
const SEPARATE = { servers: 3, args: ['--separate', '--memory', '384m', '--session-ms', '20000'] } as const;
type Kind = typeof TOGETHER | typeof SEPARATE;

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
  // One that does not start on a busy machine fails the test that wanted it; the next one starts another.
  started ??= OwnServer.start(TOGETHER).catch((error: unknown) => {
    started = undefined;
    throw error;
  });
  const server = await started;
  if (!server.isDown) return server;
  // The test that did not bring it up again fails alone.
  await server.kill();
  started = OwnServer.start(TOGETHER);
  return started;
}

/** An HBase of three region servers in processes of their own, for one suite, which ends it. */
export function separateHBase(context: Mocha.Context): Promise<SeparateServers> {
  needs(context, 'hbase');
  context.timeout(START_MS);
  return OwnServer.start(SEPARATE);
}

/** A prefix that no other test of the run has. */
export function freshPrefix(): string {
  lastPrefix++;
  return `t${lastPrefix}`;
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/**
 * Below the ports that systems give to outgoing connections: one of those may take the port of an HBase that was
 * killed.
 */
async function freePort(): Promise<number> {
  while (true) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    if (await isFree(port)) return port;
  }
}

/** As many ports in a row, for the region servers; the first. */
async function freeRow(count: number): Promise<number> {
  while (true) {
    const first = await freePort();
    const more = Array.from({ length: count - 1 }, (_, i) => first + 1 + i);
    if ((await Promise.all(more.map(isFree))).every(Boolean)) return first;
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

/** A region server that gave itself up explains much of what fails after it. */
function tellAborted(data: string): void {
  const log = join(data, 'hbase.log');
  if (!existsSync(log)) return;
  const said = readFileSync(log, 'utf8')
    .split('\n')
    .filter((line) => /ABORTING|BindException|SessionExpired/.test(line));
  for (const line of said.slice(0, 20)) process.stderr.write(`HBase: ${line.slice(0, 300)}\n`);
}

class OwnServer implements SeparateServers {
  readonly master: string;
  readonly regionServers: readonly string[];
  readonly rest: string;
  readonly #data: string;
  readonly #start: readonly string[];
  #pid = 0;
  /** Of region servers with processes of their own, in the order of `regionServers`. */
  #serverPids: readonly number[] = [];
  readonly #atExit = (): void => this.#endNow();
  /** Killed, and not up again. */
  isDown = false;

  private constructor(data: string, kind: Kind, ports: Record<'master' | 'region' | 'rest' | 'zookeeper', number>) {
    this.#data = data;
    this.master = `127.0.0.1:${ports.master}`;
    this.regionServers = Array.from({ length: kind.servers }, (_, i) => `localhost:${ports.region + i}`);
    this.rest = `http://127.0.0.1:${ports.rest}`;
    this.#start = [
      ...['start', '--data', data, '--while', String(process.pid), '--region-servers', String(kind.servers)],
      ...['--port', String(ports.master), '--region-port', String(ports.region)],
      ...['--rest-port', String(ports.rest), '--zookeeper-port', String(ports.zookeeper)],
      ...kind.args,
    ];
  }

  static async start(kind: Kind): Promise<OwnServer> {
    sweep();
    const data = mkdtempSync(join(tmpdir(), `${FOLDER}${process.pid}-`));
    const region = await freeRow(kind.servers);
    const [master, rest, zookeeper] = [await freePort(), await freePort(), await freePort()];
    const server = new OwnServer(data, kind, { master, region, rest, zookeeper });
    // A kill -9 is what --while is for.
    process.once('exit', server.#atExit);
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
    await this.#readPids();
    this.isDown = false;
  }

  async end(): Promise<void> {
    await runScript(['stop', '--now', '--data', this.#data]);
    this.#pid = 0;
    process.off('exit', this.#atExit);
    rmSync(this.#data, { recursive: true, force: true });
  }

  killServer(address: string): void {
    try {
      process.kill(this.#serverPids[this.regionServers.indexOf(address)]!, 'SIGKILL');
    } catch (error) {
      // It has given itself up.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  async stopServer(address: string): Promise<void> {
    await this.#server('stop', address);
  }

  async startServer(address: string): Promise<void> {
    await this.#server('start', address);
    await this.#readPids();
  }

  async #server(command: 'start' | 'stop', address: string): Promise<void> {
    const number = this.regionServers.indexOf(address) + 1;
    await runScript([command, '--data', this.#data, '--server', String(number)]);
  }

  async #readPids(): Promise<void> {
    const [main, ...servers] = (await runScript(['status', '--data', this.#data])).split('\n');
    const pid = (line: string): number => Number(/ pid (\d+)$/.exec(line)?.[1]);
    this.#pid = pid(main!);
    this.#serverPids = servers.map(pid);
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
    tellAborted(this.#data);
    if (this.#pid > 0) {
      execFileSync(process.execPath, [script, 'stop', '--now', '--data', this.#data], { stdio: 'ignore' });
    }
    rmSync(this.#data, { recursive: true, force: true });
  }
}
