import { initDirectory, Partition, parseSuffixes } from '../partition/index.js';
import { hashPassword } from '../password/index.js';
import { Schema } from '../schema/index.js';
import type { Store } from '../store/contract.js';
import { CliError } from './exit.js';
import type { Settings } from './options.js';
import { openStore, type StoreOptions } from './store.js';

/** The directory that a command works with. */
export interface OpenDirectory {
  readonly partition: Partition;
  readonly schema: Schema;
  /** Where the store is: its folder, or an `hbase://` URL. */
  readonly address: string;
  close(): Promise<void>;
}

function loadSchema({ config }: Settings): Schema {
  return Schema.load({ extra: config.schema.folders, nis: config.schema.nis });
}

export interface OpenOptions extends Omit<StoreOptions, 'create'> {
  /** Number of this process among those of one server. */
  readonly worker?: number;
}

/** Opens what `rowan init` has made. */
export async function openDirectory(settings: Settings, options: OpenOptions = {}): Promise<OpenDirectory> {
  const schema = loadSchema(settings);
  const store = await openStore(settings.store, settings.config, { ...options, create: false });
  const partition = await closingOnFailure(store, () =>
    Partition.open(store, schema, { process: options.worker ?? 0 }),
  );
  return { partition, schema, address: settings.store, close: () => partition.close() };
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

/** Makes a directory where there is none. */
export async function createDirectory(
  settings: Settings,
  { suffixes, adminDn, adminPassword }: NewDirectory,
): Promise<void> {
  const schema = loadSchema(settings);
  // What is wrong with a DN is said before there is a folder.
  parseSuffixes(suffixes, schema);
  schema.parseDn(adminDn);
  const { passwords } = settings.config;
  const stored = await hashPassword(adminPassword, { scheme: passwords.scheme, argon2: passwords.argon2 });
  const store = await openStore(settings.store, settings.config, { create: true });
  await closingOnFailure(store, async () => {
    if ((await store.tables()).length > 0) throw new CliError(`${settings.store} has a directory already`);
    await initDirectory(store, { suffixes, adminDn, adminPassword: stored }, schema);
  });
  await store.close();
}
