import { expect } from 'chai';
import { Writer } from '../../src/protocol/writer.js';
import { tlv } from './bytes.js';
import { seeded } from './random.js';

const lengths = [0, 1, 7, 8, 9, 80, 81, 127, 128, 129, 255, 256, 65_535, 65_536, 70_000];

describe('protocol: writer', () => {
  it('octet strings of every length are written, whole and in part', () => {
    const writer = new Writer();
    for (const length of [...lengths, 0x1000000]) {
      const bytes = Buffer.alloc(length + 5, 'abcdefghijk');
      writer.octetString(0x84, bytes, 3, length + 3);
      expect(writer.take().equals(tlv(0x84, bytes.subarray(3, length + 3))), `${length}`).to.equal(true);
      writer.octetString(4, bytes);
      expect(writer.take().equals(tlv(4, bytes)), `${length}, whole`).to.equal(true);
    }
  });

  it('a part of a view that does not begin at its ArrayBuffer is written', () => {
    const writer = new Writer();
    const view = Buffer.from('x'.repeat(500) + 'y'.repeat(500)).subarray(400);
    writer.raw(view, 50, 350);
    expect(writer.take().toString()).to.equal('x'.repeat(50) + 'y'.repeat(250));
  });

  it('texts are written in UTF-8', () => {
    const writer = new Writer();
    for (const text of [
      '',
      'cn',
      'é',
      'x'.repeat(80),
      'é'.repeat(80),
      'x'.repeat(81),
      '日本'.repeat(40_000),
      '😀',
      '\ud800',
    ]) {
      writer.text(4, text);
      expect(writer.take().equals(tlv(4, text))).to.equal(true);
    }
  });

  it('integers are written in the shortest form', () => {
    const writer = new Writer();
    const forms: [number, string][] = [
      [0, '00'],
      [127, '7f'],
      [128, '0080'],
      [255, '00ff'],
      [256, '0100'],
      [32_767, '7fff'],
      [32_768, '008000'],
      [8_388_608, '00800000'],
      [0x7fffffff, '7fffffff'],
      [-1, 'ff'],
      [-128, '80'],
      [-129, 'ff7f'],
      [-0x80000000, '80000000'],
    ];
    for (const [value, hex] of forms) {
      writer.integer(2, value);
      expect(writer.take().toString('hex')).to.equal(tlv(2, Buffer.from(hex, 'hex')).toString('hex'));
    }
  });

  it('begin and end write content of any length in the shortest form', () => {
    const writer = new Writer();
    for (const length of [...lengths, 0x1000000]) {
      const bytes = Buffer.alloc(length, 'abcdefghijk');
      const mark = writer.begin(0x30);
      writer.raw(bytes);
      writer.end(mark);
      expect(writer.take().equals(tlv(0x30, bytes)), `${length}`).to.equal(true);
    }
  });

  it('octetStrings writes parts of one buffer of every length', () => {
    const writer = new Writer();
    const bytes = Buffer.alloc(400_000, 'abcdefghijk');
    let at = 0;
    const ends = Int32Array.from(lengths, (length) => (at += length + 3));
    const starts = Int32Array.from(lengths, (length, i) => ends[i]! - length);
    writer.octetStrings(4, bytes, starts, ends, 0, lengths.length);
    const wanted = lengths.map((_, i) => tlv(4, bytes.subarray(starts[i], ends[i])));
    expect(writer.take().equals(Buffer.concat(wanted))).to.equal(true);
    writer.octetStrings(4, bytes, starts, ends, 4, 6);
    expect(writer.take().equals(Buffer.concat(wanted.slice(4, 6)))).to.equal(true);
  });

  it('buffers taken from a writer share a slab and keep their bytes', () => {
    const writer = new Writer();
    const taken: Buffer[] = [];
    for (let i = 0; i < 5000; i++) {
      writer.octetString(4, Buffer.alloc(i % 300, i));
      taken.push(writer.take());
    }
    expect(taken[0]!.buffer).to.equal(taken[1]!.buffer);
    const wrong = taken.findIndex((bytes, i) => !bytes.equals(tlv(4, Buffer.alloc(i % 300, i))));
    expect(wrong).to.equal(-1);
  });

  it('take returns an empty buffer if nothing was written, also twice', () => {
    const writer = new Writer();
    expect(writer.take()).to.have.length(0);
    writer.boolean(1, true);
    expect(writer.take()).to.have.length(3);
    expect(writer.take()).to.have.length(0);
  });

  it('a large reply does not keep the buffer of the writer', () => {
    const writer = new Writer();
    writer.raw(Buffer.alloc(10 << 20));
    expect(writer.take()).to.have.length(10 << 20);
    writer.boolean(1, true);
    expect(writer.take().buffer.byteLength).to.equal(64 * 1024);
  });

  it(
    'marks stay valid while the buffer moves, in random trees of elements',
    seeded((random) => {
      const writer = new Writer();
      const write = (depth: number): Buffer => {
        if (depth === 0 || random.chance(4)) {
          const bytes = Buffer.alloc(random.below(random.pick([10, 200, 5000])), random.below(256));
          writer.octetString(4, bytes);
          return tlv(4, bytes);
        }
        const mark = writer.begin(0x31);
        const parts = random.list(6, () => write(depth - 1));
        writer.end(mark);
        return tlv(0x31, ...parts);
      };
      for (let i = 0; i < 300; i++) {
        const expected = Buffer.concat(random.list(4, () => write(4)));
        expect(writer.length).to.equal(expected.length);
        expect(writer.take().equals(expected)).to.equal(true);
      }
    }),
  );
});
