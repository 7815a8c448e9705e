/** The processes: started, found again by the file they leave in their data folder, stopped. */
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
/** ZooKeeper grants sessions of 2 to 20 ticks, and ends them at the next tick. */
const TICKS = 15;

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
/** `server`: the number of a region server with a process of its own; undefined is the main process. */
const logFile = (data, server) => join(data, server === undefined ? 'hbase.log' : `region-server-${server}.log`);
const mark = (data) => `-Drowan.hbase.data=${data}`;

/** What the last start has left: the main process and, started `--separate`, those of the region servers. */
function readRecord(data) {
  try {
    return JSON.parse(readFileSync(recordFile(data), 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT' || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

const writeRecord = (data, record) => writeFileSync(recordFile(data), `${JSON.stringify(record)}\n`);

/**
 * The HBase that runs on this folder, or undefined. A process id that another program has by now does not count.
 * `servers`: the region servers with processes of their own, as {pid, port}; `pid` undefined for one that has ended.
 */
export function running(data) {
  const record = readRecord(data);
  if (!record || !isOurs(record.pid, data)) return undefined;
  const servers = (record.servers ?? []).map(({ pid, port }) => ({ port, pid: isOurs(pid, data) ? pid : undefined }));
  return { ...record, servers };
}

/** `pid`: undefined for one that has ended. */
function isOurs(pid, data) {
  if (pid === undefined) return false;
  try {
    const line = execFileSync('ps', ['-ww', '-o', 'stat=,command=', '-p', String(pid)], { encoding: 'utf8' });
    return !line.startsWith('Z') && line.includes(`${mark(data)} `);
  } catch {
    // ps ends with 1 when there is no such process.
    return false;
  }
}

/** The ends of the logs, for those who will not find them any more. */
function logEnds(data, servers) {
  const ends = [undefined, ...servers.map((_, i) => i + 1)].map((server) => {
    const lines = readFileSync(logFile(data, server), 'utf8').trimEnd().split('\n');
    return `${logFile(data, server)} ends with\n${lines.slice(-LOG_LINES).join('\n')}`;
  });
  return ends.join('\n');
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

/** `processes`: those that it ends with. `servers`: ports of the region servers in it, `least`: see conf. */
function javaArguments(options, classPath, { servers, least, processes }) {
  const { data, ports, memory, log, reportMs, sessionMs } = options;
  const [first, ...more] = servers;
  const properties = {
    'master.port': ports.master,
    'region.port': first ?? ports.region[0],
    'more.ports': more.join(','),
    'inner.servers': servers.length === 0 ? 0 : 1,
    'least.servers': least,
    'rest.port': ports.rest,
    'zookeeper.port': ports.zookeeper,
    log,
    'report.ms': reportMs,
    'session.ms': sessionMs,
    'tick.ms': Math.ceil(sessionMs / TICKS),
    while: processes.filter((pid) => pid !== undefined).join(','),
  };
  return [
    '-Xms256m',
    `-Xmx${memory}`,
    // Takes less processor time than the default collector, which works beside the program.
    '-XX:+UseParallelGC',
    ...OPENED,
    '-Djava.net.preferIPv4Stack=true',
    '-Djava.awt.headless=true',
    mark(data),
    ...Object.entries(properties).map(([name, value]) => `-Drowan.hbase.${name}=${value}`),
    ...['-cp', classPath, 'SingleHBase'],
  ];
}

/** Starts one process; its id. */
function launch({ java, classPath }, options, parts, server) {
  const log = openSync(logFile(options.data, server), 'a');
  try {
    const args = javaArguments(options, classPath, parts);
    if (server !== undefined) args.push('region-server');
    const child = spawn(java, args, { detached: true, stdio: ['ignore', log, log] });
    child.unref();
    if (child.pid === undefined) throw new Refusal(`${java} does not start`);
    return child.pid;
  } finally {
    closeSync(log);
  }
}

/** A region server without its master is of no use: it ends with the main process. */
function launchServer(program, options, main, server) {
  const port = options.ports.region[server - 1];
  const parts = { servers: [port], least: 1, processes: [main, options.follow] };
  return { port, pid: launch(program, options, parts, server) };
}

function launchAll(options) {
  const { data, ports, separate, follow } = options;
  const program = prepare();
  mkdirSync(data, { recursive: true });
  const inner = separate ? [] : ports.region;
  const least = separate ? ports.region.length : 1;
  const pid = launch(program, options, { servers: inner, least, processes: [follow] }, undefined);
  const record = { pid, url: urlOf(ports), ports, options, servers: [] };
  writeRecord(data, record);
  if (separate) record.servers = ports.region.map((_, i) => launchServer(program, options, pid, i + 1));
  writeRecord(data, record);
  return record;
}

/** What the gateway answers, undefined where it fails. */
async function ask({ ports }, path) {
  try {
    const reply = await fetch(`http://${HOST}:${ports.rest}${path}`, {
      headers: { accept: 'application/json' },
      signal: AbortSignal.timeout(10_000),
    });
    return reply.ok ? await reply.json() : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the master knows region servers on these ports that were started at `since` (ms) or later. */
async function serve(record, ports, since) {
  const status = await ask(record, '/status/cluster');
  const serves = (port) =>
    status?.LiveNodes?.some(({ name, startCode }) => name.endsWith(`:${port}`) && startCode >= since);
  return ports.every(serves);
}

/** Whether tables can be worked with: the gateway asks the master. */
async function isReady(record) {
  const namespaces = await ask(record, '/namespaces');
  if (!namespaces?.Namespace?.includes('default')) return false;
  return serve(record, record.ports.region, 0);
}

/** Waits until it answers (`ready`), a process of it has ended, or it should have done either. */
async function settled(data, pids, ready) {
  for (const end = Date.now() + START_MS; Date.now() < end; await sleep(POLL_MS)) {
    if (await ready()) return 'ready';
    if (pids.some((pid) => !isOurs(pid, data))) return 'ended while it started';
  }
  return `did not answer in ${START_MS / 1000} s`;
}

/**
 * Starts HBase on a data folder and waits until tables can be made and all region servers serve; where it runs already,
 * or is still coming up or going down, waits for that first. `options`: data, ports {master, region[], rest,
 * zookeeper}, separate, memory, log, reportMs, sessionMs, follow (a process id). Returns the record and whether it was
 * `running` before. Throws `Refusal`.
 */
export async function start(options) {
  const { data, ports } = options;
  const before = running(data);
  if (before) {
    const gone = before.servers.findIndex(({ pid }) => pid === undefined) + 1;
    if (gone > 0) throw new Refusal(`HBase runs without its region server ${gone}: start --server ${gone}`);
    const state = await settled(data, [before.pid], () => isReady(before));
    if (state === 'ready') return { ...before, running: true };
    if (running(data)) throw new Refusal(`HBase (pid ${before.pid}) ${state}; see ${logFile(data)}`);
  }
  for (let n = 1; ; n++) {
    await requireFree(ports);
    const record = launchAll(options);
    const pids = [record.pid, ...record.servers.map(({ pid }) => pid)];
    const state = await settled(data, pids, () => isReady(record));
    if (state === 'ready') return { ...record, running: false };
    await stop(data, { now: true });
    if (n === STARTS) throw new Refusal(`HBase ${state}; ${logEnds(data, record.servers)}`);
    process.stderr.write(`HBase ${state}; it is started again\n`);
  }
}

/** The region server of that number, which has a process of its own. Throws `Refusal`. */
function separateServer(data, server) {
  const record = running(data);
  if (!record) throw new Refusal(`no HBase runs on ${data}`);
  if (record.servers.length === 0) throw new Refusal('its region servers have no processes of their own: --separate');
  const found = record.servers[server - 1];
  if (!found) throw new Refusal(`it has region servers 1 to ${record.servers.length}, not ${server}`);
  return { record, found };
}

/** Starts a region server that has ended again, as it was started before; returns when the master knows it. */
export async function startServer(data, server) {
  const { record, found } = separateServer(data, server);
  if (found.pid !== undefined) return { ...found, running: true };
  await requireFreePort(found.port, '--region-port', Date.now() + FREE_MS);
  const since = Date.now();
  const started = launchServer(prepare(), record.options, record.pid, server);
  record.servers[server - 1] = started;
  writeRecord(data, record);
  const state = await settled(data, [record.pid, started.pid], () => serve(record, [started.port], since));
  if (state !== 'ready') throw new Refusal(`region server ${server} ${state}; see ${logFile(data, server)}`);
  return { ...started, running: false };
}

/** Stops one region server in order, or at once, and returns when its process is gone. */
export async function stopServer(data, server, { now = false } = {}) {
  const { found } = separateServer(data, server);
  if (found.pid !== undefined) await end(data, [found.pid], now);
  return found;
}

/** Ends the first process, with which the others end by themselves, unless they stand still. */
async function end(data, [pid, ...others], now) {
  process.kill(pid, now ? 'SIGKILL' : 'SIGTERM');
  await ended(data, pid, now);
  for (const other of others) await ended(data, other, now);
}

/** Waits until the process is gone: at once, or when it had its time, it is killed. */
async function ended(data, pid, now) {
  for (const limit = Date.now() + (now ? 0 : STOP_MS); isOurs(pid, data); await sleep(POLL_MS)) {
    if (Date.now() < limit) continue;
    try {
      process.kill(pid, 'SIGKILL');
    } catch (error) {
      if (error.code !== 'ESRCH') throw error;
    }
  }
}

/** Stops all of it in order, or at once, and returns when the processes are gone; undefined when none ran. */
export async function stop(data, { now = false } = {}) {
  const record = running(data);
  if (!record) return undefined;
  const servers = record.servers.map(({ pid }) => pid).filter((pid) => pid !== undefined);
  await end(data, [record.pid, ...servers], now);
  rmSync(recordFile(data), { force: true });
  return record;
}
