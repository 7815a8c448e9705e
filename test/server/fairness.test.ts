import { needs } from '../require.js';
import { soakTest } from '../rounds.js';
import { Arena } from './fairness/arena.js';
import { loads } from './fairness/loads.js';

/** The others take longer, and are for `npm run soak` alone. */
const QUICK = /^(ORs|ANDs|scans|pages|200|small|modifies|requests|storms of (sessions|connects|StartTLS))/;

/**
 * Legal requests at their largest, beside a client that asks for one entry after another. `npm run bench -- fairness`
 * measures its waits.
 */
describe('server: others are answered beside', () => {
  const arena = new Arena();

  before(async () => {
    await arena.make();
    await arena.start();
  });
  after(() => arena.remove());
  afterEach(() => arena.release());

  for (const [name, load] of Object.entries(loads))
    (QUICK.test(name) ? it : soakTest)(name, async function () {
      if (name.includes('StartTLS')) needs(this, 'openssl');
      await arena.beside(load);
    });
});
