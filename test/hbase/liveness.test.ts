import { expect } from 'chai';
import type { LdapError } from '../../src/ldap/ldap-error.js';
import { initDirectory } from '../../src/partition/index.js';
import type { PlanStep } from '../../src/store/contract.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { cellCounter, counterBytes } from '../../src/store/row.js';
import { ACTOR, type Fixture, type Random, SUFFIX, seeded, testSchema } from '../partition/fixture.js';
import { openOver } from '../partition/kill.js';
import { rounds } from '../rounds.js';
import { COUNT, ROWS } from './journal-plan.js';
import { freshPrefix, hbase } from './server.js';

const FRONTS = 3;
/** Plans under way at each front end. */
const TOGETHER = 4;
const KEYS = Array.from({ length: 6 }, (_, i) => Buffer.from(`row${i}`));
const ID = { family: 0, qualifier: Buffer.from('id'), value: Buffer.from('x') };
const PLANS = rounds(300, 2_500);
/**
 * Later plans that want a row of a plan may pass it while it waits for another row, until whoever stands in its way
 * has heard of it. How many do is a matter of speed; where it had to wait for all of them, most would.
 */
const OVERTAKEN = PLANS / 3;

/** What the second of two crossing moves is told: its new place is below itself, or its target has moved. */
const REFUSED = /^(unwillingToPerform|noSuchObject)$/;

/** A plan of the test: rows that it changes, and rows that it counts in. */
interface Wish {
  readonly changed: readonly Buffer[];
  readonly counted: readonly Buffer[];
}

interface Waiting extends Wish {
  overtaken: number;
}

function stepsOf({ changed, counted }: Wish): PlanStep[] {
  const guards = [{ op: 'equals', ...ID } as const];
  return [
    ...changed.map((key) => ({
      table: ROWS.name,
      key,
      guards,
      put: [{ family: 1, qualifier: Buffer.from('changed'), value: Buffer.alloc(8) }],
    })),
    ...counted.map((key) => ({ table: ROWS.name, key, guards, add: [{ ...COUNT, by: 1n }] })),
  ];
}

function conflict(a: Wish, b: Wish): boolean {
  const meets = (x: Wish, y: Wish) => x.changed.some((key) => [...y.changed, ...y.counted].includes(key));
  return meets(a, b) || meets(b, a);
}

function draw(random: Random): Wish {
  const keys = [...KEYS].sort(() => random.int(3) - 1);
  const changed = keys.splice(0, random.int(4));
  return { changed, counted: keys.splice(0, changed.length === 0 ? 1 + random.int(2) : random.int(3)) };
}

describe('plans of several front ends that want the same rows', function () {
  this.timeout(1_800_000);
  let settings: HBaseSettings;
  let fronts: HBaseStore[] = [];

  before(async function () {
    settings = (await hbase(this)).settings(freshPrefix());
    for (let i = 0; i < FRONTS; i++) fronts.push(await openHBaseStore(settings));
    await fronts[0]!.createTable(ROWS);
    const steps = KEYS.map((key) => ({ table: ROWS.name, key, put: [ID, { ...COUNT, value: counterBytes(0n) }] }));
    await fronts[0]!.commit({ steps, decisive: 0 });
  });
  after(async () => {
    await Promise.all(fronts.map((front) => front.close()));
    fronts = [];
  });

  it('all come to their turn, none passed by a third of all', () =>
    seeded(async (random) => {
      const before = await counters();
      const added = new Map<Buffer, bigint>(KEYS.map((key) => [key, 0n]));
      const waiting = new Set<Waiting>();
      let left = PLANS;
      let most = 0;
      const write = async (front: HBaseStore): Promise<void> => {
        while (left-- > 0) {
          const mine: Waiting = { ...draw(random), overtaken: 0 };
          const earlier = [...waiting];
          waiting.add(mine);
          await front.commit({ steps: stepsOf(mine), decisive: 0 });
          waiting.delete(mine);
          for (const one of earlier) {
            if (!conflict(one, mine) || !waiting.has(one)) continue;
            most = Math.max(most, ++one.overtaken);
          }
          for (const key of mine.counted) added.set(key, added.get(key)! + 1n);
        }
      };
      await Promise.all(fronts.flatMap((front) => Array.from({ length: TOGETHER }, () => write(front))));
      expect(most, 'plans that passed one').to.be.at.most(OVERTAKEN);
      // What the others have added to counters and not written yet the first does not see.
      await Promise.all(fronts.slice(1).map((front) => front.close()));
      expect(await counters()).to.deep.equal(before.map((count, i) => count + added.get(KEYS[i]!)!));
    }));

  async function counters(): Promise<bigint[]> {
    const rows = await fronts[0]!.getMany(ROWS.name, KEYS);
    return rows.map((row) => cellCounter(row, COUNT.family, COUNT.qualifier));
  }
});

describe('moves of two front ends that cross', function () {
  this.timeout(600_000);
  const A = `ou=a,${SUFFIX}`;
  const B = `ou=b,${SUFFIX}`;
  let fronts: Fixture[] = [];

  before(async function () {
    const settings = (await hbase(this)).settings(freshPrefix());
    const store = await openHBaseStore(settings);
    const directory = { suffixes: [SUFFIX], adminDn: ACTOR.dn, adminPassword: Buffer.from('{CLEARTEXT}x') };
    await initDirectory(store, directory, testSchema());
    fronts = [await openOver(store), await openOver(await openHBaseStore(settings))];
    await fronts[0]!.add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
    for (const unit of ['a', 'b']) await fronts[0]!.unit(unit);
  });
  after(() => Promise.all(fronts.map((front) => front.close())));

  it('are done and refused: one goes first', async () => {
    const [one, other] = fronts as [Fixture, Fixture];
    for (let n = 0; n < rounds(6, 75); n++) {
      const [here, there] = await Promise.allSettled([
        one.rename(A, 'ou=a', { newSuperior: B }),
        other.rename(B, 'ou=b', { newSuperior: A }),
      ]);
      for (const end of [here, there])
        if (end.status === 'rejected') expect((end.reason as LdapError).result, `${end.reason}`).to.match(REFUSED);
      const moved = [here, there].filter(({ status }) => status === 'fulfilled');
      expect(moved).to.have.length(1);
      if (here.status === 'fulfilled') await one.rename(`ou=a,${B}`, 'ou=a', { newSuperior: SUFFIX });
      else await other.rename(`ou=b,${A}`, 'ou=b', { newSuperior: SUFFIX });
    }
    // What it has added to counters and not written yet nobody else knows.
    await other.close();
    await one.expectClean();
  });
});
