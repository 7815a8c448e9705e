import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { trimChanges } from '../../partition/feed/history.js';
import { Applier, Group } from '../../replica/applier.js';
import { beginLog, lastEntry, readHistory } from '../../replica/history.js';
import { copyMessages, sendChanges, tablesOf } from '../../replica/sender.js';
import { decodeMessage } from '../../replica/wire.js';
import type { Store } from '../../store/contract.js';
import { openLmdbStore } from '../../store/lmdb/index.js';
import { LOG_TABLE } from '../../store/log.js';
import { keysOf } from '../../store/maybe.js';
import { counterBytes } from '../../store/row.js';
import { copyDirectory } from '../copy/copier.js';
import { CliError } from '../exit.js';
import {
  backupNames,
  DATA_FILE,
  isBackupName,
  type Manifest,
  nameAt,
  type OnRows,
  readManifest,
  SETTINGS_FILE,
  settingsSum,
  sumBackup,
  writeManifest,
} from './manifest.js';

/** How often the last changes are read until nothing was written meanwhile. */
const MAX_TRIES = 1000;

export interface BackupSource {
  readonly store: Store;
  /** The folder or `hbase://` URL of the directory. */
  readonly address: string;
  /** The file of settings, which is copied. */
  readonly settingsFile: string | undefined;
}

/**
 * Makes a backup of a directory, which may change meanwhile: a folder with the data of one moment, the settings and the
 * manifest. The folder appears when it is whole and was read once. `keepsLog`: changes can be added to it later.
 */
export async function makeBackup(
  source: BackupSource,
  folder: string,
  keepsLog: boolean,
  onRows?: OnRows,
): Promise<Manifest> {
  if (existsSync(folder) && readdirSync(folder).length > 0)
    throw new CliError(`${folder} exists already; name another folder, or add the changes since with --incremental`);
  const part = makePart(folder);
  let time = new Date().toISOString();
  try {
    if (keepsLog) await beginLog(source.store);
    if (source.store.copyTo) await source.store.copyTo(part);
    else {
      await copyRows(source.store, part, keepsLog, onRows);
      time = new Date().toISOString();
    }
    const manifest = await complete(source, part, time, onRows);
    renameSync(part, folder);
    sync(dirname(folder));
    return manifest;
  } catch (error) {
    rmSync(part, { recursive: true, force: true });
    throw error;
  }
}

/** Adds the changes since a backup was made to the backup. */
export async function updateBackup(source: BackupSource, folder: string, onRows?: OnRows): Promise<Manifest> {
  const former = readManifest(folder);
  const target = await openLmdbStore(folder, { create: false, follows: true });
  try {
    const position = await lastEntry(target);
    if (!(await hasSameEntry(source.store, target, position)))
      throw new CliError(
        `the log of changes does not go back to the backup in ${folder}: make one in another folder, with --incremental`,
      );
    writeManifest(folder, { ...former, isUpdating: true });
    await follow(source.store, new Applier(target, LOG_TABLE, new Group(target)), position);
    await trimChanges(target, Number.POSITIVE_INFINITY, undefined, LOG_TABLE.name);
  } finally {
    await target.close();
  }
  return complete(source, folder, new Date().toISOString(), onRows);
}

/** Whether both stores have the same entry of the log under this number, the last one of the backup. */
async function hasSameEntry(source: Store, target: Store, position: bigint): Promise<boolean> {
  if (!(await source.tables()).some(({ name }) => name === LOG_TABLE.name)) return false;
  if (position === 0n) return true;
  const key = counterBytes(position);
  const [a, b] = [await source.get(LOG_TABLE.name, key), await target.get(LOG_TABLE.name, key)];
  return a !== undefined && b !== undefined && a.equals(b);
}

/** Copies all rows to a new store in a folder. Of an engine without snapshots, the changes meanwhile follow. */
async function copyRows(source: Store, folder: string, keepsLog: boolean, onRows?: OnRows): Promise<void> {
  const target = await openLmdbStore(folder, { create: true, follows: true });
  try {
    if (source.supports.snapshot) return await copyDirectory(source, target, onRows ?? (() => undefined));
    const isNewLog = await beginLog(source);
    const start = await lastEntry(source);
    // A copy that is interrupted is dropped: groups of changes need not be whole.
    const applier = new Applier(target);
    const specs = await tablesOf(source);
    await applier.apply({ kind: 'tables', specs });
    for await (const message of copyMessages(source, specs, undefined)) {
      if (message.kind === 'load') onRows?.(message.table, message.rowCount);
      await applier.apply(message);
      await applier.flush();
    }
    await follow(source, applier, start);
    if (!isNewLog || keepsLog) return;
    await target.dropTable(LOG_TABLE.name);
    if ((await readHistory(source)).grants.size === 0) await source.dropTable(LOG_TABLE.name);
  } finally {
    await target.close();
  }
}

/**
 * Applies the changes from a position up to those that there are now. Rows of an engine without snapshots may be newer
 * than the changes that are applied: the copy is of one moment when no change was made while the last ones were read.
 */
async function follow(source: Store, applier: Applier, position: bigint): Promise<void> {
  let reached = position;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    await source.waitUntilQuiet?.();
    source.renewReads?.();
    // Numbers have gaps in HBase: the last entry may be below the number up to which there are no more to come.
    const range = { to: counterBytes((await lastEntry(source)) + 1n) };
    const [key] = await keysOf(source.scan(LOG_TABLE.name, range, { reverse: true, limit: 1, keysOnly: true }));
    const last = key?.readBigUInt64BE() ?? 0n;
    if (last <= reached) return;
    await followUpTo(source, applier, reached, last);
    reached = last;
    if (source.supports.snapshot) return;
  }
  throw new CliError(
    `${MAX_TRIES} times in a row something was written while the last changes were read; try again when less is written, or take snapshots of the tables`,
  );
}

async function followUpTo(source: Store, applier: Applier, position: bigint, last: bigint): Promise<void> {
  const end = new AbortController();
  for await (const bytes of sendChanges(source, position, end.signal)) {
    const message = decodeMessage(bytes);
    if (message.kind === 'refused') throw new CliError(message.refusal.text);
    if ((await applier.apply(message)) && message.kind === 'end' && message.position >= last) return;
  }
}

/** Reads the copy, and writes its manifest. */
async function complete(source: BackupSource, folder: string, time: string, onRows?: OnRows): Promise<Manifest> {
  const { settingsFile } = source;
  if (settingsFile !== undefined) copyFileSync(settingsFile, join(folder, SETTINGS_FILE));
  const sums = { ...(await sumBackup(folder, onRows)), settingsSha256: settingsSum(folder) };
  const manifest: Manifest = { format: 1, time, from: source.address, ...sums };
  sync(join(folder, DATA_FILE));
  writeManifest(folder, manifest);
  for (const name of readdirSync(folder)) {
    chmodSync(join(folder, name), 0o600);
    sync(join(folder, name));
  }
  sync(folder);
  return manifest;
}

/** Makes a file, or the list of the files of a folder, durable. */
export function sync(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Makes the folder in which a folder comes into being. What a killed process has left of it is removed. */
function makePart(folder: string): string {
  const part = `${folder}.part`;
  rmSync(part, { recursive: true, force: true });
  // Not one that is there already: it may be somebody else's.
  mkdirSync(part, { mode: 0o700 });
  return part;
}

/**
 * Copies the data of a backup to a folder, which appears when it is whole and `work` on it has ended. Settings and
 * manifest stay behind.
 */
export async function copyData(backup: string, folder: string, work?: (part: string) => Promise<void>): Promise<void> {
  const part = makePart(folder);
  try {
    for (const name of [DATA_FILE, 'rowan.json']) {
      copyFileSync(join(backup, name), join(part, name));
      sync(join(part, name));
    }
    await work?.(part);
    sync(part);
    renameSync(part, folder);
  } catch (error) {
    rmSync(part, { recursive: true, force: true });
    throw error;
  }
  sync(dirname(folder));
}

/**
 * Removes the backups of a folder that are older than `days`, but the newest, and what killed processes have left of
 * some. Returns the names that it keeps.
 */
export function removeOld(folder: string, days: number): string[] {
  for (const name of readdirSync(folder))
    if (name.endsWith('.part') && isBackupName(name.slice(0, -5))) rmSync(join(folder, name), { recursive: true });
  const names = backupNames(folder);
  const oldest = nameAt(Date.now() - days * 86_400_000);
  const old = names.slice(0, -1).filter((name) => name < oldest);
  for (const name of old) rmSync(join(folder, name), { recursive: true });
  return names.filter((name) => !old.includes(name));
}
