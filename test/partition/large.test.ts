import { expect } from 'chai';
import { parseUuid } from '../../src/partition/index.js';
import { valueQualifier } from '../../src/partition/model/entry-cells.js';
import { MASTER } from '../../src/partition/model/tables.js';
import { CHUNK } from '../../src/partition/model/thresholds.js';
import { UNRESTRICTED } from '../../src/partition/model/viewer.js';
import { chain } from '../../src/store/maybe.js';
import { change, ENGINES, type Fixture, openFixture, refused, SUFFIX, uuidText } from './fixture.js';

const ANN = `cn=ann,${SUFFIX}`;
/** More chunks than are read together. */
const LENGTH = 9 * CHUNK + 1000;

/** Bytes of which no two chunks are alike. */
function photo(length: number, seed: number): Buffer {
  const bytes = Buffer.alloc(length, seed);
  for (let at = 0; at < length; at += 1000) bytes[at] = (at / 1000) % 251;
  return bytes;
}

for (const engine of ENGINES) {
  describe(`values in many chunks (${engine})`, () => {
    const qualifier = valueQualifier('jpegPhoto', 0);
    const first = photo(LENGTH, 1);
    let fixture: Fixture;
    let id: Buffer;

    beforeEach(async () => {
      fixture = await openFixture(engine);
      id = await fixture.person('ann', SUFFIX, { jpegPhoto: first });
    });
    afterEach(async () => {
      await fixture.expectClean();
      await fixture.close();
    });

    async function photos(): Promise<readonly Buffer[]> {
      const { attributes } = await fixture.read(ANN, true);
      return attributes.find((a) => a.description === 'jpegPhoto')?.values ?? [];
    }

    async function expectPhotos(...wanted: Buffer[]): Promise<void> {
      const found = await photos();
      expect(found.map((f) => wanted.findIndex((w) => w.equals(f)))).to.deep.equal([...wanted.keys()]);
    }

    it('values in many chunks are read piece by piece', async () => {
      const large = await fixture.partition.openLarge(id);
      expect(large.valueLength(qualifier)).to.equal(LENGTH);
      const pieces: Buffer[] = [];
      for await (const piece of large.chunks(qualifier)) pieces.push(piece);
      expect(pieces.map((piece) => piece.length)).to.deep.equal([...Array<number>(9).fill(CHUNK), 1000]);
      expect(Buffer.concat(pieces).equals(first)).to.equal(true);
      expect(large.valueLength(valueQualifier('jpegPhoto', 1))).to.equal(0);
      large.close();
    });

    it('a large value replaced while it is read yields the old value or an error, never a mixture', async () => {
      const large = await fixture.partition.openLarge(id);
      const pieces = large.chunks(qualifier);
      const read = [(await pieces.next()).value!];
      await fixture.modify(ANN, change('replace', 'jpegPhoto', photo(LENGTH, 2)));
      const rest = (async () => {
        for await (const piece of pieces) read.push(piece);
      })();
      if (fixture.store.supports.snapshot) {
        await rest;
        expect(Buffer.concat(read).equals(first)).to.equal(true);
      } else {
        await refused('unavailable', rest);
        expect(first.indexOf(Buffer.concat(read)), 'what was given before').to.equal(0);
      }
      large.close();
    });

    it('a large value replaced by a short value since the lookup yields the short value', async () => {
      const short = photo(50, 3);
      await fixture.modify(ANN, change('replace', 'jpegPhoto', short));
      const large = await fixture.partition.openLarge(id);
      expect(large.valueLength(qualifier)).to.equal(short.length);
      const pieces: Buffer[] = [];
      for await (const piece of large.chunks(qualifier)) pieces.push(piece);
      expect(Buffer.concat(pieces).equals(short)).to.equal(true);
      large.close();
    });

    it('a large value replaced during search, compare or read yields the value before or after', async () => {
      const texts = ['a', 'b', 'c'].map((letter, i) => `${letter.repeat(70_000 * (i + 1))} all`);
      await fixture.modify(ANN, change('replace', 'description', texts[0]!));
      let over = false;
      const replace = async (): Promise<void> => {
        for (let n = 1; n <= 15; n++) await fixture.modify(ANN, change('replace', 'description', texts[n % 3]!));
        over = true;
      };
      const look = async (): Promise<number> => {
        let looks = 0;
        for (; !over; looks++) {
          // Engines that answer at once would let nobody else in.
          await new Promise(setImmediate);
          expect(await fixture.find('(description=*all)', { base: ANN, scope: 'base' })).to.deep.equal([ANN]);
          await fixture.partition.compare(fixture.dn(ANN), 'description', Buffer.from(texts[1]!), UNRESTRICTED);
          const { attributes } = await fixture.read(ANN, true);
          const found = attributes.find((a) => a.description === 'description')?.values.map((v) => v.toString());
          expect(texts.map((text) => [text])).to.deep.include(found);
        }
        return looks;
      };
      const [looks] = await Promise.all([look(), look(), replace()]);
      expect(looks).to.be.greaterThan(0);
    });

    it('a large value without one of its chunks is reported', async () => {
      const name = Buffer.concat([qualifier, Buffer.from([0, 0, 0, 7])]);
      const cell = { family: MASTER.largeValues, qualifier: name };
      const kept = await chain(fixture.store.getCells('master', id, MASTER.largeValues, name), (cells) => cells!);
      await fixture.store.commit({ steps: [{ table: 'master', key: id, delete: [cell] }], decisive: 0 });
      await refused('other', photos(), /cannot be read/);
      const value = kept.subarray(kept.length - CHUNK);
      await fixture.store.commit({ steps: [{ table: 'master', key: id, put: [{ ...cell, value }] }], decisive: 0 });
      await expectPhotos(first);
    });

    it('large values are added, refused twice, deleted by value, replaced and removed', async () => {
      const [one, two] = ['one ', 'two '].map((word) => word.repeat(LENGTH / 4).trim()) as [string, string];
      const expectTexts = async (...wanted: string[]) => {
        const { attributes } = await fixture.read(ANN, true);
        const found = attributes.find((a) => a.description === 'description')!.values;
        expect(found.map((text) => wanted.indexOf(String(text)))).to.deep.equal([...wanted.keys()]);
      };
      await fixture.modify(ANN, change('replace', 'description', one));
      await fixture.modify(ANN, change('add', 'description', two));
      await expectTexts(one, two);
      await refused('attributeOrValueExists', fixture.modify(ANN, change('add', 'description', one)));
      await fixture.modify(ANN, change('delete', 'description', one));
      await expectTexts(two);
      await refused('noSuchAttribute', fixture.modify(ANN, change('delete', 'description', one)));
      await fixture.modify(ANN, change('replace', 'description', one), change('add', 'description', two));
      await expectTexts(one, two);
      await fixture.modify(ANN, change('delete', 'description'), change('replace', 'jpegPhoto', photo(LENGTH, 3)));
      await expectPhotos(photo(LENGTH, 3));
      await fixture.modify(ANN, change('delete', 'jpegPhoto'), change('add', 'description', 'none'));
      await expectPhotos();
    });

    it('large values are replaced and removed without being read', async () => {
      const name = Buffer.concat([qualifier, Buffer.from([0, 0, 0, 7])]);
      const gone = [{ family: MASTER.largeValues, qualifier: name }];
      await fixture.store.commit({ steps: [{ table: 'master', key: id, delete: gone }], decisive: 0 });
      await fixture.modify(ANN, change('replace', 'jpegPhoto', photo(70_000, 4)));
      await expectPhotos(photo(70_000, 4));
    });

    it('large values are restored with a deleted entry', async () => {
      await fixture.delete(ANN);
      await fixture.expectClean();
      await fixture.partition.restore(parseUuid(uuidText(id)), { dn: '' });
      await expectPhotos(first);
    });

    it('large values do not affect indexes of other attributes, and are found by their own index', async () => {
      const text = 'long '.repeat(LENGTH / 5);
      await fixture.modify(ANN, change('add', 'description', text));
      await fixture.partition.addIndex('description', {});
      await fixture.partition.addIndex('title', {});
      await fixture.partition.buildIndexes();
      const equal = { type: 'equal', attribute: 'description', value: Buffer.from(text) } as const;
      expect(await fixture.find(equal)).to.deep.equal([ANN]);
      await fixture.delete(ANN);
    });
  });
}
