import { expect } from 'chai';
import { LONG_ROW, type Partition } from '../../src/partition/index.js';
import { decodeResponse } from '../../src/protocol/decode-response.js';
import { Writer } from '../../src/protocol/writer.js';
import { EntryEncoder } from '../../src/server/entry/encode-entry.js';
import { Selections } from '../../src/server/entry/selection.js';
import { Random } from '../protocol/random.js';
import { emptyPartition } from './directory.js';

const seed = Number(process.env.ROWAN_SEED ?? Date.now() % 1_000_000);

/** Names with the spelling they are shown in. */
const NAMES: readonly (readonly [given: string, shown: string])[] = [
  ['cn', 'cn'],
  ['CN;Lang-DE', 'cn;lang-de'],
  ['description', 'description'],
  ['MAIL', 'mail'],
  ['jpegphoto', 'jpegPhoto'],
  ['userCertificate;binary', 'userCertificate;binary'],
  ['objectclass', 'objectClass'],
  ['telephoneNumber', 'telephoneNumber'],
];

describe('server: entry encoding', () => {
  let partition: Partition;
  before(async () => {
    partition = await emptyPartition();
  });

  it('random entries decode to what was packed, whatever the lengths', async () => {
    const random = new Random(seed);
    const encoder = new EntryEncoder(partition.descriptions, partition);
    const selections = new Selections(partition.schema);
    const writer = new Writer();
    const writeLong = async (pieces: AsyncIterable<Buffer>): Promise<number> => {
      for await (const piece of pieces) writer.raw(piece);
      return writer.length;
    };
    const lengths = [0, 1, 95, 96, 97, 127, 128, 129, 255, 256, 257, 4000, 65_535, 65_536];
    for (let round = 0; round < 400; round++) {
      const expected = new Map<string, Buffer[]>();
      for (const [, shown] of NAMES) {
        if (random.chance(2)) continue;
        const count = random.pick([1, 1, 1, 2, 3, 100]);
        const values = Array.from({ length: count }, () =>
          Buffer.alloc(count > 3 ? random.below(40) : random.pick(lengths), random.below(256)),
        );
        expected.set(shown, values);
      }
      const row = partition.virtualRow([...expected].map(([type, values]) => ({ type, values })));
      const asked = random.chance(2) ? [] : NAMES.filter(() => random.chance(2)).map(([given]) => given);
      const typesOnly = random.chance(4);
      const id = random.pick([1, 127, 128, 32_767, 32_768, 8_388_608, 0x7fffffff]);
      const dn = Buffer.from(`cn=${'x'.repeat(random.pick(lengths.slice(0, 12)))}`);
      const entry = { id: Buffer.alloc(16), row, dn, sight: undefined };
      const written = encoder.encode(
        { writer, writeChunked: writeLong },
        id,
        entry,
        selections.forAttributes(asked),
        typesOnly,
      );
      expect(typeof written === 'number', 'only long rows go in pieces').to.equal(typesOnly || row.length <= LONG_ROW);
      await written;
      const { response, id: back } = decodeResponse(writer.take());
      if (response.op !== 'searchEntry') throw new Error(response.op);
      expect(back, `seed ${seed}`).to.equal(id);
      expect(response.dn).to.equal(dn.toString());
      const wanted = [...expected].filter(([shown]) => asked.length === 0 || isAsked(shown, asked));
      expect(response.attributes.map((a) => a.type).sort(), `seed ${seed} round ${round}`).to.deep.equal(
        wanted.map(([name]) => name).sort(),
      );
      for (const [name, values] of wanted) {
        const found = response.attributes.find((a) => a.type === name)!.values;
        const same = typesOnly
          ? found.length === 0
          : found.length === values.length && found.every((v, i) => v.equals(values[i]!));
        expect(same, `seed ${seed} round ${round} ${name}`).to.equal(true);
      }
    }
  });

  it('a row that is cut is refused, whatever the offset', () => {
    const encoder = new EntryEncoder(partition.descriptions, partition);
    const selection = new Selections(partition.schema).forAttributes([]);
    const row = partition.virtualRow([{ type: 'cn', values: [Buffer.from('one'), Buffer.from('two')] }]);
    const ends = new Set<number>();
    for (let at = 0; at < row.length; at += 7 + row.readUInt16BE(at + 1) + row.readUInt32BE(at + 3)) ends.add(at);
    for (let cut = 1; cut < row.length; cut++) {
      const writer = new Writer();
      const entry = { id: Buffer.alloc(16), row: row.subarray(0, cut), dn: Buffer.from('cn=x'), sight: undefined };
      const encode = (): unknown => encoder.encode({ writer, writeChunked: notInPieces }, 1, entry, selection, false);
      if (ends.has(cut)) encode();
      else expect(encode, `cut at ${cut}`).to.throw(/cut/);
    }
  });
});

/** No value here is outside its row. */
function notInPieces(): never {
  throw new Error('nothing is written in pieces');
}

/** `cn` asks for `cn;lang-de` too. */
function isAsked(shown: string, asked: readonly string[]): boolean {
  return asked.some((name) => {
    const lower = name.toLowerCase();
    return lower === shown.toLowerCase() || shown.toLowerCase().startsWith(`${lower};`);
  });
}
