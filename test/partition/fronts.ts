import { LdapError } from '../../src/ldap/ldap-error.js';
import { Partition } from '../../src/partition/index.js';
import type { Store } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { Fixture, testSchema } from './fixture.js';

export async function frontOf(store: Store): Promise<Fixture> {
  return new Fixture(store, await Partition.open(store, testSchema()), undefined);
}

/** Another front end of the directory: over LMDB with the folder open once more, as a worker has it. */
export async function anotherFront({ store, folder }: Fixture): Promise<Fixture> {
  return frontOf(folder === undefined ? store : await openLmdbStore(folder));
}

/** Ends front ends that have stores of their own. */
export async function endFronts(fixture: Fixture, fronts: readonly Fixture[]): Promise<void> {
  for (const front of fronts) if (front.store !== fixture.store) await front.close();
}

/** The result of a write. */
export async function resultOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return 'success';
  } catch (error) {
    if (error instanceof LdapError) return error.result;
    throw error;
  }
}
