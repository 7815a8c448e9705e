import { createHash } from 'node:crypto';
import { LdapError } from '../../src/ldap/ldap-error.js';
import { damageOf, Partition } from '../../src/partition/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { StoreError } from '../../src/store/store-error.js';
import { Fixture, SUFFIX, testSchema } from './fixture.js';

/** What one search came to: entries and what they hold, or why it ended. */
export interface Answer {
  readonly entries?: number;
  readonly digest?: string;
  readonly error?: string;
  /** Table of the damage, where that ended it. */
  readonly table?: string | undefined;
}

/** Where each filter is asked. */
const PLACES = [
  { base: SUFFIX, scope: 'sub' },
  { base: `ou=people,${SUFFIX}`, scope: 'one' },
] as const;

/**
 * Searches directories that may be damaged, each filter at all `PLACES`: `damaged-pages-child.js FOLDERS FILTERS`, both
 * JSON. Says a line of JSON for each search.
 */
const [folders, filters] = process.argv.slice(2).map((text) => JSON.parse(text)) as [string[], string[]];

function tell(answer: Answer): void {
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

function failure(error: unknown): Answer {
  if (!(error instanceof LdapError || error instanceof StoreError)) throw error;
  return { error: error.message, table: damageOf(error)?.table };
}

async function answer(fixture: Fixture, filter: string, place: (typeof PLACES)[number]): Promise<Answer> {
  const lines: string[] = [];
  try {
    await fixture.partition.search(fixture.params({ filter, ...place }), {
      entry: ({ dn, row }) => void lines.push(`${dn} ${row.toString('base64')}`),
      reference: () => undefined,
    });
  } catch (error) {
    return failure(error);
  }
  return { entries: lines.length, digest: createHash('sha256').update(lines.sort().join('\n')).digest('hex') };
}

for (const folder of folders) {
  try {
    const store = await openLmdbStore(folder, { readOnly: true });
    const fixture = new Fixture(store, await Partition.open(store, testSchema()), undefined);
    for (const filter of filters) for (const place of PLACES) tell(await answer(fixture, filter, place));
    await store.close();
  } catch (error) {
    // It cannot even be opened: each search ends so.
    for (const _ of filters) for (const _ of PLACES) tell(failure(error));
  }
}
