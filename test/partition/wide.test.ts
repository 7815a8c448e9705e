import { expect } from 'chai';
import type { Modification } from '../../src/ldap/ldap-types.js';
import { initDirectory, Partition } from '../../src/partition/index.js';
import { UNRESTRICTED, type Viewer } from '../../src/partition/model/viewer.js';
import { wideAttributes } from '../../src/partition/model/wide.js';
import { faulty } from '../store/faulty.js';
import {
  ACTOR,
  attributes,
  change,
  ENGINES,
  Fixture,
  hiding,
  openFixture,
  openStore,
  type Random,
  refused,
  SUFFIX,
  seeded,
  testSchema,
} from './fixture.js';
import { nearTests } from './near-engines.js';

const GROUP = `cn=all,${SUFFIX}`;

/** A member's DN, written in one of the ways that mean the same. */
function member(i: number, way = 0): string {
  return [`cn=member ${i},o=a`, `CN=Member  ${i}, O=A`, `cn=MEMBER ${i},o=a`][way]!;
}

function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i);
}

for (const engine of ENGINES) {
  describe(`partition: wide attributes (${engine})`, () => {
    const near = nearTests(engine);
    let f: Fixture;
    const listed = async () => wideAttributes((await f.read(GROUP)).row);
    const is = (i: number, way = 0) =>
      f.partition.compare(f.dn(GROUP), 'member', Buffer.from(member(i, way)), UNRESTRICTED);

    async function group(size: number): Promise<void> {
      await f.add(GROUP, { objectClass: 'groupOfNames', cn: 'all', member: numbers(0, size).map((i) => member(i)) });
    }

    beforeEach(async () => {
      f = await openFixture(engine);
    });
    afterEach(() => f.close());

    near(
      'wide attributes are listed with their number and next index, and no longer once they have few values',
      async () => {
        await group(256);
        expect(await listed()).to.deep.equal([]);
        await f.modify(GROUP, change('add', 'member', member(256)));
        expect(await listed()).to.deep.equal([{ text: 'member', nextIndex: 257, valueCount: 257 }]);
        await f.modify(
          GROUP,
          change('delete', 'member', member(256)),
          change('add', 'member', member(300), member(301)),
        );
        expect(await listed()).to.deep.equal([{ text: 'member', nextIndex: 259, valueCount: 258 }]);
        await f.modify(GROUP, change('delete', 'member', ...numbers(0, 131).map((i) => member(i))));
        expect(await listed()).to.deep.equal([]);
        await f.expectClean();
      },
    );

    near('wide attributes get and lose values in any spelling, with the errors of other attributes', async () => {
      await group(2000);
      await f.modify(GROUP, change('delete', 'member', member(7, 1)), change('add', 'member', member(2000)));
      expect([await is(7), await is(2000, 2), await is(1999, 1), await is(2001)]).to.deep.equal([
        false,
        true,
        true,
        false,
      ]);
      await refused('attributeOrValueExists', f.modify(GROUP, change('add', 'member', member(3000), member(8, 2))));
      await refused('attributeOrValueExists', f.modify(GROUP, change('add', 'member', member(3000), member(3000, 1))));
      await refused('noSuchAttribute', f.modify(GROUP, change('delete', 'member', member(8), member(7))));
      await refused('invalidAttributeSyntax', f.modify(GROUP, change('add', 'member', 'no name')));
      await refused('objectClassViolation', f.modify(GROUP, change('add', 'mail', 'a@b')));
      await refused('notAllowedOnRDN', f.modify(GROUP, change('delete', 'cn', 'all')));
      await refused('objectClassViolation', f.modify(GROUP, change('delete', 'member')));
      expect(await f.values(GROUP, 'member')).to.have.length(2000);
      expect(await f.find(`(member=${member(2000, 1)})`)).to.deep.equal([GROUP]);
      expect(await f.find(`(member=${member(7)})`)).to.deep.equal([]);
      await f.expectClean();
    });

    it('wide attributes are not read for a change that declares to leave them alone', async () => {
      await group(2000);
      const whole = (await f.read(GROUP)).row.length;
      const seen: number[] = [];
      const modify = (touches: readonly string[] | undefined, ...changes: Modification[]) =>
        f.partition.modify(
          f.dn(GROUP),
          ({ row }) => {
            seen.push(row.length);
            return changes;
          },
          ACTOR,
          touches && { touchedDescriptions: touches },
        );
      await modify(undefined, change('replace', 'description', 'one'));
      await modify(['member', 'description'], change('replace', 'description', 'two'));
      for (const length of seen.splice(0)) expect(length).to.be.at.least(whole);
      await modify(['description'], change('replace', 'description', 'three'));
      expect(seen[0]).to.be.below(whole / 20);
      expect(await f.values(GROUP, 'description')).to.deep.equal(['three']);
      const untold = modify(['description'], change('delete', 'member', member(1)));
      expect(await untold.catch((error: Error) => error)).to.be.instanceOf(TypeError);
      expect(await f.values(GROUP, 'member')).to.have.length(2000);
      await f.expectClean();
    });

    near('wide attributes do not affect comparisons of other attributes and errors', async () => {
      await group(2000);
      const compare = async (attribute: string, value: string, viewer: Viewer = UNRESTRICTED) =>
        f.partition.compare(f.dn(GROUP), attribute, Buffer.from(value), viewer);
      expect([await compare('cn', 'ALL'), await compare('cn', 'none')]).to.deep.equal([true, false]);
      expect(await compare('name', 'All')).to.equal(true);
      expect(await compare('objectClass', 'GROUPOFNAMES')).to.equal(true);
      await refused('noSuchAttribute', compare('description', 'x'));
      await refused('invalidAttributeSyntax', compare('member', 'no name'));
      await refused(
        'insufficientAccessRights',
        compare(
          'member',
          member(1),
          hiding(() => true),
        ),
      );
    });

    near('wide attributes of a referral object yield the referral, too', async () => {
      const entry = `cn=elsewhere,${SUFFIX}`;
      const ref = numbers(0, 600).map((i) => `ldap://host${i}.example.com/cn=elsewhere,dc=example,dc=com??sub`);
      await f.add(entry, { objectClass: ['referral', 'extensibleObject'], cn: 'elsewhere', ref }, ACTOR, true);
      await refused('referral', f.modify(entry, change('add', 'description', 'x')));
      await refused('referral', f.modify(entry, change('add', 'ref', 'ldap://one.more')));
      await refused(
        'referral',
        (async () => f.partition.compare(f.dn(entry), 'cn', Buffer.from('elsewhere'), UNRESTRICTED))(),
      );
      await refused('referral', f.search({ base: entry, scope: 'base' }));
      expect((await f.search({ manageDsaIT: true, filter: `(ref=${ref[7]})` })).dns).to.deep.equal([entry]);
      await f.expectClean();
    });

    near('wide attributes with values under several options are read as a whole', async () => {
      await group(300);
      await f.modify(GROUP, change('add', 'member;x-a', member(5), member(500)));
      await f.modify(GROUP, change('add', 'member', member(500)), change('delete', 'member', member(5)));
      expect([await is(5), await is(500)]).to.deep.equal([true, true]);
      await f.modify(GROUP, change('delete', 'member;x-a', member(5), member(500)));
      expect([await is(5), await is(500)]).to.deep.equal([false, true]);
      await f.expectClean();
    });

    it('wide attributes with a substring index keep their index rows', async () => {
      const entry = `cn=many,${SUFFIX}`;
      const texts = numbers(0, 400).map((i) => `text ${i}`);
      await f.add(entry, { objectClass: 'organizationalRole', cn: 'many', description: texts });
      await f.partition.addIndex('description', { substring: true });
      await f.partition.buildIndexes();
      await f.modify(entry, change('delete', 'description', 'text 17'), change('add', 'description', 'another'));
      expect(await f.find('(description=*nothe*)')).to.deep.equal([entry]);
      expect(await f.find('(description=*ext 1*)')).to.deep.equal([entry]);
      await f.expectClean();
    });

    near('wide attributes change like a plain list of values', () =>
      seeded(async (random) => {
        await group(600);
        const model = new Set(numbers(0, 600));
        for (let round = 0; round < 40; round++) {
          const { changes, after } = randomChanges(random, model);
          if (after) {
            await f.modify(GROUP, ...changes);
            model.clear();
            for (const i of after) model.add(i);
          } else {
            await f.modify(GROUP, ...changes).then(
              () => expect.fail('it should have been refused'),
              () => undefined,
            );
          }
          const i = random.int(900);
          expect(await is(i, random.int(3)), `member ${i}`).to.equal(model.has(i));
        }
        const norms = (await f.values(GROUP, 'member')).map((text) => Number(/\d+/.exec(text)![0]));
        expect(norms.sort((a, b) => a - b)).to.deep.equal([...model].sort((a, b) => a - b));
        await f.expectClean();
      }),
    );

    near('wide attributes are not read by a search that does not return them, with any filter', async () => {
      await group(1500);
      await f.modify(GROUP, change('delete', 'member', member(700)), change('add', 'description', 'big', 'group'));
      await f.add(`cn=other,${SUFFIX}`, { objectClass: 'groupOfNames', cn: 'other', member: member(700) });
      const base = { base: GROUP, scope: 'base' } as const;
      const found = async (filter: string, given: object, takes?: string) => {
        const hits: string[] = [];
        const selects = takes && { includes: ({ text }: { text: string }) => text === takes };
        await f.partition.search(
          { ...f.params({ ...given, filter }), ...(selects && { selects }) },
          { entry: (hit) => void hits.push(`${hit.dn} ${Math.min(hit.row.length, 5000)}`), reference: () => undefined },
        );
        return hits.sort();
      };
      const terms = ['(cn=all)', '(description=big)', '(owner=*)', '(objectClass=groupOfNames)', '(mail=x)'];
      for (const i of [0, 700, 1499, 1500]) terms.push(`(member=${member(i, 1)})`, `(!(member=${member(i)}))`);
      terms.push('(member=*)', '(member=cn=member 1*)', '(:distinguishedNameMatch:=cn=member 3,o=a)', '(member;x-a=*)');
      const filters = terms.flatMap((a, i) => [a, `(&${a}${terms[(i + 3) % terms.length]})`, `(|${a}(cn=none))`]);
      for (const filter of filters) {
        for (const given of [{}, base]) {
          const names = (hits: string[]) => hits.map((hit) => hit.slice(0, hit.lastIndexOf(' ')));
          const whole = await found(filter, given);
          expect(names(await found(filter, given, 'cn')), filter).to.deep.equal(names(whole));
          expect(await found(filter, given, 'member'), filter).to.deep.equal(whole);
        }
      }
      // The model of a split row is LMDB's: the others give whole rows.
      const [hit] = await found(`(member=${member(3)})`, {}, 'cn');
      expect(Number(hit!.slice(GROUP.length))).to.satisfy((n: number) => (engine === 'lmdb' ? n < 1000 : n === 5000));
    });

    near('wide attributes are counted and numbered by check, and repaired', async () => {
      await group(300);
      const { id, row } = await f.read(GROUP);
      const list = wideAttributes(row);
      expect(list).to.have.length(1);
      for (const wrong of [
        { ...list[0]!, valueCount: 299 },
        { ...list[0]!, nextIndex: 299 },
        { ...list[0]!, text: 'owner' },
      ]) {
        await f.store.commit({ steps: [{ table: 'master', key: id, put: [wideCell(wrong)] }], decisive: 0 });
        expect((await f.breaches()).map((b) => b.invariant)).to.deep.equal(['wide']);
        expect(await f.partition.repair()).to.equal(1);
        expect(await listed()).to.deep.equal(list);
        await f.expectClean();
      }
    });
  });
}

describe('partition: an entry with 20,000 values', () => {
  it('an entry with 20,000 values is not read as a whole to add, delete or compare one value', async () => {
    const { store, folder } = await openStore('lmdb');
    const schema = testSchema();
    await initDirectory(
      store,
      { suffixes: [SUFFIX], adminDn: ACTOR.dn, adminPassword: Buffer.from('{CLEARTEXT}x') },
      schema,
    );
    const read: string[] = [];
    const watched = faulty(store, (point) => {
      if ('table' in point && (point.table === 'master' || point.table === 'tree')) read.push(point.at);
      return undefined;
    });
    const f = new Fixture(watched, await Partition.open(watched, schema), folder);
    try {
      await f.add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
      const members = numbers(0, 20_000).map((i) => member(i));
      await f.partition.add(
        f.dn(GROUP),
        attributes({ objectClass: 'groupOfNames', cn: 'all', member: members }),
        ACTOR,
      );
      read.length = 0;
      await f.modify(GROUP, change('add', 'member', member(20_000)), change('delete', 'member', member(9)));
      const compared = await f.partition.compare(f.dn(GROUP), 'member', Buffer.from(member(20_000)), UNRESTRICTED);
      expect(compared).to.equal(true);
      expect(new Set(read)).to.deep.equal(new Set(['getHead', 'getColumns']));
      await f.expectClean();
    } finally {
      await f.close();
    }
  });
});

function wideCell({ text, nextIndex, valueCount }: { text: string; nextIndex: number; valueCount: number }) {
  const value = Buffer.alloc(2 + text.length + 8);
  value.writeUInt16BE(text.length);
  value.write(text, 2);
  value.writeUInt32BE(nextIndex, 2 + text.length);
  value.writeUInt32BE(valueCount, 6 + text.length);
  return { family: 0, qualifier: Buffer.from('wide'), value };
}

/** Some changes of one request, and the members there are afterwards; undefined when one of them is refused. */
function randomChanges(
  random: Random,
  members: ReadonlySet<number>,
): { changes: Modification[]; after: Set<number> | undefined } {
  let after: Set<number> | undefined = new Set(members);
  const changes = Array.from({ length: 1 + random.int(3) }, () => {
    if (random.chance(0.1)) return change('replace', 'description', `round ${random.int(100)}`);
    const operation = random.chance(0.5) ? 'add' : 'delete';
    const many = random.chance(0.1) ? 200 : 1 + random.int(4);
    const values = new Set<number>();
    while (values.size < many) {
      const i = random.int(900);
      if (after === undefined || after.has(i) === (operation === 'delete') || random.chance(0.02)) values.add(i);
      else if (random.chance(0.01)) break;
    }
    if (values.size === 0) values.add(0);
    for (const i of values) {
      if (after?.has(i) !== (operation === 'delete')) after = undefined;
      else if (operation === 'add') after.add(i);
      else after.delete(i);
    }
    return change(operation, 'member', ...[...values].map((i) => member(i, random.int(3))));
  });
  return { changes, after: after?.size === 0 ? undefined : after };
}
