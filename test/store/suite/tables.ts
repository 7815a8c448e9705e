import { expect } from 'chai';
import { bytes, cell, codeOf, codeOfCall, type Fixture, PEOPLE, scanAll } from './fixture.js';

export function tableSuite(f: Fixture): void {
  describe('tables', () => {
    const spec = { name: 'suite_tables', families: [{ name: 'x' }, { name: 'y', separate: true }] };
    afterEach(() => f.store.dropTable(spec.name));

    it('lists the tables by name, with their specs', async () => {
      await f.store.createTable(spec);
      const tables = await f.store.tables();
      expect(tables.find((t) => t.name === spec.name)).to.deep.equal(spec);
      const names = tables.map((t) => t.name);
      expect(names).to.deep.equal([...names].sort());
    });

    it('opens a table that is there, and refuses one of another spec', async () => {
      await f.store.createTable(spec);
      await f.store.commit({ steps: [{ table: spec.name, key: bytes('k'), put: [cell(0, 'q', 'v')] }], decisive: 0 });
      await f.store.createTable({ ...spec });
      expect(await f.store.get(spec.name, bytes('k'))).to.not.equal(undefined);
      expect(await codeOf(f.store.createTable({ ...spec, families: [{ name: 'x' }] }))).to.equal('conflict');
      expect(await codeOf(f.store.createTable({ ...spec, rising: true }))).to.equal('conflict');
    });

    it('makes one table of many that are created at once', async () => {
      await Promise.all(Array.from({ length: 8 }, () => f.store.createTable(spec)));
      expect((await f.store.tables()).filter((t) => t.name === spec.name)).to.have.length(1);
    });

    it('drops a table with its rows; dropping it again is no error', async () => {
      await f.store.createTable(spec);
      await f.store.commit({ steps: [{ table: spec.name, key: bytes('k'), put: [cell(0, 'q', 'v')] }], decisive: 0 });
      await f.store.dropTable(spec.name);
      await f.store.dropTable(spec.name);
      expect(await codeOfCall(() => f.store.get(spec.name, bytes('k')))).to.equal('noTable');
      await f.store.createTable(spec);
      expect((await scanAll(f.store, spec.name, {})).keys).to.deep.equal([]);
    });

    it('ends a running scan with noTable when its table is dropped, also when it was created again', async () => {
      await f.store.createTable(spec);
      const scan = f.store.scan(spec.name, {});
      await f.store.dropTable(spec.name);
      expect(await codeOfCall(() => scan.next())).to.equal('noTable');
      await f.store.createTable(spec);
      const other = f.store.scan(spec.name, {});
      expect((await other.next())?.keys ?? []).to.deep.equal([]);
      scan.close();
      scan.close();
      other.close();
    });

    it('answers noTable for every call on a table that is not there', async () => {
      const none = 'suite_none';
      expect(await codeOfCall(() => f.store.get(none, bytes('k')))).to.equal('noTable');
      expect(await codeOfCall(() => f.store.getMany(none, [bytes('k')]))).to.equal('noTable');
      expect(await codeOfCall(() => f.store.getCells(none, bytes('k'), 0, bytes('')))).to.equal('noTable');
      expect(await codeOfCall(() => f.store.scan(none, {}).next())).to.equal('noTable');
      expect(await codeOfCall(() => f.store.postings(none, bytes('k'), 1))).to.equal('noTable');
      expect(await codeOfCall(() => f.store.postingsMany(none, [bytes('k')], 1))).to.equal('noTable');
      expect(await codeOfCall(() => f.store.postingCount(none, bytes('k'), 1))).to.equal('noTable');
      expect(await codeOfCall(() => f.store.rangePostings(none, {}, 1))).to.equal('noTable');
      expect(await codeOfCall(() => f.store.count(none, {}, 1))).to.equal('noTable');
      expect(await codeOf(f.commit({ table: none, key: bytes('k'), put: [cell(0, 'q', 'v')] }))).to.equal('noTable');
      expect(await codeOf(f.ingest(none, [{ key: bytes('k'), row: bytes('') }]))).to.equal('noTable');
    });

    it('refuses postings of a table without suffixes, and cells of a family that is not separate', async () => {
      let errors = 0;
      for (const call of [
        () => f.store.postings(PEOPLE.name, bytes('k'), 1),
        () => f.store.postingsMany(PEOPLE.name, [bytes('k')], 1),
        () => f.store.getCells(PEOPLE.name, bytes('k'), 0, bytes('')),
      ]) {
        try {
          await call();
        } catch (error) {
          expect(error).to.be.instanceOf(TypeError);
          errors++;
        }
      }
      expect(errors).to.equal(3);
    });
  });
}
