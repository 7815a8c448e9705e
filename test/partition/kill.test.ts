import { seeded } from './fixture.js';
import { killRounds } from './kill.js';

describe('killed with -9', function () {
  this.timeout(300_000);

  it('50 times under eight writers: nothing acknowledged is lost, nothing is half done', () =>
    seeded((random) => killRounds(50, random, () => undefined)));
});
