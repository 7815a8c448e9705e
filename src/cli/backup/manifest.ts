import { createHash } from 'node:crypto';
import { createReadStream, existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { copyMessages } from '../../replica/sender.js';
import type { Store } from '../../store/contract.js';
import { findDamagedPages, openLmdbStore } from '../../store/lmdb/index.js';
import { EMPTY } from '../../store/row.js';
import { replaceFile } from '../atomic-file.js';
import { CliError, describeError, ExitCode } from '../exit.js';

/** What a backup is, in `backup.json`. A folder without this file is no backup, or not a whole one. */
export interface Manifest {
  readonly format: 1;
  /** The time at which the backup was begun, ISO 8601. */
  readonly time: string;
  /** The folder or `hbase://` URL of the directory. */
  readonly from: string;
  /** Set while changes are being added to the backup. */
  readonly isUpdating?: boolean;
  /** Of the data file, hexadecimal. */
  readonly sha256: string;
  readonly tables: Readonly<Record<string, TableSum>>;
  /** Of the file of settings, if there is one. */
  readonly settingsSha256?: string | undefined;
}

/** The manifest in its file, and the sum of its JSON without this field. */
type SummedManifest = Manifest & { readonly manifestSha256: string };

interface TableSum {
  /** Number of rows; of an index, of postings. */
  readonly rows: number;
  readonly sha256: string;
}

/** Called when `count` more rows of a table are read. */
export type OnRows = (table: string, count: number) => void;

const MANIFEST_FILE = 'backup.json';
export const DATA_FILE = 'data.mdb';
export const SETTINGS_FILE = 'settings.yaml';

/** Throws if the folder has no whole backup, or anything but plain files. */
export function readManifest(folder: string): Manifest {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  if (!names.includes(MANIFEST_FILE))
    throw new CliError(`${folder} is no backup: it has no ${MANIFEST_FILE}, which a whole one has`, {
      exitCode: ExitCode.usage,
    });
  const strange = names.find((name) => !lstatSync(join(folder, name)).isFile());
  if (strange !== undefined) throw new CliError(`${folder} is no backup: ${JSON.stringify(strange)} is no plain file`);
  const { manifestSha256, ...manifest } = parseManifest(join(folder, MANIFEST_FILE));
  if (manifest.format !== 1) throw new CliError(`${folder} is a backup of another version of Rowan`);
  if (manifestSha256 !== sha256(JSON.stringify(manifest)))
    throw new CliError(`${join(folder, MANIFEST_FILE)} is damaged`);
  // LMDB cannot tell that a file shorter than its first pages is none of its own.
  if (!names.includes(DATA_FILE) || lstatSync(join(folder, DATA_FILE)).size === 0)
    throw new CliError(`${join(folder, DATA_FILE)} is missing or empty`);
  return manifest;
}

function parseManifest(file: string): Partial<SummedManifest> & Manifest {
  try {
    return { ...(JSON.parse(readFileSync(file, 'utf8')) as SummedManifest) };
  } catch {
    throw new CliError(`${file} is damaged: it is no JSON`);
  }
}

export function writeManifest(folder: string, manifest: Manifest): void {
  const summed: SummedManifest = { ...manifest, manifestSha256: sha256(JSON.stringify(manifest)) };
  replaceFile(join(folder, MANIFEST_FILE), `${JSON.stringify(summed, undefined, 2)}\n`);
}

function sha256(bytes: string | Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Returns the sum of the file of settings in a backup; undefined: there is none. */
export function settingsSum(folder: string): string | undefined {
  const file = join(folder, SETTINGS_FILE);
  return existsSync(file) ? sha256(readFileSync(file)) : undefined;
}

/** Reads a whole backup. Resolves with its sums. */
export async function sumBackup(folder: string, onRows?: OnRows): Promise<Pick<Manifest, 'sha256' | 'tables'>> {
  const store = await openLmdbStore(folder, { readOnly: true });
  try {
    const tables: Record<string, TableSum> = {};
    for (const { name } of await store.tables()) tables[name] = await sumTable(store, name, onRows);
    const fileHash = createHash('sha256');
    await pipeline(createReadStream(join(folder, DATA_FILE)), fileHash);
    return { sha256: fileHash.digest('hex'), tables };
  } finally {
    await store.close();
  }
}

async function sumTable(store: Store, table: string, onRows?: OnRows): Promise<TableSum> {
  const specs = (await store.tables()).filter(({ name }) => name === table);
  const hash = createHash('sha256');
  const add = (...parts: readonly Buffer[]): void => {
    for (const part of parts) hash.update(`${part.length} `).update(part);
  };
  let rows = 0;
  const reader = store.snapshot();
  try {
    for await (const message of copyMessages(reader, specs, undefined)) {
      if (message.kind === 'touched') for (const { key, put } of message.rows) add(key, put);
      else {
        for (const { key, row, separate } of message.rows) add(key, row, separate ?? EMPTY);
        rows += message.rowCount;
        onRows?.(table, message.rowCount);
      }
    }
  } finally {
    reader.close();
  }
  return { rows, sha256: hash.digest('hex') };
}

/** Reads a whole backup. Resolves with what is damaged, one line each. */
export async function verifyBackup(folder: string, onRows?: OnRows): Promise<string[]> {
  const manifest = readManifest(folder);
  if (manifest.isUpdating)
    return ['changes were being added when the process ended: repeat "rowan backup --incremental"'];
  const findings = await findDamagedPages(folder);
  if (settingsSum(folder) !== manifest.settingsSha256) findings.push(`${SETTINGS_FILE} is not as it was`);
  if (findings.length > 0) return findings;
  try {
    const { sha256, tables } = await sumBackup(folder, onRows);
    const names = [...new Set([...Object.keys(manifest.tables), ...Object.keys(tables)])];
    const damaged = names.filter((name) => tables[name]?.sha256 !== manifest.tables[name]?.sha256);
    for (const name of damaged) findings.push(`table ${name} has other rows than when the backup was made`);
    if (findings.length === 0 && sha256 !== manifest.sha256)
      findings.push(`${DATA_FILE} is not as it was made, but all tables have the rows that they had`);
  } catch (error) {
    findings.push(describeError(error));
  }
  return findings;
}

/** Whether a folder of backups has a backup of this name: each is named for its time. */
export function isBackupName(name: string): boolean {
  return /^\d{8}T\d{6}Z$/.test(name);
}

/** Returns the names of the backups in a folder, the oldest first. */
export function backupNames(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => isBackupName(name) && existsSync(join(folder, name, MANIFEST_FILE)))
    .sort();
}

/** The name of a backup of a time, milliseconds since 1970. */
export function nameAt(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
}

/** Returns the newest whole backup in a folder. */
export function newestBackup(folder: string): { readonly folder: string; readonly time: string } | undefined {
  const name = backupNames(folder).at(-1);
  return name === undefined ? undefined : { folder: join(folder, name), time: readManifest(join(folder, name)).time };
}
