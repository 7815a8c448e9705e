import { expect } from 'chai';
import type { Cell } from '../../../../src/store/contract.js';
import { CellBlock, CellCursor, TableCodec } from '../../../../src/store/hbase/rpc/cells.js';
import { packRow } from '../../../../src/store/row.js';
import { checkRow } from '../../../../src/store/row-edit.js';
import { StoreError } from '../../../../src/store/store-error.js';
import { bytes, cell, random } from '../../suite/fixture.js';

const KEY = bytes('row');

/** The block as a server sends it: cells sorted by family name, then qualifier. */
function blockOf(families: readonly string[], cells: readonly Cell[]): Buffer {
  const table = new TableCodec({ name: 't', families });
  const block = new CellBlock(table);
  const sorted = [...cells].sort(
    (a, b) =>
      Buffer.compare(bytes(families[a.family]!), bytes(families[b.family]!)) ||
      Buffer.compare(a.qualifier, b.qualifier),
  );
  for (const one of sorted) block.add(KEY, one, one.value);
  return Buffer.concat(block.parts);
}

function randomCells(next: (below: number) => number, families: number): Cell[] {
  const cells = new Map<string, Cell>();
  for (let i = next(9); i >= 0; i--) {
    const one = cell(
      next(families),
      'q'.repeat(next(70)) + next(5),
      'v'.repeat(next(4) === 0 ? next(5_000) : next(80)),
    );
    cells.set(`${one.family}:${one.qualifier.toString('latin1')}`, one);
  }
  return [...cells.values()];
}

describe('hbase/rpc cell blocks', () => {
  it('is the KeyValue layout, to the byte', () => {
    const table = new TableCodec({ name: 't', families: ['f'] });
    const block = new CellBlock(table);
    block.add(bytes('r'), { family: 0, qualifier: bytes('q') }, bytes('v'), undefined, 0x0102030405060708n);
    const hex = Buffer.concat(block.parts).toString('hex');
    //                    length   key len  val len  row   fam  q  timestamp        put v
    expect(hex).to.equal(
      '00000018' + '0000000f' + '00000001' + '000172' + '0166' + '71' + '0102030405060708' + '04' + '76',
    );
  });

  it('become packed rows, whatever the order of the family names', function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    for (const families of [['0', '1', '2'], ['z', 'mm', 'a'], ['info']]) {
      const table = new TableCodec({ name: 't', families });
      for (let round = 0; round < 100; round++) {
        const rows = Array.from({ length: 1 + next(3) }, () => randomCells(next, families.length));
        const cursor = new CellCursor(Buffer.concat(rows.map((cells) => blockOf(families, cells))));
        for (const cells of rows) {
          const row = table.pack(cursor, cells.length)!;
          checkRow(row);
          expect(row.equals(packRow(cells)), `round ${round}`).to.equal(true);
        }
        expect(cursor.isAtEnd).to.equal(true);
      }
    }
  });

  it('of a family that the table does not have are a conflict', () => {
    const table = new TableCodec({ name: 't', families: ['a'] });
    const block = blockOf(['a', 'b'], [cell(1, 'q', 'v')]);
    expect(() => table.pack(new CellCursor(block), 1))
      .to.throw(StoreError, /family 'b'/)
      .with.property('code', 'conflict');
  });

  it('cut anywhere, or with any byte changed, give rows or corrupt, and never more cells than there are', function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    const families = ['0', '1'];
    const table = new TableCodec({ name: 't', families });
    for (let round = 0; round < 1_000; round++) {
      const cells = randomCells(next, 2);
      const whole = blockOf(families, cells);
      const damaged = Buffer.from(whole.subarray(0, next(3) === 0 ? next(whole.length) : whole.length));
      for (let i = 1 + next(3); i > 0 && damaged.length > 0; i--)
        damaged[next(Math.min(damaged.length, 60))] = next(256);
      try {
        const row = table.pack(new CellCursor(damaged), cells.length + next(2))!;
        expect(row.length, `round ${round}`).to.be.at.most(damaged.length);
      } catch (error) {
        expect(error, `round ${round}`).to.be.instanceOf(StoreError);
        expect((error as StoreError).code, `round ${round}`).to.be.oneOf(['corrupt', 'conflict']);
      }
    }
    const whole = blockOf(families, [cell(0, 'q', 'v')]);
    expect(() => table.pack(new CellCursor(whole), 2))
      .to.throw(StoreError)
      .with.property('code', 'corrupt');
  });
});
