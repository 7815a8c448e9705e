import { expect } from 'chai';
import { PackedRows, RowPacker, recycleMemory } from '../../src/store/load.js';
import { FIXED_EXCESS, fixedBytes, putBytes, putFixed } from '../../src/store/row.js';
import { sortKeys } from '../../src/store/sort-keys.js';
import { bytes, random } from './suite/fixture.js';

/** A cell of family 1 with the qualifier `q`, its value left out. */
const HEAD = fixedBytes(Buffer.from([1, 0, 1, 9, 9, 9, 9]), Buffer.from('q'));

function listOf(keys: readonly Buffer[]) {
  const all = Buffer.concat(keys);
  const starts = new Uint32Array(keys.length);
  const ends = new Uint32Array(keys.length);
  let at = 0;
  for (const [i, key] of keys.entries()) {
    starts[i] = at;
    at += key.length;
    ends[i] = at;
  }
  return { bytes: all, starts, ends, count: keys.length };
}

/** Keys that share beginnings, repeat, end in zero bytes, and are empty. */
function someKeys(next: (n: number) => number, count: number): Buffer[] {
  const keys: Buffer[] = [];
  for (let i = 0; i < count; i++) {
    const earlier = keys.length > 0 && next(3) > 0 ? keys[next(keys.length)]! : Buffer.alloc(0);
    const kept = earlier.subarray(0, next(4) === 0 ? next(earlier.length + 1) : earlier.length);
    const more = Buffer.from(Array.from({ length: next(7) }, () => [0, 1, 0x3d, 0x61, 0x62, 0xff][next(6)]!));
    keys.push(Buffer.concat([kept, more]));
  }
  return keys;
}

describe('sorting keys', () => {
  const { seed, next } = random();

  it(`puts them in byte order, equal ones as they came (ROWAN_SEED=${seed})`, () => {
    for (let round = 0; round < 200; round++) {
      const keys = someKeys(next, next(round));
      const expected = [...keys.keys()].sort((a, b) => Buffer.compare(keys[a]!, keys[b]!) || a - b);
      expect([...sortKeys(listOf(keys))], `round ${round}`).to.deep.equal(expected);
    }
  });

  it('sorts many equal ones, and long ones that differ at their end', () => {
    const same = Array.from({ length: 5000 }, (_, i) => bytes(`${'x'.repeat(300)}${i % 3}`));
    const order = [...sortKeys(listOf(same))];
    expect(order.slice(0, 3)).to.deep.equal([0, 3, 6]);
    expect(order.map((i) => i % 3)).to.deep.equal(order.map((i) => i % 3).sort());
  });
});

describe('packed rows for a load', () => {
  it('are whole in memory that held others before', () => {
    const rows = (count: number, fill: string) =>
      Array.from({ length: count }, (_, i) => ({
        key: bytes(`${fill}${String(i).padStart(6, '0')}`),
        row: bytes(fill.repeat(90)),
      }));
    // Whatever other tests have given: none is left, or the next rows would be packed into that.
    for (let n = 0; n < 512; n++) PackedRows.of([]);
    const first = PackedRows.of(rows(3000, 'x'));
    recycleMemory([first.bytes.buffer as ArrayBuffer]);
    const again = rows(2500, 'y');
    const packed = PackedRows.of(again);
    expect(packed.bytes.buffer).to.equal(first.bytes.buffer);
    expect([...packed].map(({ key, row }) => ({ key, row }))).to.deep.equal(again);
    expect(PackedRows.of(again).bytes.buffer).to.not.equal(packed.bytes.buffer);
  });

  const { seed, next } = random();

  it(`come back in key order, whole (ROWAN_SEED=${seed})`, () => {
    const some = (most: number) => Buffer.from(Array.from({ length: next(most) }, () => next(256)));
    const rows = new Map<string, { key: Buffer; row: Buffer; separate: Buffer | undefined }>();
    for (let i = 0; i < 1000; i++) {
      const key = some(12);
      const separate = next(5) === 0 ? Buffer.concat([Buffer.from([1]), some(200)]) : undefined;
      rows.set(key.toString('latin1'), { key, row: some(next(10) === 0 ? 5000 : 60), separate });
    }
    const given = [...rows.values()];
    const expected = [...given].sort((a, b) => Buffer.compare(a.key, b.key));
    expect([...PackedRows.of(given)]).to.deep.equal(expected);
  });

  it('are packed from cells and bytes, beyond the room there was', () => {
    const packer = new RowPacker();
    for (let i = 0; i < 400; i++) {
      const value = Buffer.alloc(i, 7);
      packer.begin(i % 2 ? 0 : HEAD.length + FIXED_EXCESS + i);
      packer.write(bytes(`key ${String(i).padStart(3, '0')}`));
      packer.endKey();
      packer.reserve(HEAD.length + FIXED_EXCESS + i);
      packer.at = putBytes(packer.bytes, putFixed(packer.view, packer.at, HEAD), value);
      packer.view.setInt32(packer.at - i - HEAD.length + 3, i);
      packer.endRow();
      packer.end();
    }
    const rows = [...packer.rows()];
    expect(rows.length).to.equal(400);
    for (const [i, { key, row }] of rows.entries()) {
      expect(key.toString()).to.equal(`key ${String(i).padStart(3, '0')}`);
      const head = Buffer.from([1, 0, 1, 0, 0, i >>> 8, i & 255, 0x71]);
      expect(row).to.deep.equal(Buffer.concat([head, Buffer.alloc(i, 7)]));
    }
  });
});
