import { expect } from 'chai';
import { formatComment, formatEntry, formatEntryChunks, VERSION_LINE } from '../../src/ldif/index.js';
import { parse, type Random, random, whole } from './helpers.js';

const names = ['cn', 'sn;lang-de', 'description', 'userCertificate;binary', '2.5.4.13', 'x-long-name-of-an-attribute'];
const tricky = [
  '',
  ' ',
  'a ',
  ' a',
  ':',
  '<',
  ':a',
  '<a',
  '\n',
  '\r',
  'a\nb',
  '\0',
  'ä',
  '日本',
  '# no',
  '-',
  'a:b',
  '\x7f',
  'a\tb',
];

function randomValue({ below }: Random): Buffer {
  switch (below(4)) {
    case 0:
      return Buffer.from(tricky[below(tricky.length)]!);
    case 1:
      return Buffer.from(Array.from({ length: below(200) }, () => below(256)));
    default:
      return Buffer.from(Array.from({ length: below(160) }, () => 0x20 + below(0x5f)));
  }
}

type Attributes = { type: string; values: Buffer[] }[];

function randomEntry(r: Random): { dn: string; attributes: Attributes } {
  const attributes: Attributes = [];
  for (const type of names) {
    if (attributes.length > 0 && r.below(2) === 0) continue;
    attributes.push({ type, values: Array.from({ length: 1 + r.below(3) }, () => randomValue(r)) });
  }
  return { dn: ['', 'cn=a', 'cn=ä,dc=b', `cn=${'x'.repeat(r.below(120))}`, ' cn=a'][r.below(5)]!, attributes };
}

describe('LDIF: random entries', () => {
  it('random entries are written and read back unchanged', () => {
    const r = random();
    const entries = Array.from({ length: 300 }, () => randomEntry(r));
    for (const wrap of [true, false]) {
      const text = Buffer.concat([
        VERSION_LINE,
        formatComment('made\nat random'),
        ...entries.map((e) => formatEntry(e.dn, e.attributes, { wrap })),
      ]);
      const records = parse(text, {}, 1 + r.below(3000));
      const back = records.map((record) =>
        record.kind === 'content' ? { dn: record.dn, attributes: record.attributes } : record,
      );
      expect(back, `seed ${r.seed}`).to.deep.equal(entries);
      const lines = text.toString('latin1').split('\n');
      if (wrap) expect(Math.max(...lines.map((line) => line.length))).to.equal(76);
      expect(/[^\n -~]/.test(text.toString('latin1')), 'only printable ASCII').to.equal(false);
    }
  });

  it('base64 values that arrive in pieces are read like whole values', async () => {
    const r = random();
    async function* cut(value: Buffer): AsyncGenerator<Buffer> {
      for (let at = 0, next = 0; at < value.length; at = next) {
        next = at + 1 + r.below(2 * value.length);
        yield value.subarray(at, next);
      }
    }
    for (let round = 0; round < 300; round++) {
      const { dn, attributes } = randomEntry(r);
      const pieces: Buffer[] = [];
      const given = attributes.map(({ type, values }) => ({
        type,
        values: values.map((value) => (r.below(2) === 0 ? cut(value) : value)),
      }));
      for await (const piece of formatEntryChunks(dn, given)) pieces.push(piece);
      const text = Buffer.concat(pieces);
      const strip = (record: object) => ({ ...record, text: '' });
      expect(
        parse(text)
          .map(whole)
          .map((record) => strip(record as object)),
        `seed ${r.seed}`,
      ).to.deep.equal(
        parse(formatEntry(dn, attributes))
          .map(whole)
          .map((record) => strip(record as object)),
      );
      for (const line of text.toString('latin1').split('\n')) expect(line.length, line).to.be.at.most(76);
      // Bytes that nothing but base64 can hold are written alike, whichever way they come.
      const odd = [{ type: 'jpegPhoto', values: [Buffer.from([0, ...text])] }];
      const streamed: Buffer[] = [];
      for await (const piece of formatEntryChunks(dn, [{ type: 'jpegPhoto', values: [cut(odd[0]!.values[0]!)] }]))
        streamed.push(piece);
      expect(Buffer.concat(streamed).equals(formatEntry(dn, odd)), `seed ${r.seed}`).to.equal(true);
    }
  });

  it('safe values are written as text and all other values in base64', () => {
    const values = ['plain text', ' a', 'a ', ':a', '<a', 'a:<', 'ä', '\x7f', ''].map((text) => Buffer.from(text));
    expect(formatEntry('cn=ä', [{ type: 'x', values }]).toString()).to.equal(
      'dn:: Y249w6Q=\nx: plain text\nx:: IGE=\nx:: YSA=\nx:: OmE=\nx:: PGE=\nx: a:<\nx:: w6Q=\nx:: fw==\nx:\n\n',
    );
  });

  it('mutated LDIF yields the same records or faults however it is split into chunks', () => {
    const r = random();
    const changes = Buffer.from(
      'dn: cn=a\ncontrol: 1.2.3 true: x\nchangetype: modify\nadd: cn\ncn: x\n-\nreplace: sn\n-\n\ndn: cn=b\nchangetype: moddn\nnewrdn: cn=c\ndeleteoldrdn: 1\nnewsuperior: dc=x\n\n',
    );
    const signs = Buffer.from('\n\r :#<-=;\0\t\ufeff1aZ');
    for (let round = 0; round < 1500; round++) {
      const entries = [randomEntry(r), randomEntry(r)].map((e) => formatEntry(e.dn, e.attributes));
      const bytes = Buffer.concat([VERSION_LINE, entries[0]!, changes, entries[1]!]);
      // A NUL among the first two would make it UTF-16, which is one error without the text.
      for (let n = r.below(6); n >= 0; n--) bytes[2 + r.below(bytes.length - 2)] = signs[r.below(signs.length)]!;
      const cut = bytes.subarray(0, bytes.length - r.below(2) * r.below(bytes.length));
      const records = parse(cut).map(whole);
      expect(parse(cut, {}, 1 + r.below(400)).map(whole), `seed ${r.seed}, round ${round}`).to.deep.equal(records);
      let end = 0;
      for (const { offset, text } of parse(cut)) {
        expect(offset, `seed ${r.seed}, round ${round}`).to.be.at.least(end);
        expect(cut.subarray(offset, offset + text.length).equals(text)).to.equal(true);
        end = offset + text.length;
      }
    }
  });
});
