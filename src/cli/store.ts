import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { splitKeys } from '../partition/upkeep/regions.js';
import { readReplicaState, writeRefusals } from '../replica/state-file.js';
import type { Config } from '../server/settings/index.js';
import type { Store } from '../store/contract.js';
import { type HBaseSettings, hbaseSettings, isHBaseUrl } from '../store/hbase/settings.js';
import { type LmdbOptions, openLmdbStore } from '../store/lmdb/index.js';
import { StoreError } from '../store/store-error.js';
import { CliError, UsageError } from './exit.js';
import { noteWriter } from './last-resort.js';

export interface StoreOptions extends LmdbOptions {
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
    return openLmdbStore(address, { ...options, writeRefusal: options.anyRole ? undefined : writeRefusals(address) });
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
