import type { Store } from '../../src/store/contract.js';
import { columnSuite } from './suite/columns.js';
import { commitSuite } from './suite/commit.js';
import { filterSuite } from './suite/filter.js';
import { Fixture } from './suite/fixture.js';
import { indexSuite } from './suite/index-tables.js';
import { loadSuite } from './suite/load.js';
import { modelSuite } from './suite/model.js';
import { raceSuite } from './suite/race.js';
import { readSuite } from './suite/read.js';
import { tableSuite } from './suite/tables.js';

export interface Opened {
  readonly store: Store;
  /** Closes the store and opens the same data again; absent where nothing survives. */
  reopen?(): Promise<Store>;
  cleanup(): Promise<void>;
}

/** What every engine keeps. An engine joins with one line; what it lacks is skipped by `supports` alone. */
export function storeSuite(name: string, factory: () => Promise<Opened>): void {
  describe(`store contract: ${name}`, () => {
    const fixture = new Fixture(factory);
    before(() => fixture.open());
    after(() => fixture.close());
    tableSuite(fixture);
    readSuite(fixture);
    columnSuite(fixture);
    filterSuite(fixture);
    indexSuite(fixture);
    commitSuite(fixture);
    raceSuite(fixture);
    loadSuite(fixture);
    modelSuite(fixture);
  });
}
