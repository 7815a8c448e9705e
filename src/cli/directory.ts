import { initDirectory, Partition } from '../partition/index.js';
import { hashPassword } from '../password/index.js';
import { Schema } from '../schema/index.js';
import type { Store } from '../store/contract.js';
import { openLmdbStore } from '../store/lmdb/index.js';
import type { Settings } from './options.js';

/** The directory that a command works with. */
export interface OpenDirectory {
  readonly partition: Partition;
  readonly schema: Schema;
  /** Folder of the store. */
  readonly data: string;
  close(): Promise<void>;
}

function loadSchema({ config }: Settings): Schema {
  return Schema.load({ extra: config.schema.folders, nis: config.schema.nis });
}

export interface OpenOptions {
  readonly readOnly?: boolean;
}

/** Opens what `rowan init` has made. */
export async function openDirectory(settings: Settings, options: OpenOptions = {}): Promise<OpenDirectory> {
  const schema = loadSchema(settings);
  const store = await openLmdbStore(settings.data, { create: false, readOnly: options.readOnly === true });
  const partition = await closingOnFailure(store, () => Partition.open(store, schema));
  return { partition, schema, data: settings.data, close: () => partition.close() };
}

async function closingOnFailure<T>(store: Store, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Opens the directory, does the work, and closes it whatever happens. */
export async function withDirectory<T>(
  settings: Settings,
  options: OpenOptions,
  work: (directory: OpenDirectory) => Promise<T>,
): Promise<T> {
  const directory = await openDirectory(settings, options);
  try {
    return await work(directory);
  } finally {
    await directory.close();
  }
}

export interface NewDirectory {
  readonly suffixes: readonly string[];
  readonly adminDn: string;
  /** In the clear. */
  readonly adminPassword: Buffer;
}

/** Makes a directory in the data folder. */
export async function createDirectory(
  settings: Settings,
  { suffixes, adminDn, adminPassword }: NewDirectory,
): Promise<void> {
  const schema = loadSchema(settings);
  // What is wrong with a DN is said before there is a folder.
  for (const dn of [...suffixes, adminDn]) schema.parseDn(dn);
  const { passwords } = settings.config;
  const stored = await hashPassword(adminPassword, { scheme: passwords.scheme, argon2: passwords.argon2 });
  const store = await openLmdbStore(settings.data, { create: true });
  await closingOnFailure(store, () => initDirectory(store, { suffixes, adminDn, adminPassword: stored }, schema));
  await store.close();
}
