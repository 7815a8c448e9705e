import { stat, statfs } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { SPARE_CONNECTIONS } from '../../server/listen/listener.js';
import { openFilesLimit } from '../../server/processes/open-files.js';
import type { Config } from '../../server/settings/index.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { DATA_FILE } from '../../store/lmdb/file/data-file.js';
import { memoryLimit } from '../../store/lmdb/file/environment.js';
import { ControlClient } from '../control-client.js';
import { formatNumber, pluralize } from '../exit.js';
import type { Settings } from '../options.js';
import { growthRules } from '../workers/growth.js';
import { type Finding, fault, ok, warning } from './finding.js';

/** Files that a process has open besides its connections: data, libraries, pipes to workers. */
const OWN_FILES = 128;
const MIB = 1024 ** 2;
/** Memory of a process and of its thread for long work without requests. */
const PROCESS_BYTES = 192 * MIB;
/** Free space below which writes are about to fail. */
const MIN_FREE_BYTES = 100 * MIB;
/** Hashes that a process computes at a time. */
const HASHES = 4;
const BYTES_PER_CREDENTIAL = 40;

const inMiB = (bytes: number): string => `${formatNumber(bytes / MIB)} MiB`;

/** Compares the limit of open files of a process with `limits.connections`; undefined where nothing tells the limit. */
export function compareFileLimit({ limits }: Config, pid: number, holder: string): Finding | undefined {
  const neededCount = limits.connections + SPARE_CONNECTIONS + OWN_FILES;
  const limit = openFilesLimit(pid);
  if (limit === undefined) return undefined;
  const text = `${holder} may open ${limit} files; limits.connections (${limits.connections}) needs ${neededCount}`;
  if (limit >= neededCount) return ok(text);
  return warning(text, `set LimitNOFILE=${neededCount} in the service, or a smaller limits.connections`);
}

/** Compares the limit of open files of the running servers, or of this process, with `limits.connections`. */
export async function checkFiles({ config }: Settings): Promise<Finding[]> {
  const pids = (await ControlClient.findAll(config)).map(({ pid }) => pid);
  const findings: Finding[] = [];
  for (const pid of pids.length > 0 ? pids : [process.pid]) {
    const holder = pids.length > 0 ? `the server with pid ${pid}` : 'a server started here';
    const unknown = warning('this system does not tell its limit of open files', 'see "ulimit -n"');
    findings.push(compareFileLimit(config, pid, holder) ?? unknown);
  }
  return findings;
}

/** Compares what the limits let requests, answers and hashes take with the memory of the machine or container. */
export async function checkMemory({ config }: Settings): Promise<Finding[]> {
  const { limits, workers, credentialCache, passwords } = config;
  const memoryBytes = memoryLimit();
  const processCount = workers === 'auto' ? growthRules().maxProcesses : workers > 1 ? workers + 1 : 1;
  const processBytes =
    PROCESS_BYTES +
    // The bytes of requests, and what requests take when they are decoded.
    Math.max(limits.requestBytes, limits.messageBytes) +
    limits.requestBytes +
    limits.allUnsentBytes +
    (credentialCache.enabled ? credentialCache.entries * BYTES_PER_CREDENTIAL : 0) +
    HASHES * passwords.argon2.memoryKiB * 1024;
  const neededBytes = processCount * processBytes;
  const processesText = pluralize(processCount, 'process', 'processes');
  const holder = memoryBytes < totalmem() ? 'the cgroup allows' : 'the machine has';
  const text = `the limits let ${processesText} take ${inMiB(neededBytes)} at most; ${holder} ${inMiB(memoryBytes)}`;
  const remedy = 'use fewer workers, smaller limits.requestBytes and limits.allUnsentBytes, or more memory';
  return [neededBytes <= memoryBytes ? ok(text) : warning(text, remedy)];
}

/** Checks the room on the device of the data folder. */
export async function checkDisk({ store }: Settings): Promise<Finding[]> {
  if (isHBaseUrl(store)) return [ok('the data is in HBase')];
  const { bavail, bsize } = await statfs(store);
  const freeBytes = bavail * bsize;
  const { size: dataBytes } = await stat(join(store, DATA_FILE));
  const text = `${inMiB(freeBytes)} are free at ${store}; the data file has ${inMiB(dataBytes)}`;
  const remedy = 'free some room, or move the data folder to a larger device';
  if (freeBytes < MIN_FREE_BYTES) return [fault(text, remedy)];
  return [freeBytes < dataBytes / 10 ? warning(text, remedy) : ok(text)];
}

/** Checks that nobody but the user of the server reads the data folder and secret files. */
export async function checkPermissions({ config, store }: Settings): Promise<Finding[]> {
  const folders = isHBaseUrl(store) ? [] : [store];
  const files = [config.tls.key, config.passwords.totpKey].filter((path) => path !== undefined);
  const findings: Finding[] = [];
  for (const path of [...folders, ...files]) {
    // Checks `settings` and `certificate` name a file that is missing.
    const { mode } = await stat(path).catch(() => ({ mode: 0 }));
    if (mode & 0o007) findings.push(warning(`all users of this machine may read ${path}`, `run "chmod o= ${path}"`));
  }
  return findings.length > 0 ? findings : [ok('other users of this machine read neither data nor keys')];
}
