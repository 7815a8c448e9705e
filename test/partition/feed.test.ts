import { expect } from 'chai';
import { ChangeReader, type NumberedChange } from '../../src/partition/feed/change-reader.js';
import { decodeBefore } from '../../src/partition/model/before-image.js';
import {
  CHANGES_TABLE,
  DELETED,
  DELETED_TABLE,
  DELETION,
  MASTER,
  MASTER_TABLE,
  numberKey,
} from '../../src/partition/model/tables.js';
import type { Store } from '../../src/store/contract.js';
import { keysOf } from '../../src/store/maybe.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { cellValue, packSorted, unpackRow } from '../../src/store/row.js';
import { rowBefore } from './before-image.js';
import { change, ENGINES, type Fixture, openFixture, refused, SUFFIX, seeded } from './fixture.js';

/** Number of the oldest record, if any. A reader more than one below it may have missed trimmed records. */
async function oldestChange(store: Store): Promise<bigint | undefined> {
  const [oldest] = await keysOf(store.scan(CHANGES_TABLE.name, {}, { limit: 1, keysOnly: true }));
  return oldest?.readBigUInt64BE();
}

async function allOf(reader: ChangeReader): Promise<NumberedChange[]> {
  const found: NumberedChange[] = [];
  for await (const batch of reader.read()) found.push(...batch);
  return found;
}

/** A master row without what table `deleted` adds to it. */
function masterRow(row: Buffer): Buffer {
  return packSorted(unpackRow(row).filter(({ family }) => family <= MASTER.upAttributes));
}

const SECRET = /^userPassword/;

/** Without values of secrets, which records do not have. */
function shown(row: Buffer): [string, string][] {
  return unpackRow(row).map(({ family, qualifier, value }) => {
    const name = `${family} ${qualifier.toString('latin1')}`;
    return [name, SECRET.test(qualifier.toString('latin1')) ? 'secret' : value.toString('latin1')];
  });
}

for (const engine of ENGINES) {
  describe(`change records (${engine})`, () => {
    let fixture: Fixture;
    let reader: ChangeReader;
    before(async () => {
      fixture = await openFixture(engine);
      reader = new ChangeReader(fixture.store);
      await allOf(reader);
    });
    after(() => fixture.close());

    const row = async (id: Buffer) => (await fixture.store.get(MASTER_TABLE.name, id))!;
    const imageOf = ({ beforeImage: before }: NumberedChange) => decodeBefore(before!);

    it('a change record describes the removed, replaced and added values of a modify', async () => {
      const id = await fixture.person('ann', SUFFIX, { mail: ['a@x', 'b@x'], telephoneNumber: '1' });
      const before = await row(id);
      await fixture.modify(
        `cn=ann,${SUFFIX}`,
        change('delete', 'mail', 'a@x'),
        change('add', 'mail', 'c@x'),
        change('replace', 'telephoneNumber', '2'),
        change('add', 'description', 'new'),
        change('add', 'userPassword', 'clear'),
      );
      const [added, modified] = await allOf(reader);
      expect(added!.op).to.equal('add');
      expect(added!.beforeImage).to.equal(undefined);
      expect(modified!.attributes).to.include.members(['mail', 'telephoneNumber', 'description', 'userPassword']);
      const image = imageOf(modified!);
      const of = (name: string) => image.attributes.find(({ description }) => description === name)!;
      expect(of('mail').old.map(({ index, bytes }) => [index, bytes.toString()])).to.deep.equal([[0, 'a@x']]);
      expect(of('mail').added).to.deep.equal([2]);
      expect(of('telephoneNumber').old.map(({ bytes }) => bytes.toString())).to.deep.equal(['1']);
      expect(of('description')).to.deep.include({ old: [], added: [0] });
      expect(of('userPassword')).to.deep.include({ isSecret: true, old: [], added: [] });
      expect(modified!.beforeImage!.includes(Buffer.from('clear'))).to.equal(false);
      const undone = shown(rowBefore(await row(id), image)).filter(([name]) => !name.includes('userPassword'));
      expect(undone).to.deep.equal(shown(before));
    });

    it('a change record has the length and hash of a large value', async () => {
      const photo = Buffer.alloc(70_000, 0xd8);
      const id = await fixture.person('big', SUFFIX, { jpegPhoto: photo });
      const before = await row(id);
      await fixture.modify(`cn=big,${SUFFIX}`, change('replace', 'jpegPhoto', 'small'));
      const [, modified] = await allOf(reader);
      const image = imageOf(modified!);
      const [old] = image.attributes.find(({ description }) => description === 'jpegPhoto')!.old;
      expect([old!.isLarge, old!.bytes.length, Number(old!.bytes.readBigUInt64BE())]).to.deep.equal([true, 40, 70_000]);
      expect(shown(rowBefore(await row(id), image))).to.deep.equal(shown(before));
    });

    it('the change record of a rename has the old name and place', async () => {
      await fixture.unit('there');
      const id = await fixture.person('moving');
      await allOf(reader);
      const before = await row(id);
      await fixture.rename(`cn=moving,${SUFFIX}`, 'cn=moved', { newSuperior: `ou=there,${SUFFIX}` });
      const [renamed] = await allOf(reader);
      expect(renamed!.dn.toString()).to.equal(`cn=moving,${SUFFIX}`);
      expect(renamed!.newDn!.toString()).to.equal(`cn=moved,ou=there,${SUFFIX}`);
      const image = imageOf(renamed!);
      expect([...image.info.keys()]).to.have.members(['normRdn', 'parentId', 'upRdn']);
      expect(shown(rowBefore(await row(id), image))).to.deep.equal(shown(before));
    });

    it('change records of deletion and restoration refer to the table of deleted entries', async () => {
      const id = await fixture.person('gone');
      await allOf(reader);
      const before = await row(id);
      await fixture.delete(`cn=gone,${SUFFIX}`);
      const [deleted] = await allOf(reader);
      const kept = (await fixture.store.get(DELETED_TABLE.name, id))!;
      expect(deleted!.beforeImage).to.equal(undefined);
      expect(cellValue(kept, DELETED.deletion, DELETION.time)!.equals(deleted!.time)).to.equal(true);
      expect(shown(masterRow(kept))).to.deep.equal(shown(before));
      await fixture.partition.restore(id, { dn: 'cn=admin' });
      const [restored] = await allOf(reader);
      expect(shown(rowBefore(await row(id), imageOf(restored!)))).to.deep.equal(shown(before));
    });

    it('change records lead back through random changes, row by row', () =>
      seeded(async (random) => {
        const id = await fixture.person('walk', SUFFIX, { objectClass: 'inetOrgPerson', uid: 'w' });
        await allOf(reader);
        const types = ['mail', 'description', 'title', 'givenName;lang-de', 'l'];
        const rows = [await row(id)];
        let name = 'walk';
        for (let step = 0; step < 60; step++) {
          const type = types[random.int(types.length)]!;
          const values = Array.from({ length: random.int(4) }, () => `v${random.int(30)}@x`);
          if (random.int(6) === 0) {
            const next = `walk${step}`;
            await fixture.rename(`cn=${name},${SUFFIX}`, `cn=${next}`, { deleteOldRdn: random.int(2) === 0 });
            name = next;
          } else await fixture.modify(`cn=${name},${SUFFIX}`, change('replace', type, ...new Set(values)));
          rows.push(await row(id));
        }
        let now = rows.pop()!;
        for (const record of (await allOf(reader)).reverse()) {
          now = rowBefore(now, imageOf(record));
          expect(now.toString('hex')).to.equal(rows.pop()!.toString('hex'));
        }
        expect(rows).to.deep.equal([]);
      }));

    it('a follower gets each change once, and one that is too far behind is refused', async function () {
      if (engine === 'hbase') this.skip();
      const { feed } = fixture.partition;
      const start = await feed.latest();
      const idle = feed.follow(start);
      const busy = feed.follow(start);
      for (const follower of [idle, busy])
        expect((await follower.next()).value!.changes, 'nothing new at first').to.deep.equal([]);
      const cells = { op: 'add', id: 'i'.repeat(16), dn: SUFFIX, by: '', csn: '2', time: 't'.repeat(8) };
      const append = Object.entries(cells)
        .map(([name, value]) => ({ family: 0, qualifier: Buffer.from(name), value: Buffer.from(value) }))
        .sort((a, b) => a.qualifier.compare(b.qualifier));
      for (let n = 0; n < 22; n++) {
        const steps = Array.from({ length: 500 }, () => ({ table: CHANGES_TABLE.name, append }));
        await fixture.store.commit({ steps, decisive: 0 });
        feed.noteCommit();
        const got: bigint[] = [];
        while (got.length < 500) got.push(...(await busy.next()).value!.changes.map(({ number }) => number));
        expect(got.length).to.equal(500);
        expect(got[0]).to.equal(start.number + BigInt(n * 500 + 1));
        expect(got[499]).to.equal(start.number + BigInt(n * 500 + 500));
      }
      await refused('syncRefreshRequired', idle.next());
      await busy.return();
      await allOf(reader);
    });

    it('change records are read from a number on, and none is returned twice', async () => {
      const from = reader.position;
      for (let i = 0; i < 5; i++) await fixture.person(`many${i}`);
      const first = await allOf(reader);
      expect(first).to.have.length(5);
      expect(await allOf(reader)).to.deep.equal([]);
      const again = await allOf(new ChangeReader(fixture.store, from));
      expect(again.map(({ number }) => number)).to.deep.equal(first.map(({ number }) => number));
      const later = await allOf(new ChangeReader(fixture.store, first[1]!.number));
      expect(later.map(({ dn }) => dn.toString())).to.deep.equal(first.slice(2).map(({ dn }) => dn.toString()));
      expect(await oldestChange(fixture.store)).to.be.a('bigint');
    });
  });
}

/** A store in which records appear under numbers that were drawn before: each is put when its writer comes to it. */
async function ticketed(): Promise<{ store: Store; draw(): bigint; finish(ticket: bigint): Promise<void> }> {
  const inner = openMemoryStore();
  await inner.createTable(CHANGES_TABLE);
  let last = 0n;
  const open = new Set<bigint>();
  const record = { op: 'add', by: '', csn: '', dn: 'cn=a', id: 'i'.repeat(16), time: 't'.repeat(8) };
  const put = Object.entries(record)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => ({ family: 0, qualifier: Buffer.from(name), value: Buffer.from(value) }));
  const settled = (): bigint => [...open].reduce((least, ticket) => (ticket <= least ? ticket - 1n : least), last);
  return {
    store: new Proxy(inner, {
      get: (target, name) => {
        const member = (name === 'settled' ? settled : Reflect.get(target, name)) as unknown;
        return typeof member === 'function' ? (member.bind(target) as unknown) : member;
      },
    }),
    draw() {
      last += 2n;
      open.add(last);
      return last;
    },
    async finish(ticket) {
      await inner.commit({ steps: [{ table: CHANGES_TABLE.name, key: numberKey(ticket), put }], decisive: 0 });
      open.delete(ticket);
    },
  };
}

describe('change records that appear out of order', () => {
  it('change records are returned in order and once, in whatever order their writers finish', () =>
    seeded(async (random) => {
      const { store, draw, finish } = await ticketed();
      const reader = new ChangeReader(store);
      const open: bigint[] = [];
      const drawn: bigint[] = [];
      const given: bigint[] = [];
      for (let step = 0; step < 2000; step++) {
        if (open.length < 8 && random.int(2) === 0) {
          const ticket = draw();
          open.push(ticket);
          drawn.push(ticket);
        } else if (open.length > 0) await finish(open.splice(random.int(open.length), 1)[0]!);
        if (random.int(3) === 0) for (const { number } of await allOf(reader)) given.push(number);
      }
      for (const ticket of open) await finish(ticket);
      for (const { number } of await allOf(reader)) given.push(number);
      expect(given).to.deep.equal(drawn);
    }));
});
