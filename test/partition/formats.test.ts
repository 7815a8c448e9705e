import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { CELL_HEADER, unpackRow } from '../../src/store/row.js';
import { exampleDirectory, exampleRows } from './example.js';
import { ENGINES, type Fixture } from './fixture.js';

const PAGE = new URL('../../../docs/formats/tables.md', import.meta.url);

/** The page's examples by name: key, and the packed row whose cells it shows. */
function documented(): Map<string, { key: Buffer; row: Buffer }> {
  const found = new Map<string, { key: Buffer; row: Buffer }>();
  const text = readFileSync(PAGE, 'utf8');
  for (const [, name, block] of text.matchAll(/<!-- ([a-z ]+) -->\n```hex\n([^`]*)```/g)) {
    const lines = block!
      .trim()
      .split('\n')
      .map((line) => line.replace(/#.*$/, '').replace(/^key/, '').replace(/\s/g, ''));
    for (const line of lines) expect(line, `${name}: hex digits`).to.match(/^([\da-f]{2})+$/);
    const [key, ...cells] = lines.map((line) => Buffer.from(line, 'hex'));
    found.set(name!, { key: key!, row: Buffer.concat(cells) });
  }
  return found;
}

/** What depends on the moment, or on chance, is compared by its length only. */
const VARYING = /^(time|csn|cookieKey|[\d.]+:claim)$/;

function shape(row: Buffer): [number, string, string][] {
  return unpackRow(row).map(({ family, qualifier, value }) => {
    const name = qualifier.toString('latin1');
    return [family, name, VARYING.test(name) ? `${value.length} bytes` : value.toString('latin1')];
  });
}

for (const engine of ENGINES) {
  describe(`docs/formats/tables.md (${engine})`, () => {
    const examples = documented();
    let fixture: Fixture;
    let rows: Awaited<ReturnType<typeof exampleRows>>;
    before(async () => {
      fixture = await exampleDirectory(engine);
      rows = await exampleRows(fixture);
    });
    after(() => fixture.close());

    it('has an example of every table', () => {
      expect([...examples.keys()].sort()).to.deep.equal(Object.keys(rows).sort());
    });

    for (const [name, { key, row }] of examples) {
      it(`${name} is what is stored`, async () => {
        const stored = rows[name]!;
        // Its first eight bytes are the time of the deletion.
        if (name === 'purge')
          expect([key.length, key.toString('hex', 8)]).to.deep.equal([24, stored.key.toString('hex', 8)]);
        // Change numbers rise, and over HBase with gaps.
        else if (name === 'changes' && engine === 'hbase') expect(stored.key).to.have.length(8);
        else expect(key.toString('hex')).to.equal(stored.key.toString('hex'));
        if (!stored.row) {
          expect(await fixture.store.get(stored.table, stored.key)).to.be.instanceOf(Buffer);
          return;
        }
        expect(row.length).to.be.greaterThan(CELL_HEADER);
        expect(shape(row)).to.deep.equal(shape(stored.row));
      });
    }
  });
}
