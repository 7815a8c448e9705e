import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Preset, presetText } from '../access/presets.js';
import { LdapError } from '../ldap/ldap-error.js';
import { initDirectory, Partition, parseNames, storedSource } from '../partition/index.js';
import { hashPassword } from '../password/index.js';
import { filesDifference, Schema, SchemaError, type SchemaSource } from '../schema/index.js';
import type { AttributeDescription, Dn } from '../schema/schema-types.js';
import { hashPolicyOf } from '../server/passwords/hash-policy.js';
import type { Config } from '../server/settings/index.js';
import type { Store } from '../store/contract.js';
import { openLmdbStore } from '../store/lmdb/index.js';
import { TrialStore } from '../store/trial.js';
import { CliError, describeError, UsageError } from './exit.js';
import { tellInterruption } from './interruption.js';
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

/** The schema that the settings give to a new directory. */
export function givenSchema({ config }: Settings): Schema {
  return readFolders(() => Schema.load({ extra: config.schema.folders, nis: config.schema.nis }));
}

/** What reads schema folders: where one of them is not as it has to be, the settings are wrong. */
export function readFolders<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof SchemaError) throw new UsageError(error.message, { cause: error });
    throw error;
  }
}

/** The directory's own schema. One that does not say which it has gets that of the settings. */
async function schemaOf(store: Store, settings: Settings, anySchema: boolean): Promise<Schema> {
  const source = await storedSource(store);
  if (!source) return givenSchema(settings);
  const difference = anySchema ? undefined : schemaDifference(source, settings.config.schema);
  if (difference !== undefined) {
    throw new UsageError(
      `${difference}. Leave schema.folders and schema.nis away to go on with the directory's schema; "rowan schema set" gives it another`,
    );
  }
  return Schema.of(source);
}

/** In what the schema that is asked for is another than the directory's. */
function schemaDifference(source: SchemaSource, { nis, folders }: Config['schema']): string | undefined {
  if (nis !== undefined && nis !== source.nis)
    return `schema.nis is ${nis}, and the directory's NIS schema ${source.nis}`;
  return folders.length === 0 ? undefined : readFolders(() => filesDifference(source.files, folders));
}

export interface OpenOptions extends Omit<StoreOptions, 'create'> {
  /** Number of this process among those of one server. */
  readonly worker?: number;
  /** The settings may name another schema than the directory has: they say what it shall have. */
  readonly anySchema?: boolean;
}

/** Opens what `rowan init` has made. */
export async function openDirectory(settings: Settings, options: OpenOptions = {}): Promise<OpenDirectory> {
  const { worker = 0, anySchema = false, ...storeOptions } = options;
  const store = await openStore(settings.store, settings.config, { ...storeOptions, create: false });
  return closingOnFailure(store, async () => {
    const schema = await schemaOf(store, settings, anySchema);
    const partition = await Partition.open(store, schema, { process: worker, readOnly: options.readOnly ?? false });
    return { partition, schema, address: settings.store, close: () => partition.close() };
  });
}

async function closingOnFailure<T>(store: Store, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Opens the directory, does a command's work, and closes it whatever happens. */
export async function withDirectory<T>(
  settings: Settings,
  options: OpenOptions,
  work: (directory: OpenDirectory) => Promise<T>,
): Promise<T> {
  const directory = await openDirectory(settings, { patient: true, ...options });
  try {
    return await work(directory);
  } finally {
    await directory.close();
  }
}

/** Does the work with a directory that is as this one but for what the work writes, which is forgotten. */
export async function onTrial(
  { partition: { store }, schema, address }: OpenDirectory,
  work: (directory: OpenDirectory) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'rowan-dry-run-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  const quiet = tellInterruption(() => {
    remove();
    return '';
  });
  try {
    const trial = await TrialStore.over(store, await openLmdbStore(folder, { create: true }));
    const partition = await Partition.open(trial, schema, { readOnly: true });
    const close = () => partition.close();
    await work({ partition, schema, address, close }).finally(close);
  } finally {
    quiet();
    remove();
  }
}

/** What the command line asks for: where a name in it is none, the command line is wrong. */
function asked<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof LdapError) throw new UsageError(describeError(error), { cause: error });
    throw error;
  }
}

/** A DN of the command line. */
export function askedDn(schema: Schema, text: string): Dn {
  return asked(() => schema.parseDn(text));
}

/** An attribute of the command line. */
export function askedAttribute(schema: Schema, text: string): AttributeDescription {
  return asked(() => schema.requireDescription(text));
}

export interface NewDirectory {
  readonly suffixes: readonly string[];
  readonly adminDn: string;
  /** In the clear; asked for once the names are known to be right. */
  readonly adminPassword: () => Promise<Buffer>;
  /** Whose rules it begins with. */
  readonly access: Preset;
}

/** Makes a directory where there is none. */
export async function createDirectory(
  settings: Settings,
  { suffixes, adminDn, adminPassword, access }: NewDirectory,
): Promise<void> {
  const schema = givenSchema(settings);
  // What is wrong with a DN is said before there is a folder.
  asked(() => parseNames({ suffixes, adminDn }, schema));
  const stored = await hashPassword(await adminPassword(), hashPolicyOf(settings.config));
  const store = await openStore(settings.store, settings.config, { create: true });
  await closingOnFailure(store, async () => {
    if ((await store.tables()).length > 0) throw new CliError(`${settings.store} has a directory already`);
    const made = { suffixes, adminDn, adminPassword: stored, access: presetText(access, schema) };
    await initDirectory(store, made, schema);
  });
  await store.close();
}
