import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { splitKeys } from '../partition/upkeep/regions.js';
import type { Config } from '../server/settings/index.js';
import type { Store } from '../store/contract.js';
import { type HBaseSettings, hbaseSettings, isHBaseUrl } from '../store/hbase/settings.js';
import { type LmdbOptions, openLmdbStore } from '../store/lmdb/index.js';
import { StoreError } from '../store/store-error.js';
import { CliError, UsageError } from './exit.js';

export interface StoreOptions extends LmdbOptions {
  /** Makes what is not there. */
  readonly create: boolean;
  /** Waits for what another command or server holds that died, however short `hbase.operationSeconds` are. */
  readonly patient?: boolean;
}

/** What a store at `address` (an `hbase://` URL) is opened with. Throws `UsageError` for what cannot be understood. */
export async function hbaseSettingsOf(address: string, { hbase }: Config): Promise<HBaseSettings> {
  const file = hbase.site === undefined ? undefined : readFileSync(hbase.site, 'utf8');
  try {
    // Loaded here: only those who have such a file wait for the parser.
    const site = file === undefined ? undefined : (await import('../store/hbase/site-file.js')).siteSettings(file);
    return hbaseSettings({
      url: address,
      site,
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

/** Milliseconds of waiting for HBase of which nothing is said. */
const QUIET_MS = 3000;

function tellWaiting(address: string, { hbase }: Config): void {
  process.stderr.write(`rowan: ${address} does not answer yet; waiting for it, ${hbase.operationSeconds} s at most\n`);
}

/** Opens the store in a folder, or in HBase where `address` is an `hbase://` URL. */
export async function openStore(address: string, config: Config, options: StoreOptions): Promise<Store> {
  if (!isHBaseUrl(address)) return openLmdbStore(address, options);
  const settings = await hbaseSettingsOf(address, config);
  // Loaded here: only those who use it wait for it.
  const { openHBaseStore } = await import('../store/hbase/index.js');
  const waiting = setTimeout(() => tellWaiting(address, config), QUIET_MS);
  try {
    return await openHBaseStore(settings, { create: options.create, patient: options.patient ?? false });
  } finally {
    clearTimeout(waiting);
  }
}

/** Says before anything is made that a folder is in use already. Tables in HBase are looked for once it is open. */
export function refuseFullFolder(address: string): void {
  if (isHBaseUrl(address) || !existsSync(address) || readdirSync(address).length === 0) return;
  throw new CliError(`${address} exists already and is not empty; choose another --data, or serve what is there`);
}
