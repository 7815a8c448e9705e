import { expect } from 'chai';
import { MessageReader, MessageWriter, varintLength, writeVarint } from '../../../../src/store/hbase/rpc/protobuf.js';
import { StoreError } from '../../../../src/store/store-error.js';
import { random } from '../../suite/fixture.js';

type Field =
  | { kind: 'uint'; field: number; value: number }
  | { kind: 'uint64'; field: number; value: bigint }
  | { kind: 'bool'; field: number; value: boolean }
  | { kind: 'bytes'; field: number; value: Buffer }
  | { kind: 'message'; field: number; value: Field[] };

function randomFields(next: (below: number) => number, depth: number): Field[] {
  return Array.from({ length: next(6) }, (): Field => {
    const field = 1 + next([15, 2_000, 0x1fff_ffff][next(3)]!);
    const large = () => Math.floor(2 ** next(54)) - 1 + next(2);
    switch (next(depth > 0 ? 5 : 4)) {
      case 0:
        return { kind: 'uint', field, value: Math.min(large(), Number.MAX_SAFE_INTEGER) };
      case 1:
        return {
          kind: 'uint64',
          field,
          value: BigInt.asUintN(64, (BigInt(large()) << BigInt(next(12))) - BigInt(next(2))),
        };
      case 2:
        return { kind: 'bool', field, value: next(2) === 1 };
      case 3:
        return { kind: 'bytes', field, value: Buffer.from(Array.from({ length: next(300) }, () => next(256))) };
      default:
        return { kind: 'message', field, value: randomFields(next, depth - 1) };
    }
  });
}

function write(fields: readonly Field[]): MessageWriter {
  const out = new MessageWriter();
  for (const field of fields) {
    if (field.kind === 'bool') out.bool(field.field, field.value);
    else if (field.kind === 'bytes') out.bytes(field.field, field.value);
    else if (field.kind === 'message') out.message(field.field, write(field.value));
    else out.uint(field.field, field.value);
  }
  return out;
}

/** Reads what `fields` describe; some fields are skipped instead, as `skip` says. */
function read(reader: MessageReader, fields: readonly Field[], skip: () => boolean): Field[] {
  return fields.map((field): Field => {
    if (!reader.next()) throw new Error('ended early');
    const at = reader.field;
    if (skip()) {
      reader.skip();
      return { ...field, field: at };
    }
    const { kind } = field;
    if (kind === 'uint') return { kind, field: at, value: reader.uint() };
    if (kind === 'uint64') return { kind, field: at, value: reader.uint64() };
    if (kind === 'bool') return { kind, field: at, value: reader.bool() };
    if (kind === 'bytes') return { kind, field: at, value: reader.bytes() };
    return { kind, field: at, value: read(reader.message(), field.value, skip) };
  });
}

/** Walks everything, guessing at types as a reader of an unknown message would. */
function walk(reader: MessageReader, next: (below: number) => number): void {
  while (reader.next()) {
    const how = next(6);
    if (how === 0) reader.uint();
    else if (how === 1) reader.uint64();
    else if (how === 2) reader.bool();
    else if (how === 3) reader.bytes();
    else if (how === 4) walk(reader.message(), next);
    else reader.skip();
  }
}

describe('hbase/rpc protobuf', () => {
  it('writes what the encoding guide of Protocol Buffers shows', () => {
    // developers.google.com/protocol-buffers/docs/encoding: field 1 = 150; field 2 = "testing"; field 3 = { 1: 150 }.
    expect(new MessageWriter().uint(1, 150).finish().toString('hex')).to.equal('089601');
    expect(new MessageWriter().string(2, 'testing').finish().toString('hex')).to.equal('120774657374696e67');
    expect(new MessageWriter().message(3, new MessageWriter().uint(1, 150)).finish().toString('hex')).to.equal(
      '1a03089601',
    );
    expect(
      new MessageWriter()
        .uint(1, 2n ** 64n - 1n)
        .finish()
        .toString('hex'),
    ).to.equal('08ffffffffffffffffff01');
    expect(new MessageWriter().uint(1, undefined).bool(2, undefined).bytes(3, undefined).finish()).to.have.length(0);
  });

  it('reads back what it wrote', function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    for (let round = 0; round < 500; round++) {
      const fields = randomFields(next, 3);
      const reader = new MessageReader(write(fields).finish());
      expect(
        read(reader, fields, () => next(8) === 0),
        `round ${round}`,
      ).to.deep.equal(fields);
      expect(reader.next()).to.equal(false);
    }
  });

  it('counts the bytes of a number as it writes them', () => {
    const out = Buffer.alloc(16);
    for (let bit = 0; bit < 53; bit++) {
      for (const value of [2 ** bit - 1, 2 ** bit, 2 ** bit + 1]) {
        expect(varintLength(value), String(value)).to.equal(writeVarint(out, 0, value));
        expect(new MessageReader(out).varint(), String(value)).to.equal(value);
      }
    }
  });

  it('refuses lengths, numbers and wire types that do not fit', () => {
    const refused = {
      'a length beyond the end': '0aff01',
      'a length beyond 2^32': '0affffffffff01',
      'a number of eleven bytes': '08ffffffffffffffffffff01',
      'an end in the middle of a number': '0880',
      'field number 0': '0001',
      'a group': '0b',
      'eight bytes that are not there': '0900000000',
      'four bytes that are not there': '0d000000',
    };
    for (const [what, hex] of Object.entries(refused)) {
      const skipAll = () => {
        const reader = new MessageReader(Buffer.from(hex, 'hex'));
        while (reader.next()) reader.skip();
      };
      expect(skipAll, what).to.throw(StoreError).with.property('code', 'corrupt');
    }
    const beyond = new MessageReader(Buffer.from('08ffffffffffffff7f', 'hex'));
    beyond.next();
    expect(() => beyond.uint())
      .to.throw(StoreError)
      .with.property('code', 'corrupt');
  });

  it('cut anywhere, or with any byte changed, gives a message or corrupt', function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    for (let round = 0; round < 300; round++) {
      const bytes = write(randomFields(next, 3)).finish();
      const damaged = Buffer.from(bytes.subarray(0, next(bytes.length + 1)));
      for (let i = next(3); i > 0 && damaged.length > 0; i--) damaged[next(damaged.length)] = next(256);
      try {
        walk(new MessageReader(damaged), next);
      } catch (error) {
        expect(error, `round ${round}`).to.be.instanceOf(StoreError).with.property('code', 'corrupt');
      }
    }
  });
});
