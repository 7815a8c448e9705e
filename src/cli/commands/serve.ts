import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import type { Logger } from 'pino';
import type { Partition } from '../../partition/index.js';
import type { Answer, Question } from '../../server/processes/siblings.js';
import type { Config } from '../../server/settings/index.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { auditRoute } from '../audit-record.js';
import { renewCertificate } from '../certificate.js';
import { addSettingFlags, type ConfigSources } from '../config/index.js';
import { ExitCode, UsageError } from '../exit.js';
import type { HealthSource, ServerPhase } from '../http/health.js';
import type { HttpListener } from '../http/http-listener.js';
import { endProcess } from '../last-resort.js';
import { Maintenance } from '../maintenance.js';
import { type OpenDirectory, openDirectory } from '../open-directory.js';
import { configSources, directoryCommand, resolveSettings, type Settings } from '../options.js';
import { reloadRoute, SettingsReloader, SIGHUP } from '../reload.js';
import { completeCopy, replicationRoute, startReplica } from '../replica-role.js';
import { promoteRoute, RoleKeeper } from '../role-keeper.js';
import { watchRoutes } from '../watch/watch-routes.js';

const EXAMPLES = `
Examples:
  For programs on this machine:
    rowan serve --data data --listen ldap://127.0.0.1:1389

  With TLS, and a socket for root's scripts:
    rowan serve --data data --listen ldap://0.0.0.0 --listen ldaps://0.0.0.0 --listen ldapi://%2Frun%2Frowan.sock \\
      --tls-cert server.crt --tls-key server.key

  On several cores:
    rowan serve --data data --listen ldap://0.0.0.0 --workers 4

  From a configuration file ("rowan config" shows what can stand in it):
    rowan serve --config /etc/rowan.yaml

SIGTERM and SIGINT end it after the requests in hand are answered, a second one at once; SIGHUP reads settings and certificate anew.
`;

/** Resolves with the reason at the first SIGTERM or SIGINT, or when npm ends. The next signal ends the process. */
function waitForStop(): Promise<string> {
  return new Promise((resolve) => {
    const stop = (reason: string): void => {
      unwatch();
      for (const name of ['SIGTERM', 'SIGINT'] as const) {
        process.off(name, stop);
        process.once(name, () => endProcess(ExitCode.failure));
      }
      resolve(reason);
    };
    const unwatch = watchNpm(() => stop('npm has ended'));
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.on(name, stop);
  });
}

/** A running server: this process alone, with workers, or as a supervisor of workers. */
export interface ServerHandle {
  listen(): Promise<string[]>;
  /** Returns the answers of all serving processes, this one included. Totals of ended workers come with `counts`. */
  askAll(question: Question): Promise<Answer[]>;
  renewCertificate(): void;
  close(): Promise<void>;
}

/** Returns a server in this process, which may start workers on machines with enough cores, or a supervisor. */
async function createServer(settings: Settings, partition: Partition, log: Logger): Promise<ServerHandle> {
  const { config } = settings;
  const { processes } = partition.store.supports;
  // Loaded on demand, so that other commands start faster.
  if (config.workers !== 'auto' && config.workers > 1) {
    if (!processes) throw new UsageError('workers: only one process can have this store open');
    const { Supervisor } = await import('../workers/supervisor.js');
    return new Supervisor(settings, log, config.workers);
  }
  const { LongThread } = await import('../long/long-thread.js');
  const longThread = processes ? new LongThread(settings, log) : undefined;
  const { growthRules } = await import('../workers/growth.js');
  const rules = growthRules();
  if (config.workers === 'auto' && longThread && rules.maxProcesses > 1) {
    const { GrowingServer } = await import('../workers/growing.js');
    return new GrowingServer(settings, partition, log, longThread, rules);
  }
  const { RowanServer } = await import('../../server/server.js');
  const server = new RowanServer(partition, config, log, { longWorker: longThread });
  return {
    listen: () => server.listen(),
    askAll: async (question) => [server.answer(question)],
    renewCertificate: () => renewCertificate(server, log),
    close: async () => {
      await server.close();
      await longThread?.close();
    },
  };
}

/**
 * Serves until a signal ends it. Prints one line when all listeners are open, and calls `onReady` after it. `sources`:
 * where the settings come from.
 */
export async function serve(
  settings: Settings,
  sources: ConfigSources,
  onReady?: (urls: readonly string[]) => void,
): Promise<void> {
  const { createLog, logUncaught } = await import('../log.js');
  const { beginLines } = await import('../lmdb-texts.js');
  const { closeHttpServer, openControlServer } = await import('../http/control-server.js');
  const { requireLogs } = await import('../doctor/named-files.js');
  const { startRotation } = await import('../../server/logs/rotation.js');
  const log = createLog(settings.config);
  logUncaught(log);
  await warnOfFileLimit(settings.config, log);
  await requireLogs(settings);
  if (settings.config.replica.acknowledge > 0 && isHBaseUrl(settings.store))
    throw new UsageError('replica.acknowledge: front ends of HBase do not know of replicas that follow others; set 0');
  let phase: ServerPhase = 'copying';
  let server: ServerHandle | undefined;
  const ask = async (question: Question): Promise<Answer[]> => server?.askAll(question) ?? [];
  const source: HealthSource = {
    currentPhase: () => phase,
    get partition() {
      return partition;
    },
    ask,
    roleFault: () => roles.fault,
    maxSecondsBehind: () => settings.config.replica.readyBehindSeconds,
  };
  const http = await openHttp(settings, source, log);
  const httpServers = http ? [http.server] : [];
  const openCopied = async (): Promise<OpenDirectory> => {
    await completeCopy(settings, log);
    phase = 'starting';
    return openDirectory(settings, { follows: true });
  };
  const directory = await openCopied().catch(async (error: unknown) => {
    await Promise.all(httpServers.map(closeHttpServer));
    throw error;
  });
  if (settings.config.store === undefined) beginLines(settings.store);
  const { partition } = directory;
  let maintenance: Maintenance | undefined;
  const setUpkeep = async (isOn: boolean): Promise<void> => {
    await maintenance?.stop();
    maintenance = isOn ? new Maintenance(partition, settings.config, log, undefined, settings.file) : undefined;
    maintenance?.start();
  };
  const roles = new RoleKeeper(
    { settings, log, store: partition.store, setUpkeep },
    startReplica(settings, partition.store, log),
  );
  let endRotation: (() => void) | undefined;
  try {
    const handle = await createServer(settings, partition, log);
    server = handle;
    const stopReason = waitForStop();
    const reloader = new SettingsReloader(sources, settings.config, log, partition.schema, () =>
      handle.renewCertificate(),
    );
    process.on(SIGHUP, () => void reloader.reload(SIGHUP));
    const urls = await handle.listen();
    const routes = [
      ...watchRoutes(ask, partition.schema),
      ...[reloadRoute(reloader), auditRoute(settings.config)],
      ...[replicationRoute(ask, partition.store), promoteRoute(roles)],
    ];
    httpServers.push(...(await openControlServer(settings, routes, log)));
    phase = 'serving';
    const suffixes = partition.settings.suffixes.join(' ');
    const allUrls = http ? [...urls, http.url] : urls;
    process.stdout.write(`rowan ready: ${allUrls.join(' ')} pid ${process.pid} suffixes ${suffixes}\n`);
    onReady?.(urls);
    notifyReady(log);
    await roles.start();
    endRotation = startRotation(settings.config, log);
    const ended = await Promise.race([stopReason, roles.failed]);
    if (ended instanceof Error) throw ended;
    log.info({ reason: ended }, 'stopping');
  } finally {
    phase = 'stopping';
    endRotation?.();
    await server?.close();
    await Promise.all(httpServers.map(closeHttpServer));
    partition.store.beginClose?.();
    await maintenance?.stop();
    await roles.stop();
    await directory.close();
  }
}

/** Logs when this process may open fewer files than `limits.connections` needs. */
async function warnOfFileLimit(config: Config, log: Logger): Promise<void> {
  const { compareFileLimit } = await import('../doctor/machine.js');
  const finding = compareFileLimit(config, process.pid, 'this process');
  if (finding?.state === 'warning') log.warn(`${finding.text}; ${finding.remedy}`);
}

/** Opens the HTTP listener for health checks and metrics, if there is to be one. */
async function openHttp(settings: Settings, source: HealthSource, log: Logger): Promise<HttpListener | undefined> {
  const { listen, tokenFile } = settings.config.http;
  if (listen === undefined) return undefined;
  const { openHttpListener } = await import('../http/http-listener.js');
  const { healthRoutes } = await import('../http/health.js');
  const { metricsRoute } = await import('../http/metrics.js');
  const routes = [...healthRoutes(source), metricsRoute(settings, source)];
  return openHttpListener(listen, tokenFile, routes, log);
}

export function addServe(program: Command): void {
  addSettingFlags(directoryCommand(program, 'serve', 'serve the directory to LDAP clients', EXAMPLES)).action(
    (_options: object, command: Command) => serve(resolveSettings(command), configSources(command)),
  );
}

/**
 * Tells systemd that the server is ready (`Type=notify`), and from then on feeds its watchdog from the event loop,
 * twice in `WATCHDOG_USEC` microseconds: systemd restarts a process whose event loop stands still. Does nothing without
 * systemd. See sd_notify(3) and sd_watchdog_enabled(3).
 */
function notifyReady(log: Logger): void {
  const { NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID = process.pid } = process.env;
  if (!NOTIFY_SOCKET) return;
  notify('READY=1', log);
  const intervalMs = Number(WATCHDOG_USEC) / 1000 / 2;
  const isWatched = intervalMs > 0 && Number(WATCHDOG_PID) === process.pid;
  if (isWatched) setInterval(() => notify('WATCHDOG=1', log), intervalMs).unref();
}

/** Sends a message by way of systemd's own program, since Node has no datagram sockets of the Unix domain. */
function notify(message: string, log: Logger): void {
  const handleEnd = (error: unknown): void => {
    if (error) log.error({ reason: (error as Error).message }, `systemd could not be told ${message}`);
  };
  try {
    execFile('systemd-notify', [message], handleEnd);
  } catch (error) {
    // Node throws some of the failures to start a program.
    handleEnd(error);
  }
}

/** Milliseconds between two checks for npm. */
const POLL_MS = 300;

/** Returns the parent of a process; undefined without `/proc`. */
function parentPidOf(pid: number): number | undefined {
  try {
    // The process name, in parentheses, may contain anything. State and parent follow it.
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    // The process has ended, or there is no `/proc`.
    return undefined;
  }
}

/** Whether the process is a shell that runs a command line (`-c`). */
function isShell(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')[1] === '-c';
  } catch {
    // The process has ended, or there is no `/proc`.
    return false;
  }
}

/**
 * Calls `onEnd` when npm, or the shell in which npm runs a script, has ended. Only applies if `npx rowan`, `npm start`
 * or another script that names rowan has started this process. On SIGTERM npm signals only its shell, which dies
 * without notifying this process. A script that puts rowan into the background with `&` wants rowan to outlive npm:
 * nothing is watched then, nor without npm. Returns a function that stops watching.
 */
function watchNpm(onEnd: () => void): () => void {
  const script = process.env.npm_lifecycle_script ?? '';
  if (!/\browan\b/.test(script) || /(?<![&>])&(?![&>])/.test(script)) return () => undefined;
  const parentPid = process.ppid;
  const npmPid = isShell(parentPid) ? parentPidOf(parentPid) : undefined;
  const timer = setInterval(() => {
    if (process.ppid === parentPid && (npmPid === undefined || parentPidOf(parentPid) === npmPid)) return;
    clearInterval(timer);
    onEnd();
  }, POLL_MS).unref();
  return () => clearInterval(timer);
}
