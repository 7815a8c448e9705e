import { bindSuite } from './suite/bind.js';
import { clientsSuite } from './suite/clients.js';
import { type Served, SuiteDirectory } from './suite/directory.js';
import { extendedSuite } from './suite/extended.js';
import { passwordPolicySuite } from './suite/password-policy.js';
import { searchSuite } from './suite/search.js';
import { virtualSuite } from './suite/virtual.js';
import { writeSuite } from './suite/write.js';

export type { Lack, Served } from './suite/directory.js';

/**
 * What every way of serving a partition has to answer alike. `start` serves a directory that has one suffix of the form
 * `dc=…` and no entry yet, anonymous access at its default; what a front end cannot do by its nature it names in
 * `lacks`.
 */
export function protocolSuite(name: string, start: () => Promise<Served>): void {
  describe(`protocol: ${name}`, () => {
    const directory = new SuiteDirectory();
    before(async () => directory.open(await start()));
    beforeEach(() => directory.refresh());
    after(() => directory.close());
    bindSuite(directory);
    passwordPolicySuite(directory);
    virtualSuite(directory);
    searchSuite(directory);
    writeSuite(directory);
    extendedSuite(directory);
    clientsSuite(directory);
  });
}
