import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { decodeBefore, encodeBeforeImage } from '../../src/partition/model/before-image.js';
import { DescriptionTable } from '../../src/partition/model/descriptions.js';
import { valueQualifier } from '../../src/partition/model/entry-cells.js';
import { MASTER, Q } from '../../src/partition/model/tables.js';
import { CELL_HEADER, counterBytes, packRow, unpackRow } from '../../src/store/row.js';
import { cellChanges } from '../../src/store/row-edit.js';
import { rowBefore } from './before-image.js';
import { exampleDirectory, exampleRows } from './example.js';
import { ENGINES, type Fixture, testSchema } from './fixture.js';

const PAGE = new URL('../../../docs/formats/tables.md', import.meta.url);

/** The page's examples by name: key, and the packed row whose cells it shows. */
function documented(): Map<string, { key: Buffer; row: Buffer }> {
  const found = new Map<string, { key: Buffer; row: Buffer }>();
  const text = readFileSync(PAGE, 'utf8');
  for (const [, name, block] of text.matchAll(/<!-- ([a-z ]+) -->\n```hex\n([^`]*)```/g)) {
    if (name === 'before image') continue;
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
const VARYING = /^(time|csn|cookieKey|[\d.]+:(born|claim))$/;

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

    it('docs/formats/tables.md has an example of every table', () => {
      expect([...examples.keys()].sort()).to.deep.equal(Object.keys(rows).sort());
    });

    for (const [name, { key, row }] of examples) {
      it(`the example '${name}' in docs/formats/tables.md is what is stored`, async () => {
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

describe('docs/formats/tables.md', () => {
  it('the before image in docs/formats/tables.md is encoded and decoded', () => {
    const [, block] = /<!-- before image -->\n```hex\n([^`]*)```/.exec(readFileSync(PAGE, 'utf8'))!;
    const bytes = Buffer.from(block!.replace(/#.*$/gm, '').replace(/\s/g, ''), 'hex');
    const value = (name: string, index: number, text: string) => ({
      family: MASTER.upAttributes,
      qualifier: valueQualifier(name, index),
      value: Buffer.from(text),
    });
    const version = (n: bigint) => ({ family: MASTER.treeInfo, qualifier: Q.version, value: counterBytes(n) });
    const same = value('cn', 0, 'Ann');
    const before = [
      same,
      value('cn', 1, 'Anna'),
      value('entryCSN', 0, 'old'),
      value('sn', 0, 'Lee'),
      value('userPassword', 0, '{X}a'),
    ];
    const after = [
      same,
      value('entryCSN', 0, 'new'),
      value('mail', 0, 'a@x'),
      value('sn', 0, 'Li'),
      value('userPassword', 0, '{X}b'),
    ];
    const row = packRow([version(1n), ...before]);
    const changes = cellChanges(row, unpackRow(packRow([version(2n), ...after])));
    const descriptions = new DescriptionTable(testSchema());
    expect(encodeBeforeImage(descriptions, row, changes).toString('hex')).to.equal(bytes.toString('hex'));
    const back = rowBefore(packRow([version(2n), ...after]), decodeBefore(bytes));
    expect(unpackRow(back)).to.deep.equal(unpackRow(packRow([version(1n), ...before.slice(0, 4), after[4]!])));
  });

  it('a truncated or damaged before image is refused', () => {
    const [, block] = /<!-- before image -->\n```hex\n([^`]*)```/.exec(readFileSync(PAGE, 'utf8'))!;
    const bytes = Buffer.from(block!.replace(/#.*$/gm, '').replace(/\s/g, ''), 'hex');
    const whole = new Set([12, 29, 38, 49]);
    for (let at = 1; at < bytes.length; at++) {
      const cut = () => decodeBefore(bytes.subarray(0, at));
      if (whole.has(at)) cut();
      else expect(cut, `cut at ${at}`).to.throw(/before-image/);
    }
    for (const odd of ['05', '01ffffffffffffffffff01', '0102636e8080808080808080808001'])
      expect(() => decodeBefore(Buffer.from(odd, 'hex')), odd).to.throw(/before-image/);
  });
});
