import { existsSync, readdirSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { DISORDER_MS, type NumberedChange, recordsBack, timeMs } from '../../partition/feed/change-reader.js';
import { FormerRows } from '../../partition/history/former-rows.js';
import { undoChanges } from '../../partition/history/undo.js';
import { CHANGES_TABLE } from '../../partition/model/tables.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { openLmdbStore } from '../../store/lmdb/index.js';
import { copyData, makeBackup, updateBackup } from '../backup/backup.js';
import { readManifest, SETTINGS_FILE, verifyBackup } from '../backup/manifest.js';
import { writeSubtree } from '../backup/subtree.js';
import { copyDirectory } from '../copy/copier.js';
import { CliError, pluralize } from '../exit.js';
import {
  type OpenDirectory,
  openStore,
  parseDnArgument,
  requireEmptyFolder,
  withDirectory,
} from '../open-directory.js';
import { directoryCommand, resolveSettings, type Settings } from '../options.js';
import { Progress } from '../progress.js';
import { parseTime } from './search.js';

const EXAMPLES = `
Examples:
  Beside a running server, with its settings:
    rowan backup --config /etc/rowan.yaml --to /backup/monday
    rowan verify /backup/monday

  One that changes can be added to, and what has changed since:
    rowan backup --config /etc/rowan.yaml --to /backup/rowan --incremental

  All of it, as it was at a time before the backup:
    rowan restore /backup/tuesday --data /var/lib/rowan --as-of 2026-11-27T12:00Z

  All of it, or one branch of it, which somebody looks through first:
    rowan restore /backup/monday --data /var/lib/rowan
    rowan restore /backup/monday --data /var/lib/rowan --base ou=sales,dc=example,dc=com --ldif sales.ldif

A backup is a data folder: "rowan search --data /backup/monday" finds what was there.
`;

interface BackupFlags {
  readonly to: string;
  readonly incremental?: boolean;
}

interface RestoreFlags {
  readonly asOf?: number;
  readonly base?: string;
  readonly ldif?: string;
}

/** Calls the work with a function that shows how many rows are read. */
async function withProgress<T>(title: string, work: (onRows: (table: string, count: number) => void) => Promise<T>) {
  const progress = new Progress(title, 'rows');
  let rows = 0;
  try {
    return await work((_table, count) => {
      rows += count;
      progress.update(rows);
    });
  } finally {
    progress.finish();
  }
}

async function backup({ to, incremental = false }: BackupFlags, command: Command): Promise<void> {
  // Servers of the machine go first.
  setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
  const settings = resolveSettings(command);
  const folder = resolve(to);
  const isUpdate = incremental && existsSync(folder) && readdirSync(folder).length > 0;
  // Of an engine that is no file, and for later changes, the log of changes is begun, which is a write.
  const readOnly = !incremental && !isHBaseUrl(settings.store);
  const store = await openStore(settings.store, settings.config, { create: false, readOnly, patient: true });
  const source = { store, address: settings.store, settingsFile: settings.file };
  const { tables } = await withProgress('backup', (onRows) =>
    isUpdate ? updateBackup(source, folder, onRows) : makeBackup(source, folder, incremental, onRows),
  ).finally(() => store.close());
  const entries = pluralize(tables.master?.rows ?? 0, 'entry', 'entries');
  process.stdout.write(`${isUpdate ? 'brought up to date' : 'made and read'}: ${folder}, ${entries}\n`);
}

async function requireSound(folder: string): Promise<void> {
  const findings = await withProgress('verify', (onRows) => verifyBackup(folder, onRows));
  if (findings.length > 0) throw new CliError(`${folder} is damaged:\n${findings.join('\n')}`);
}

async function verify(folder: string): Promise<void> {
  await requireSound(folder);
  const { time, from, tables } = readManifest(folder);
  const entries = pluralize(tables.master?.rows ?? 0, 'entry', 'entries');
  // A manifest of somebody else may have escape sequences.
  const origin = JSON.stringify(`${from} at ${time}`).slice(1, -1);
  process.stdout.write(`sound: ${folder}, ${entries} of ${origin}\n`);
}

/** `work`: on the restored directory, before it appears if it is a folder. */
async function restoreAll(
  folder: string,
  settings: Settings,
  work: (settings: Settings) => Promise<void>,
): Promise<void> {
  const { store, config } = settings;
  if (isHBaseUrl(store)) {
    const source = await openLmdbStore(folder, { readOnly: true });
    const target = await openStore(store, config, { create: true, patient: true });
    try {
      await withProgress('restore', (onRows) => copyDirectory(source, target, onRows));
    } finally {
      await target.close();
      await source.close();
    }
    await work(settings);
  } else await copyData(folder, store, (part) => work({ ...settings, store: part }));
  process.stdout.write(`restored ${store}\n`);
  if (existsSync(join(folder, SETTINGS_FILE)))
    process.stdout.write(`the settings of its server are in ${join(folder, SETTINGS_FILE)}\n`);
}

/** Undoes the changes of entries that came after a time. Secrets, values over 64 KiB and all else stay. */
async function undoSince({ partition }: OpenDirectory, atMs: number): Promise<void> {
  const numbers: bigint[] = [];
  const settled = await partition.store.settled(CHANGES_TABLE.name);
  for await (const record of recordsBack(partition.store, settled, 0n)) {
    if (timeMs(record) <= atMs - DISORDER_MS) break;
    if (timeMs(record) > atMs) numbers.push(record.number);
  }
  const actor = { dn: partition.settings.adminDn, system: true };
  const tell = ({ dn }: NumberedChange, value: string): void =>
    void process.stderr.write(`rowan: not set back, of ${JSON.stringify(dn.toString())}: ${value}\n`);
  await undoChanges(partition, numbers, actor, () => undefined, tell);
  process.stdout.write(`undone: ${pluralize(numbers.length, 'change')} after ${new Date(atMs).toISOString()}\n`);
}

async function restoreBranch(folder: string, settings: Settings, baseText: string, ldif: string): Promise<void> {
  const counts = await withDirectory({ ...settings, store: folder }, { readOnly: true }, (former) =>
    withDirectory(settings, { readOnly: true }, (present) =>
      writeSubtree(former, present, parseDnArgument(former.schema, baseText), ldif),
    ),
  );
  const { added, changed, extra } = counts;
  process.stdout.write(`${ldif}: ${added} to add, ${changed} to change, ${extra} that the backup lacks\n`);
  if (added + changed > 0) process.stdout.write(`look it through, then "rowan import ${ldif}" applies it\n`);
}

async function restore(folder: string, { asOf, base, ldif }: RestoreFlags, command: Command): Promise<void> {
  if ((base === undefined) !== (ldif === undefined)) command.error("error: '--base' and '--ldif' go together");
  if (asOf !== undefined && base !== undefined) command.error("error: '--as-of' is for a whole directory");
  const settings = resolveSettings(command);
  if (base === undefined) requireEmptyFolder(settings.store);
  await requireSound(folder);
  if (base !== undefined) return restoreBranch(folder, settings, base, ldif!);
  const { time } = readManifest(folder);
  if (asOf === undefined) {
    await restoreAll(folder, settings, async () => undefined);
    process.stdout.write(`the directory is as it was at ${time}\n`);
    return;
  }
  if (asOf > Date.parse(time)) throw new CliError(`the backup is of ${time}, before the time of --as-of`);
  // Refused before anything is restored where change records do not go back so far.
  await withDirectory({ ...settings, store: folder }, { readOnly: true }, ({ partition }) =>
    FormerRows.open(partition.store, asOf),
  );
  await restoreAll(folder, settings, (restored) =>
    withDirectory(restored, {}, (directory) => undoSince(directory, asOf)),
  );
  process.stdout.write(
    `entries are as they were at ${new Date(asOf).toISOString()}, all else as at ${time}: access rules, states of accounts, constraints, indexes\n`,
  );
}

export function addBackup(program: Command): void {
  directoryCommand(program, 'backup', 'copy a directory to a folder, beside its servers', EXAMPLES)
    .requiredOption('--to <folder>', 'folder that does not exist yet; or a backup, with --incremental')
    .option('--incremental', 'add the changes since to the backup, or make one to which they can be added')
    .action(backup);
}

export function addVerify(program: Command): void {
  program
    .command('verify')
    .description('read a backup, and say what is damaged')
    .argument('<backup>', 'folder')
    .addHelpText('after', EXAMPLES)
    .action((folder: string) => verify(resolve(folder)));
}

export function addRestore(program: Command): void {
  directoryCommand(program, 'restore', 'make a directory of a backup, or LDIF of a branch of it', EXAMPLES)
    .argument('<backup>', 'folder')
    .option(
      '--as-of <time>',
      'entries as they were at this time, before the backup, such as 2026-11-27T12:00Z',
      parseTime,
    )
    .option('--base <dn>', 'only this entry and those below it, as LDIF for the directory that is there')
    .option('--ldif <file>', 'file for the LDIF, which only its owner may read')
    .action((folder: string, flags: RestoreFlags, command: Command) => restore(resolve(folder), flags, command));
}
