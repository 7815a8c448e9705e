import type { Store } from '../contract.js';
import { type Access, openEnvironment } from './environment.js';
import { toStoreError } from './errors.js';
import { endUpgrade, prepareFolder } from './folder.js';
import { LmdbStore } from './store.js';
import { packDuplicates } from './upgrade.js';

/** `readOnly` opens an existing store without ever writing to it. */
export interface LmdbOptions extends Access {
  /** False: an absent store is an error. Defaults to true, with `readOnly` to false. */
  readonly create?: boolean;
}

/**
 * Opens the store in `folder`, which several processes may do at once; one of an older format is upgraded first. Errors: `format` (data of a newer version, of
 * something else, or none and `create` is false), `corrupt`, `permission`, `full`; each names the folder and what helps.
 */
export async function openLmdbStore(folder: string, options: LmdbOptions = {}): Promise<Store> {
  const readOnly = options.readOnly ?? false;
  try {
    if (await prepareFolder(folder, options.create ?? !readOnly, readOnly)) {
      await packDuplicates(folder);
      await endUpgrade(folder);
    }
    return new LmdbStore(openEnvironment(folder, options), readOnly);
  } catch (error) {
    throw toStoreError(error, folder);
  }
}

export type { LmdbStore } from './store.js';
