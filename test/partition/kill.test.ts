import { rounds } from '../rounds.js';
import { seeded } from './fixture.js';
import { killRounds } from './kill.js';

const KILLS = rounds(4, 25);

describe('killed with -9', function () {
  this.timeout(300_000 * KILLS);

  it(`${KILLS} times under eight writers: nothing acknowledged is lost, nothing is half done`, () =>
    seeded((random) => killRounds(KILLS, random, () => undefined)));
});
