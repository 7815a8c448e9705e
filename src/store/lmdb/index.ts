import type { Store } from '../contract.js';
import { type Access, openEnvironment } from './file/environment.js';
import { prepareFolder } from './file/folder.js';
import { toStoreError } from './file/lmdb-errors.js';
import { type OnPages, verifyStructure } from './file/structure.js';
import { LmdbStore, type StoreOptions } from './store.js';
import { WriteHold } from './write/hold.js';

/** `readOnly` opens an existing store without ever writing to it. */
export interface LmdbOptions extends Access, StoreOptions {
  /** False: an absent store is an error. Defaults to true, with `readOnly` to false. */
  readonly create?: boolean;
}

/**
 * Opens the store in `folder`, which several processes may do at once. Errors: `format` (data of another version or of
 * something else, or none and `create` is false), `corrupt`, `permission`, `full`; each names the folder and what
 * helps.
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
 * What is wrong with the pages of the store in `folder`, one line each; none where LMDB may read them. Where there is
 * something, writes are held from now on. Rejects as `openLmdbStore` does.
 */
export async function findDamagedPages(folder: string, onPages?: OnPages): Promise<string[]> {
  try {
    await prepareFolder(folder, false, true);
    const findings = await verifyStructure(folder, onPages);
    if (findings.length > 0) holdWrites(folder, findings[0]!);
    return findings;
  } catch (error) {
    throw toStoreError(error, folder);
  }
}

/** No process writes to the store in `folder` from now on, until `Store.releaseWrites`. */
export function holdWrites(folder: string, why: string): void {
  new WriteHold(folder).hold(why);
}

export type { LmdbStore } from './store.js';
