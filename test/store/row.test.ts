import { expect } from 'chai';
import type { StoreFilter } from '../../src/store/contract.js';
import { compareCells, EMPTY, findCell, packRow, unpackRow } from '../../src/store/row.js';
import { cellChanges, checkRow, editRow } from '../../src/store/row-edit.js';
import { compileFilter } from '../../src/store/row-filter.js';
import { StoreError } from '../../src/store/store-error.js';
import { bytes, cell, random } from './suite/fixture.js';

const ROW = packRow([
  cell(0, 'cn', 'Ann'),
  cell(0, 'sn', 'Lee'),
  cell(1, '2.5.4.3', ''),
  cell(1, '2.5.4.3=ann', '\0\0\0\0'),
]);

describe('packed rows', () => {
  it('cut at any byte are corrupt, never read past the end', () => {
    const bounds = new Set<number>([0]);
    for (const c of unpackRow(ROW)) bounds.add([...bounds].at(-1)! + 7 + c.qualifier.length + c.value.length);
    for (let length = 0; length < ROW.length; length++) {
      const row = ROW.subarray(0, length);
      const readers: (() => unknown)[] = [
        () => checkRow(row),
        () => unpackRow(row),
        () => findCell(row, 2, bytes('x')),
        () => editRow(row, [{ family: 2, qualifier: bytes('x'), value: bytes('y') }]),
        () => compileFilter({ op: 'hasColumn', family: 2, qualifier: bytes('x') })(row),
        () => compileFilter({ op: 'anyColumn', family: 2, match: { prefix: bytes('') } })(row),
      ];
      for (const [i, read] of readers.entries()) {
        if (bounds.has(length)) read();
        else expect(read, `reader ${i} at ${length}`).to.throw(StoreError).with.property('code', 'corrupt');
      }
    }
  });

  it('with any byte changed give an answer or corrupt, nothing else', () => {
    const filter: StoreFilter = {
      op: 'or',
      of: [
        { op: 'columnEquals', family: 0, qualifier: bytes('sn'), value: bytes('x') },
        { op: 'anyColumn', family: 1, match: { prefix: bytes('2.5.4.3='), any: [bytes('zz')] } },
      ],
    };
    const test = compileFilter(filter);
    for (let at = 0; at < ROW.length; at++) {
      for (const value of [0, 1, 0x7f, 0x80, 0xff]) {
        const row = Buffer.from(ROW);
        row[at] = value;
        for (const read of [() => test(row), () => checkRow(row), () => findCell(row, 1, bytes('zz'))]) {
          try {
            read();
          } catch (error) {
            expect(error, `byte ${at} = ${value}`).to.be.instanceOf(StoreError).with.property('code', 'corrupt');
          }
        }
      }
    }
  });

  it('out of order are corrupt', () => {
    const [a, b] = unpackRow(ROW).map((c) => packRow([c]));
    expect(() => checkRow(Buffer.concat([b!, a!]))).to.throw(/out of order/);
    expect(() => checkRow(Buffer.concat([a!, a!]))).to.throw(/out of order/);
    checkRow(ROW);
  });

  it('are evaluated in a longer buffer up to the end given', () => {
    const test = compileFilter({ op: 'hasColumn', family: 3, qualifier: bytes('beyond') });
    const longer = Buffer.concat([ROW, packRow([cell(3, 'beyond', '')])]);
    expect(test(longer, ROW.length)).to.equal(false);
    expect(test(longer)).to.equal(true);
  });

  it('change as a map of cells does', function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    const model = new Map<string, string>();
    let row: Buffer | undefined;
    for (let i = 0; i < 500; i++) {
      const edits = new Map<string, string | undefined>();
      for (let n = next(4); n >= 0; n--)
        edits.set(`${next(3)}${'q'.repeat(next(4))}${next(3)}`, next(2) ? 'v'.repeat(next(20)) : undefined);
      for (const [name, value] of edits) {
        if (value === undefined) model.delete(name);
        else model.set(name, value);
      }
      const sorted = [...edits].sort(([a], [b]) => (a < b ? -1 : 1));
      const before = row;
      row = editRow(
        row,
        sorted.map(([name, value]) => ({
          family: Number(name[0]),
          qualifier: bytes(name.slice(1)),
          value: value === undefined ? undefined : bytes(value),
        })),
      );
      const expected = packRow([...model].map(([name, value]) => cell(Number(name[0]), name.slice(1), value)));
      expect(row ?? bytes('')).to.deep.equal(expected);
      if (row) checkRow(row);
      const { removedCells: gone, writtenCells: come } = cellChanges(before ?? EMPTY, unpackRow(expected));
      const changes = [...gone.map((name) => ({ ...name, value: undefined })), ...come].sort(compareCells);
      expect(editRow(before, changes) ?? EMPTY).to.deep.equal(expected);
      const old = unpackRow(before ?? EMPTY);
      for (const cell of changes) expect(old).to.not.deep.include(cell);
      expect(gone).to.have.length(old.filter((cell) => !model.has(`${cell.family}${cell.qualifier}`)).length);
    }
  });
});
