import type { Store } from '../contract.js';
import { openEnvironment } from './file/environment.js';
import { prepareFolder } from './file/folder.js';
import { toStoreError } from './file/lmdb-errors.js';
import { type OnRows, readInProcess } from './file/read-in-process.js';
import type { LmdbOptions } from './lmdb-options.js';
import { LmdbStore } from './store.js';
import { WriteHold } from './write/hold.js';

/**
 * Opens the store in `folder`. Several processes may open the same store. Rejects with `format` (data of another
 * version or another program, or no data and `create` is false), `corrupt`, `permission` or `full`; the message names
 * the folder and a remedy.
 */
export async function openLmdbStore(folder: string, options: LmdbOptions = {}): Promise<Store> {
  const readOnly = options.readOnly ?? false;
  try {
    await prepareFolder(folder, options.create ?? !readOnly, readOnly);
    return new LmdbStore(openEnvironment(folder, options), options);
  } catch (error) {
    throw toStoreError(error, folder);
  }
}

/**
 * Reads all rows of the store in `folder` in a process of its own, which a damaged page may crash. Resolves with the
 * damage of pages, one line each; checksums of values are not verified. Any finding blocks writes to the store from now
 * on. Rejects as `openLmdbStore` does.
 */
export async function findDamagedPages(folder: string, onRows?: OnRows): Promise<string[]> {
  try {
    await prepareFolder(folder, false, true);
    const findings = await readInProcess(folder, onRows);
    if (findings.length > 0) holdWrites(folder, findings[0]!);
    return findings;
  } catch (error) {
    throw toStoreError(error, folder);
  }
}

/** Blocks writes to the store in `folder` for all processes, until `Store.releaseWrites`. */
export function holdWrites(folder: string, why: string): void {
  new WriteHold(folder).hold(why);
}

export type { LmdbOptions } from './lmdb-options.js';
