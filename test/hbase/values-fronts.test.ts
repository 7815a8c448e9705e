import { expect } from 'chai';
import { initDirectory } from '../../src/partition/index.js';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { ACTOR, change, type Fixture, SUFFIX, testSchema } from '../partition/fixture.js';
import { frontOf, resultOf } from '../partition/fronts.js';
import { rounds } from '../rounds.js';
import { borrowTables, returnTables } from './recycled.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const MACHINES = `ou=machines,${SUFFIX}`;

describe('two front ends over one HBase', () => {
  const fronts: Fixture[] = [];
  let settings: HBaseSettings | undefined;

  before(async function () {
    settings = await borrowTables(this);
    const first = await openHBaseStore(settings);
    const adminPassword = Buffer.from('{CLEARTEXT}x');
    await initDirectory(first, { suffixes: [SUFFIX], adminDn: ACTOR.dn, adminPassword }, testSchema());
    for (const store of [first, await openHBaseStore(settings)]) fronts.push(await frontOf(store));
    await fronts[0]!.add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
    await fronts[0]!.unit('people');
    await fronts[0]!.unit('machines');
    await fronts[0]!.partition.addUnique({ attributes: ['uid'], subtree: PEOPLE });
    await fronts[0]!.partition.finishUnique();
  });
  after(async () => {
    for (const front of fronts) await front.close();
    returnTables(settings);
  });

  it('honour a uniqueness constraint from the moment that one has put it in force', async () => {
    await fronts[1]!.person('ann', PEOPLE, { uid: 'ann' });
    expect(await resultOf(fronts[0]!.person('bob', PEOPLE, { uid: 'Ann' }))).to.equal('constraintViolation');
  });

  it('give a value to one of many, while subtrees come in', async () => {
    const [a, b] = fronts as [Fixture, Fixture];
    for (let n = 0; n < rounds(4, 20); n++) {
      const uid = `u${n}`;
      const inUnit = `cn=p,ou=x${n},${MACHINES}`;
      await a.unit(`x${n}`, MACHINES);
      await a.person('p', `ou=x${n},${MACHINES}`, { uid: n % 2 ? uid : 'x' });
      const results = await Promise.all([
        resultOf(a.person(`a${n}`, PEOPLE, { uid })),
        resultOf(b.person(`b${n}`, PEOPLE, { uid })),
        resultOf(b.rename(`ou=x${n},${MACHINES}`, `ou=x${n}`, { newSuperior: PEOPLE })),
        resultOf(a.modify(inUnit, change('replace', 'uid', uid))),
      ]);
      for (const result of results)
        expect(result).to.be.oneOf(['success', 'constraintViolation', 'noSuchObject', 'entryAlreadyExists']);
      expect(await a.find(`(uid=${uid})`, { base: PEOPLE })).to.have.length(1);
    }
    await a.expectClean();
  });

  it('give each number once', async () => {
    const [a, b] = fronts as [Fixture, Fixture];
    await a.partition.setNumbers('uidNumber', 1000, 99_999);
    const uids = Array.from({ length: 40 }, (_, n) => `n${n}`);
    const numbers = await Promise.all(
      uids.map(async (uid, n) => {
        const front = n % 2 ? a : b;
        const values = { objectClass: ['account', 'posixAccount'], uid, cn: uid, gidNumber: '5', homeDirectory: '/' };
        const dn = `uid=${uid},${MACHINES}`;
        // Numbers that are said come before those that are given out: they lie further apart than blocks reach.
        await front.add(dn, { ...values, uidNumber: n % 5 ? 'auto' : String(5000 + 1000 * n) });
        return (await front.values(dn, 'uidNumber'))[0];
      }),
    );
    expect(new Set(numbers)).to.have.length(40);
  });
});
