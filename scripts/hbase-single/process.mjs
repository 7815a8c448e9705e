/** The one process: started, found again by the file it leaves in its data folder, stopped. */
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { prepare, Refusal } from './libraries.mjs';

const HOST = '127.0.0.1';
/** Longer than a master waits before it ends the process (conf/hbase-site.xml). */
const START_MS = 200_000;
/** After a kill, on a busy machine, an HBase may end or stand still while it starts; begun anew, it comes up. */
const STARTS = 3;
const STOP_MS = 40_000;
/** The last threads of a process that was killed, and with them its ports, go after its name. */
const FREE_MS = 10_000;
const POLL_MS = 100;
const LOG_LINES = 40;

/** What HBase, Netty and Hadoop reach into. */
const OPENED = [
  ...[
    'java.nio',
    'java.lang',
    'java.lang.reflect',
    'java.util',
    'java.util.concurrent',
    'sun.nio.ch',
    'jdk.internal.ref',
  ].map((name) => `--add-opens=java.base/${name}=ALL-UNNAMED`),
  ...['java.base/jdk.internal.misc', 'java.base/sun.net.dns', 'java.base/sun.net.util'].map(
    (name) => `--add-exports=${name}=ALL-UNNAMED`,
  ),
  '--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED',
  '-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true',
];

/** Where Rowan seeks the gateway when the URL does not say. */
const usualRestPort = (master) => 8080 + master - 16_000;

function urlOf({ master, rest }) {
  const url = `hbase://${HOST}:${master}`;
  return rest === usualRestPort(master) ? url : `${url}?rest=${HOST}:${rest}`;
}

const recordFile = (data) => join(data, 'process.json');
const logFile = (data) => join(data, 'hbase.log');
const mark = (data) => `-Drowan.hbase.data=${data}`;

/** The process that runs on this folder, or undefined. A process id that another program has by now does not count. */
export function running(data) {
  let record;
  try {
    record = JSON.parse(readFileSync(recordFile(data), 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT' || error instanceof SyntaxError) return undefined;
    throw error;
  }
  return isOurs(record.pid, data) ? record : undefined;
}

function isOurs(pid, data) {
  try {
    const line = execFileSync('ps', ['-ww', '-o', 'stat=,command=', '-p', String(pid)], { encoding: 'utf8' });
    return !line.startsWith('Z') && line.includes(`${mark(data)} `);
  } catch {
    // ps ends with 1 when there is no such process.
    return false;
  }
}

/** The end of the log, for those who will not find it any more. */
function logEnd(data) {
  const lines = readFileSync(logFile(data), 'utf8').trimEnd().split('\n');
  return lines.slice(-LOG_LINES).join('\n');
}

/** Waits until nobody listens on the ports. Throws `Refusal` for one that stays taken. */
async function requireFree(ports) {
  const end = Date.now() + FREE_MS;
  await requireFreePort(ports.master, '--port', end);
  for (const port of ports.region) await requireFreePort(port, '--region-port', end);
  await requireFreePort(ports.rest, '--rest-port', end);
  await requireFreePort(ports.zookeeper, '--zookeeper-port', end);
}

async function requireFreePort(port, option, end) {
  for (;;) {
    const problem = await listening(port);
    if (!problem) return;
    if (problem !== 'EADDRINUSE' || Date.now() > end)
      throw new Refusal(`port ${port} cannot be used (${problem}): another HBase? Choose another with ${option}`);
    await sleep(POLL_MS);
  }
}

/** Listens for a moment; the code of the error where that fails. */
async function listening(port) {
  const server = createServer();
  try {
    await new Promise((resolve, reject) => {
      server.once('error', reject).listen(port, HOST, resolve);
    });
  } catch (error) {
    return error.code;
  }
  await new Promise((resolve) => server.close(resolve));
}

function javaArguments({ data, ports, memory, log, follow, reportMs }, classPath) {
  const [region, ...more] = ports.region;
  const properties = {
    'master.port': ports.master,
    'region.port': region,
    'more.ports': more.join(','),
    'rest.port': ports.rest,
    'zookeeper.port': ports.zookeeper,
    log,
    'report.ms': reportMs,
    while: follow ?? '',
  };
  return [
    '-Xms256m',
    `-Xmx${memory}`,
    '-XX:+UseG1GC',
    ...OPENED,
    '-Djava.net.preferIPv4Stack=true',
    '-Djava.awt.headless=true',
    mark(data),
    ...Object.entries(properties).map(([name, value]) => `-Drowan.hbase.${name}=${value}`),
    ...['-cp', classPath, 'SingleHBase'],
  ];
}

function launch(options) {
  const { java, classPath } = prepare();
  mkdirSync(options.data, { recursive: true });
  const log = openSync(logFile(options.data), 'a');
  try {
    const child = spawn(java, javaArguments(options, classPath), { detached: true, stdio: ['ignore', log, log] });
    child.unref();
    if (child.pid === undefined) throw new Refusal(`${java} does not start`);
    const record = { pid: child.pid, url: urlOf(options.ports), ports: options.ports };
    writeFileSync(recordFile(options.data), `${JSON.stringify(record)}\n`);
    return record;
  } finally {
    closeSync(log);
  }
}

/** Whether tables can be worked with: the gateway asks the master. */
async function isReady({ ports }) {
  try {
    const reply = await fetch(`http://${HOST}:${ports.rest}/namespaces`, {
      headers: { accept: 'application/json' },
      signal: AbortSignal.timeout(10_000),
    });
    return reply.ok && (await reply.text()).includes('"default"');
  } catch {
    return false;
  }
}

/** Waits until the process answers (`ready`), has ended (`ended while it started`), or should have done either. */
async function settled(record, data) {
  for (const end = Date.now() + START_MS; Date.now() < end; await sleep(POLL_MS)) {
    if (await isReady(record)) return 'ready';
    if (!isOurs(record.pid, data)) return 'ended while it started';
  }
  return `did not answer in ${START_MS / 1000} s`;
}

/**
 * Starts HBase on a data folder and waits until tables can be made; where it runs already, or is still coming up or
 * going down, waits for that first. `options`: data, ports {master, region[], rest, zookeeper}, memory, log, reportMs,
 * follow (a process id). Returns the record and whether it was `running` before. Throws `Refusal`.
 */
export async function start(options) {
  const { data, ports } = options;
  const before = running(data);
  if (before) {
    const state = await settled(before, data);
    if (state === 'ready') return { ...before, running: true };
    if (running(data)) throw new Refusal(`HBase (pid ${before.pid}) ${state}; see ${logFile(data)}`);
  }
  for (let n = 1; ; n++) {
    await requireFree(ports);
    const record = launch(options);
    const state = await settled(record, data);
    if (state === 'ready') return { ...record, running: false };
    await stop(data, { now: true });
    if (n === STARTS) throw new Refusal(`HBase ${state}; ${logFile(data)} ends with\n${logEnd(data)}`);
    process.stderr.write(`HBase ${state}; it is started again\n`);
  }
}

/** Stops it in order, or at once, and returns when the process is gone; undefined when none ran. */
export async function stop(data, { now = false } = {}) {
  const record = running(data);
  if (!record) return undefined;
  process.kill(record.pid, now ? 'SIGKILL' : 'SIGTERM');
  for (const end = Date.now() + STOP_MS; isOurs(record.pid, data); await sleep(POLL_MS)) {
    if (Date.now() > end) process.kill(record.pid, 'SIGKILL');
  }
  rmSync(recordFile(data), { force: true });
  return record;
}
