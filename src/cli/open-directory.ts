import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { type Preset, presetText } from '../access/presets.js';
import { LdapError } from '../ldap/ldap-error.js';
import { initDirectory, Partition, parseNames, readSource } from '../partition/index.js';
import { splitKeys } from '../partition/model/tables.js';
import { hashPassword } from '../password/index.js';
import { hasHalfGroup } from '../replica/applier.js';
import { isNotedFollows } from '../replica/history.js';
import { readReplicaState, readState, writeRefusals } from '../replica/state-file.js';
import { filesDifference, Schema, SchemaError, type SchemaSource } from '../schema/index.js';
import type { AttributeDescription, Dn } from '../schema/schema-types.js';
import { CredentialReader } from '../server/passwords/credentials.js';
import { hashPolicyOf } from '../server/passwords/hash-policy.js';
import type { Config } from '../server/settings/index.js';
import type { Store } from '../store/contract.js';
import { type HBaseSettings, hbaseSettings, isHBaseUrl } from '../store/hbase/settings.js';
import { type LmdbOptions, openLmdbStore } from '../store/lmdb/index.js';
import { StoreError } from '../store/store-error.js';
import { withTrialStore } from '../store/trial.js';
import { CliError, describeError, UsageError } from './exit.js';
import { noteWriter, onInterruption } from './last-resort.js';
import { resolveSettings, type Settings } from './options.js';

export interface OpenDirectory {
  readonly partition: Partition;
  readonly schema: Schema;
  /** Place of the store: its folder, or an `hbase://` URL. */
  readonly address: string;
  close(): Promise<void>;
}

export function configuredSchema({ config }: { readonly config: Pick<Settings['config'], 'schema'> }): Schema {
  const warn = (message: string): void => void process.stderr.write(`rowan: warning: ${message}\n`);
  return rejectAsUsage(() => Schema.load({ extra: config.schema.folders, nis: config.schema.nis, warn }));
}

/** Runs `work` on what a user has given. Errors of schema folders and of names become a `UsageError`. */
export function rejectAsUsage<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    const isMistake = error instanceof LdapError || error instanceof SchemaError;
    if (isMistake) throw new UsageError(describeError(error), { cause: error });
    throw error;
  }
}

/** Returns the schema stored in the directory; that of the settings when none is stored. */
async function loadSchema(store: Store, settings: Settings, allowsAnySchema: boolean): Promise<Schema> {
  const source = await readSource(store);
  if (!source) return configuredSchema(settings);
  const difference = allowsAnySchema ? undefined : schemaDifference(source, settings.config.schema);
  if (difference !== undefined) {
    throw new UsageError(
      `${difference}. Leave schema.folders and schema.nis away to go on with the directory's schema; "rowan schema set" gives it another`,
    );
  }
  return Schema.of(source);
}

/** Returns how the schema of the settings differs from that of the directory; undefined when it does not. */
export function schemaDifference(source: SchemaSource, { nis, folders }: Config['schema']): string | undefined {
  if (nis !== undefined && nis !== source.nis)
    return `schema.nis is ${nis}, and the directory's NIS schema ${source.nis}`;
  return folders.length === 0 ? undefined : rejectAsUsage(() => filesDifference(source.files, folders));
}

export interface OpenOptions extends Omit<StoreOptions, 'create'> {
  /** Number of this process among the processes of one server. */
  readonly worker?: number;
  /** Allows settings with a schema that differs from that of the directory, for commands that change the schema. */
  readonly anySchema?: boolean;
}

export async function openDirectory(settings: Settings, options: OpenOptions = {}): Promise<OpenDirectory> {
  const { worker = 0, anySchema = false, ...storeOptions } = options;
  const store = await openStore(settings.store, settings.config, { ...storeOptions, create: false });
  return closeOnFailure(store, async () => {
    const schema = await loadSchema(store, settings, anySchema);
    const partition = await Partition.open(store, schema, { process: worker, readOnly: options.readOnly ?? false });
    return { partition, schema, address: settings.store, close: () => partition.close() };
  });
}

async function closeOnFailure<T>(store: Store, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Opens the directory, runs `work`, and closes the directory whatever happens. */
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

/** Returns the action of a command: `work` with the directory, the arguments and the options of the command line. */
export function directoryAction<A extends readonly unknown[]>(
  options: OpenOptions,
  work: (directory: OpenDirectory, ...args: A) => Promise<void>,
): (...args: [...A, Command]) => Promise<void> {
  return (...args) =>
    withDirectory(resolveSettings(args[args.length - 1] as Command), options, (directory) =>
      work(directory, ...(args.slice(0, -1) as unknown as A)),
    );
}

/** Runs `work` on a trial copy of the directory. All writes go to a temporary store and are discarded. */
export async function withTrialDirectory(
  { partition: { store }, schema, address }: OpenDirectory,
  work: (directory: OpenDirectory) => Promise<void>,
): Promise<void> {
  const tryWork = async (trialStore: Store) => {
    noteWriter();
    const partition = await Partition.open(trialStore, schema, { readOnly: true });
    const close = () => partition.close();
    await work({ partition, schema, address, close }).finally(close);
  };
  await withTrialStore(store, tryWork, (removeFolder) =>
    onInterruption(() => {
      removeFolder();
      return '';
    }),
  );
}

/** Tells that the entry with the administrator's DN has a password; undefined: it has none, or is not there. */
export async function describeSecondPassword({ partition, schema }: OpenDirectory): Promise<string | undefined> {
  const { adminDn } = partition.settings;
  const found = await partition.findRow(schema.parseDn(adminDn));
  if (!found || new CredentialReader(partition.descriptions).read(found.row).passwords.length === 0) return undefined;
  return `there are two: the one that "rowan passwd" sets, and userPassword of the entry '${adminDn}'`;
}

export function parseDnArgument(schema: Schema, text: string): Dn {
  return rejectAsUsage(() => schema.parseDn(text));
}

export function parseAttributeArgument(schema: Schema, text: string): AttributeDescription {
  return rejectAsUsage(() => schema.requireDescription(text));
}

export interface NewDirectory {
  readonly suffixes: readonly string[];
  readonly adminDn: string;
  /** Returns the password in the clear. Called once the names are known to be valid. */
  readonly adminPassword: () => Promise<Buffer>;
  /** The preset of the initial access rules. */
  readonly access: Preset;
}

/** Creates a directory in an empty store. */
export async function createDirectory(
  settings: Settings,
  { suffixes, adminDn, adminPassword, access }: NewDirectory,
): Promise<void> {
  const schema = configuredSchema(settings);
  // Malformed DNs are reported before a folder is created.
  rejectAsUsage(() => parseNames({ suffixes, adminDn }, schema));
  const storedPassword = await hashPassword(await adminPassword(), hashPolicyOf(settings.config));
  const store = await openStore(settings.store, settings.config, { create: true });
  await closeOnFailure(store, async () => {
    if ((await store.tables()).length > 0) throw new CliError(`${settings.store} has a directory already`);
    const names = { suffixes, adminDn, adminPassword: storedPassword };
    await initDirectory(store, { ...names, access: presetText(access, schema) }, schema);
  });
  await store.close();
}

interface StoreOptions extends LmdbOptions {
  /** Creates a missing store. */
  readonly create: boolean;
  /** Waits for locks of a crashed command or server, even beyond `hbase.operationSeconds`. */
  readonly patient?: boolean;
  /** Writes whether or not the folder is a replica. */
  readonly anyRole?: boolean;
}

/** Returns the settings for the `hbase://` URL `address`. Throws `UsageError` for malformed ones. */
export async function readHBaseSettings(address: string, { hbase }: Config): Promise<HBaseSettings> {
  const fileText = hbase.site === undefined ? undefined : readFileSync(hbase.site, 'utf8');
  try {
    // Loaded on demand, since only few users need the parser.
    const siteSettings =
      fileText === undefined ? undefined : (await import('../store/hbase/site-file.js')).siteSettings(fileText);
    return hbaseSettings({
      url: address,
      site: siteSettings,
      rest: hbase.rest,
      durability: hbase.durability,
      operationTimeoutMs: hbase.operationSeconds * 1000,
      user: hbase.user,
      regions: hbase.regions,
      splitKeys,
    });
  } catch (error) {
    if (error instanceof StoreError) throw new UsageError(error.message);
    throw error;
  }
}

/** Milliseconds to wait for HBase before a message is printed. */
const WAIT_NOTICE_MS = 3000;

function printWaitNotice(address: string, { hbase }: Config): void {
  process.stderr.write(`rowan: ${address} does not answer yet; waiting for it, ${hbase.operationSeconds} s at most\n`);
}

/** Opens the store in a folder, or in HBase if `address` is an `hbase://` URL. */
export async function openStore(address: string, config: Config, options: StoreOptions): Promise<Store> {
  if (!options.readOnly) noteWriter();
  if (!isHBaseUrl(address)) {
    const replica = readReplicaState(address);
    if (replica?.copy && !options.follows && !options.anyRole)
      throw new CliError(`${address} is a replica whose copy is not complete; "rowan serve" goes on`);
    if (options.readOnly && hasHalfGroup(address))
      throw new CliError(
        `${address} has half of a large change: try again; "rowan serve" or "rowan promote" finishes it`,
      );
    const writeRefusal = options.anyRole ? undefined : writeRefusals(address);
    const store = await openLmdbStore(address, { ...options, writeRefusal });
    if (options.readOnly || options.anyRole || readState(address) || !(await isNotedFollows(store))) return store;
    await store.close();
    throw new CliError(
      `${address} has the data of a replica, and no replica.json: "rowan promote" makes it the primary of a new term; otherwise copy into an empty folder ("rowan replica init")`,
    );
  }
  const settings = await readHBaseSettings(address, config);
  // Loaded on demand, since LMDB users do not need it.
  const { openHBaseStore } = await import('../store/hbase/index.js');
  const noticeTimer = setTimeout(() => printWaitNotice(address, config), WAIT_NOTICE_MS);
  try {
    return await openHBaseStore(settings, { create: options.create, patient: options.patient ?? false });
  } finally {
    clearTimeout(noticeTimer);
  }
}

/** Throws when the folder is in use already. Tables in HBase are only checked once the store is open. */
export function requireEmptyFolder(address: string): void {
  if (isHBaseUrl(address) || !existsSync(address) || readdirSync(address).length === 0) return;
  throw new CliError(`${address} exists already and is not empty; choose another --data, or serve what is there`);
}
