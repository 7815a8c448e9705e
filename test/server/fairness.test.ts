import { needs } from '../require.js';
import { soakTest } from '../rounds.js';
import { Arena, type Load } from './fairness/arena.js';
import { connectionLoads } from './fairness/connection-loads.js';
import { refusedMemory, unreadMemory } from './fairness/memory.js';
import { searchLoads, unread } from './fairness/search-loads.js';
import { writeLoads } from './fairness/write-loads.js';

/** Legal requests at their largest, beside a client that asks for one entry after another. */
describe('server: others are answered beside', function () {
  this.timeout(120_000);
  // What the machine did meanwhile delays nobody twice.
  this.retries(process.env.ROWAN_FAIRNESS ? 0 : 2);
  const arena = new Arena();

  before(async () => {
    await arena.make();
    await arena.start();
  });
  after(() => arena.remove());
  afterEach(() => arena.release());

  const loads: Readonly<Record<string, Load>> = {
    ...searchLoads,
    '200 connections that ask for everything and do not read': unread(200, 5),
    'a connection with 1,000 searches that it does not read': unread(1, 1000),
    ...writeLoads,
    ...connectionLoads,
  };
  it('200 connections that do not read, three times: memory is bounded', () => unreadMemory(arena));

  it('60 adds of 6.5 MiB that are refused: memory stays where it was', () => refusedMemory(arena));

  // Every other one is for `npm run soak` alone.
  for (const [n, [name, load]] of Object.entries(loads).entries())
    (n % 2 === 0 ? it : soakTest)(name, async function () {
      if (name.includes('StartTLS')) needs(this, 'openssl');
      await arena.beside(load);
    });
});
