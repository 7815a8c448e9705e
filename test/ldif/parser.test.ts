import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { CR_ALONE, CR_DOUBLED } from '../../src/bytes/text-form.js';
import { formatEntry, type LdifRecord, readLdif } from '../../src/ldif/index.js';
import { badLength, notBase64, parse, plain, whole } from './helpers.js';

function content(text: string): [dn: string, ...values: string[]] {
  const [record] = parse(text);
  if (record?.kind !== 'content') throw new TypeError(JSON.stringify(plain(record!)));
  return [record.dn, ...record.attributes.flatMap(({ type, values }) => values.map((value) => `${type}=${value}`))];
}

function fault(text: string): { line: number; faultLine: number; reason: string } {
  const [record] = parse(text);
  if (record?.kind !== 'error') throw new TypeError(JSON.stringify(plain(record!)));
  return { line: record.line, faultLine: record.faultLine, reason: record.reason };
}

const SPACES = 'a line of spaces alone continues the line before it; make it empty, so that it ends the record';

describe('LDIF: reading', () => {
  it('LDIF may have both kinds of line ends, a byte order mark, and no last line end', () => {
    const expected = ['cn=a', 'cn=a', 'sn=b c'];
    expect(content('dn: cn=a\ncn: a\nsn: b \n c')).to.deep.equal(expected);
    expect(content('\ufeffdn: cn=a\r\ncn: a\r\nsn: b \r\n c\r\n\r\n')).to.deep.equal(expected);
    expect(content('\r\n\n  \nversion: 1\r\n\r\ndn: cn=a\ncn: a\r\nsn: b c\n')).to.deep.equal(expected);
  });

  it('LDIF values are read byte for byte', () => {
    expect(content('dn:\ncn:\nsn: \nx:   a  \nx:b:c\nx: :d\nx:: \nx::IA==\nx: Jörg')).to.deep.equal([
      '',
      'cn=',
      'sn=',
      'x=a  ',
      'x=b:c',
      'x=:d',
      'x=',
      'x= ',
      'x=Jörg',
    ]);
  });

  it('folded lines are joined wherever they are folded, also by a line of one space', () => {
    expect(content('d\n n: cn\n =a\nc\n n\n :\n  a\n  b\n \nsn:\n : Y\n Q=\n =\n')).to.deep.equal([
      'cn=a',
      'cn=a b',
      'sn=a',
    ]);
  });

  it('comments are skipped anywhere, including folded comments', () => {
    const text =
      '# extended LDIF\n#\n# LDAPv3\n# base <dc=a>\n#  with a fold\n  more: of it\n\n# a\ndn: cn=a\n#cn: x\n y: z\ncn: a\n# end\n\n# search result\n';
    expect(parse(text)).to.have.length(1);
    expect(content(text)).to.deep.equal(['cn=a', 'cn=a']);
  });

  it('values are grouped by attribute description in order, in any case', () => {
    expect(plain(parse('dn: a=b\nCN: 1\nsn: 2\ncn: 3\ncn;lang-de: 4\nCn;LANG-DE: 5\n')[0]!)).to.deep.equal({
      kind: 'content',
      dn: 'a=b',
      attributes: [
        { type: 'CN', values: ['1', '3'] },
        { type: 'sn', values: ['2'] },
        { type: 'cn;lang-de', values: ['4', '5'] },
      ],
    });
  });

  it('version lines are accepted at the beginning of any record, alone or not', () => {
    const records = parse('version: 1\n\nversion: 1\ndn: cn=a\ncn: a\n\nversion: 1\n');
    expect(records.map(({ kind, line }) => [kind, line])).to.deep.equal([['content', 4]]);
    expect(fault('version: 2\ndn: cn=a\ncn: a\n').reason).to.equal('line 1: only LDIF version 1 can be read');
  });

  it('each record has its line, byte offset and text', () => {
    const text =
      '# c\n\n\ndn: cn=a\ncn: a\n\n# d\nversion: 1\ndn: cn=b\ncn: fol\n ded\n# e\nsn: x\n# f\n\r\nbroken\n\ndn: cn=c\ncn: c';
    const records = parse(text);
    expect(records.map(({ kind, line, text: own }) => [kind, line, own.toString()])).to.deep.equal([
      ['content', 4, 'dn: cn=a\ncn: a\n'],
      ['content', 9, 'dn: cn=b\ncn: fol\n ded\n# e\nsn: x\n'],
      ['error', 16, 'broken\n'],
      ['content', 18, 'dn: cn=c\ncn: c'],
    ]);
    for (const { offset, text: own } of records)
      expect(text.slice(offset, offset + own.length)).to.equal(own.toString());
  });

  const faults: readonly (readonly [text: string, line: number, reason: string])[] = [
    ['cn: a\n', 1, 'a record begins with "dn:"'],
    ['search: 2\n', 1, 'a record begins with "dn:" (a dump of ldapsearch: make it with -LLL)'],
    ['dn: cn=a\n', 1, 'the record ends after its dn'],
    ['\n\ndn: cn=a\ncn: a\ndn: cn=b\n', 5, 'a second "dn:"; a blank line is missing before it'],
    ['dn: cn=a\ncn: a\nsecret\n', 3, 'no colon in this line of 6 bytes; expected "attribute: value"'],
    ['dn: cn=a\ncn : a\n', 2, '"cn " is not an attribute description'],
    ['dn: cn=a\n: a\n', 2, '"" is not an attribute description'],
    ['dn: cn=a\ncn;: a\n', 2, '"cn;" is not an attribute description'],
    ['dn: cn=a\n\tcn: a\n', 2, '"\\tcn" is not an attribute description'],
    [' cn: a\n', 1, 'a continuation line with no line before it'],
    ['dn: cn=a\ncn:: YWJj!\n', 2, notBase64(5)],
    ['dn: cn=a\n# c\ncn:: YW\n Jj-w==\n', 3, notBase64(5)],
    ['dn: cn=a\ncn:: YQ==YQ==\n', 2, notBase64(3)],
    ['dn: cn=a\ncn:: ====\n', 2, notBase64(1)],
    ['dn: cn=a\ncn:: a text in the clear\n', 2, notBase64(2)],
    ['dn: cn=a\ncn:: YWJjZ\n', 2, badLength(5)],
    ['dn: cn=a\rcn: a\r\rdn: cn=b\rcn: b\n', 1, CR_ALONE],
    ['version: 1\rdn: cn=a\rcn: a\n', 1, CR_ALONE],
    ['# a comment\rdn: cn=a\rcn: a\n', 1, CR_ALONE],
    ['dn: cn=a\ndescription: foo\rtitle: bar\n', 2, CR_ALONE],
    ['dn: cn=a\r\ndescription: foo\r\n \rbar\r\n', 2, CR_ALONE],
    ['dn: cn=a\nchangetype: modify\nadd: cn\ncn: a\rb\n-\n', 4, CR_ALONE],
    ['dn: cn=a\r\r\ncn: a\r\r\n', 1, CR_DOUBLED],
    ['dn: cn=a\ncn: a\r\r\n b\n', 2, CR_DOUBLED],
    ['# a comment\r\r\ndn: cn=a\r\r\n', 1, CR_DOUBLED],
    ['dn: cn=a\ncn: a\n\t\ndn: cn=b\ncn: b\n', 3, 'a line of white space alone; make it empty, or remove it'],
    ['dn: cn=a\ncn: a\n  \n# b\ndn: cn=b\ncn: b\n', 3, SPACES],
    ['dn: cn=a\r\nchangetype: delete\r\n \r\ndn: cn=b\r\n', 3, SPACES],
    ['dn: cn=a\nchangetype: modify\nadd: cn\ncn: a\n-\n \ndn: cn=b\ncn: b\n', 6, SPACES],
    ['dn:: /w==\ncn: a\n', 1, 'the value is not UTF-8'],
    ['dn: cn=a\nchangetype: ad\n', 2, 'unknown changetype; there are add, delete, modify, modrdn and moddn'],
    ['dn: cn=a\nchangetype: add\n', 2, '"changetype: add" has no attributes'],
    ['dn: cn=a\nchangetype: delete\ncn: a\n', 3, 'nothing may follow "changetype: delete"'],
    ['dn: cn=a\ncn: a\nchangetype: delete\n', 3, '"changetype:" must come right after "dn:"'],
    ['dn: cn=a\nchangetype: modify\n', 2, '"changetype: modify" has no changes'],
    ['dn: cn=a\nchangetype: modify\ncn: a\n', 3, 'expected "add:", "delete:", "replace:" or "increment:"'],
    ['dn: cn=a\nchangetype: modify\n-\n', 3, '"-" stands only between the changes of "changetype: modify"'],
    ['dn: cn=a\nchangetype: modify\nadd: cn\n-\n', 3, '"add: cn" has no values'],
    ['dn: cn=a\nchangetype: modify\nadd: \n', 3, 'no attribute description after "add:"'],
    ['dn: cn=a\nchangetype: modify\nincrement: n\nn: 1\nn: 2\n', 3, '"increment: n" has 2 values; it takes one'],
    [
      'dn: cn=a\nchangetype: modify\nadd: cn\ncn: a\nreplace: sn\nsn: b\n',
      5,
      '"replace" in a change of another attribute; "-" is missing before it',
    ],
    ['dn: cn=a\nchangetype: modrdn\ndeleteoldrdn: 1\n', 3, 'expected "newrdn:"'],
    ['dn: cn=a\nchangetype: modrdn\nnewrdn: cn=b\n', 3, 'expected "deleteoldrdn:"'],
    ['dn: cn=a\nchangetype: modrdn\nnewrdn: cn=b\ndeleteoldrdn: yes\n', 4, '"deleteoldrdn:" must be 0 or 1'],
    ['dn: cn=a\nchangetype: moddn\nnewrdn: cn=b\ndeleteoldrdn: 1\ncn: x\n', 5, 'expected "newsuperior:"'],
    ['dn: cn=a\ncontrol: 1.2.3\ncn: a\n', 3, '"changetype:" must follow "control:"'],
    ['dn: cn=a\ncontrol: 1.2.3\n', 2, '"changetype:" must follow "control:"'],
    ['dn: cn=a\ncontrol: x\n', 2, 'expected "control: OID", then "true" or "false", then ": value"'],
  ];
  for (const [text, line, reason] of faults) {
    it(`an LDIF error is reported: ${reason}`, () => {
      expect(fault(text).reason).to.equal(`line ${line}: ${reason}`);
      expect(fault(text).faultLine).to.equal(line);
      const next = parse(text + '\ndn: cn=next\ncn: next\n');
      expect(
        next.map(({ kind }) => kind),
        'the next record is read',
      ).to.deep.equal(['error', 'content']);
      expect(next.map((record) => record.text.toString()).join('')).to.include('dn: cn=next');
    });
  }

  it('no file is read for a name or another keyword', () => {
    const url = `< ${pathToFileURL(process.execPath)}\n`;
    const texts = [
      `dn:${url}cn: a\n`,
      `dn: cn=a\nchangetype: modrdn\nnewrdn:${url}deleteoldrdn: 1\n`,
      `dn: cn=a\nchangetype:${url}`,
    ];
    const allowUrls = (): never => expect.fail('a URL is asked for');
    for (const text of texts) {
      const [record] = parse(text, { allowUrls });
      expect(record).to.have.property('reason').that.includes('only the value of an attribute can come from a URL');
    }
  });

  it('line ends of CR alone are named in a text without LF, of any length', () => {
    const text = `dn: cn=a\rcn: ${'a'.repeat(2000)}\r\rdn: cn=b\rcn: b\r`;
    for (const options of [{}, { longRecordBytes: 800 }, { maxRecordBytes: 1000 }]) {
      const records = parse(text, options, 100);
      expect(records).to.have.length(1);
      expect(records[0]).to.include({ kind: 'error', faultLine: 1 });
      expect((records[0] as { reason: string }).reason).to.include(CR_ALONE);
    }
    expect(content('# a comment\r\n#  of two\r\n  lines\r\ndn: cn=a\r\ncn: a\r\n')).to.deep.equal(['cn=a', 'cn=a']);
  });

  it('a CR in a value of a long record is found, and CRLF is accepted there', () => {
    const text = (value: string): string => `dn: cn=a\r\ncn: ${value}\r\n b\r\nsn:: DQ==\r\n`;
    const value = 'a'.repeat(2000);
    const options = { longRecordBytes: 800 };
    const [taken] = parse(text(value), options, 100);
    expect(taken).to.have.property('kind', 'content');
    expect(parse(text(`${value}\rb`), options, 100)[0]).to.have.property('reason', `line 2: ${CR_ALONE}`);
  });

  it('a text in UTF-16 is reported once, with the command to convert it, in any chunks', () => {
    const text = 'dn: cn=a\ncn: a\n\ndn: cn=b\ncn: b\n';
    const little = Buffer.from(text, 'utf16le');
    const marked = Buffer.from(`\ufeff${text}`, 'utf16le');
    const forms = { 'UTF-16LE': little, 'UTF-16BE': Buffer.from(little).swap16(), 'UTF-16': marked };
    for (const [form, bytes] of [...Object.entries(forms), ['UTF-16', Buffer.from(marked).swap16()] as const]) {
      for (const size of [1, 7, 1000]) {
        const reason = `line 1: the text is UTF-16; convert it with iconv -f ${form} -t UTF-8`;
        const records = parse(bytes, {}, size);
        expect(records).to.have.length(1);
        expect(records[0]).to.include({ kind: 'error', line: 1, faultLine: 1, reason });
      }
    }
  });

  it('a modification without its last dash is read, and so is the next record', () => {
    const records = parse('dn: cn=a\nchangetype: modify\ndelete: cn\n\ndn: cn=b\nadd: cn\n\n');
    expect(records.map(({ kind }) => kind)).to.deep.equal(['modify', 'content']);
  });

  it('LDIF yields the same records wherever the text is split', () => {
    const text =
      '\ufeff# c\r\nversion: 1\r\n\r\ndn: cn=a\r\ncn: a\r\n b\r\n\r\n\r\ndn:: Y249Yg==\ncn: b\n\n\n# d\n\nbroken\nx: y\n\n \ndn: cn=c\nchangetype: modify\nadd: cn\ncn: x\n-\n\ndn: cn=d\ncn: d';
    const expected = parse(text).map(whole);
    expect(expected).to.have.length(5);
    const bytes = Buffer.from(text);
    for (let size = 1; size <= bytes.length; size++) {
      expect(parse(bytes, {}, size).map(whole), `chunks of ${size}`).to.deep.equal(expected);
    }
  });

  it('a record that is too long is refused and reading goes on, in any chunks', () => {
    const long = 'dn: cn=long\n' + `cn: ${'x'.repeat(70)}\n`.repeat(100);
    const text = `dn: cn=a\ncn: a\n\n${long}\ndn: cn=b\ncn: b\n`;
    for (const size of [1, 7, 500, 1000, 7000, 100_000]) {
      const records = parse(text, { maxRecordBytes: 1000 }, size);
      expect(
        records.map(({ kind, line }) => [kind, line]),
        `chunks of ${size}`,
      ).to.deep.equal([
        ['content', 1],
        ['error', 4],
        ['content', 106],
      ]);
      expect(records[1]).to.include({ reason: 'line 4: a record of more than 1000 bytes' });
      expect(records[1]!.text.toString()).to.match(/^dn: cn=long\ncn: x/);
      expect(records[2]!.offset).to.equal(text.indexOf('dn: cn=b'));
    }
    expect(parse(text.slice(0, -20), { maxRecordBytes: 1000 }, 100).map(({ kind }) => kind)).to.deep.equal([
      'content',
      'error',
    ]);
  });

  it('lines of megabytes are read, folded or not', async () => {
    const value = Buffer.alloc(1_500_000, 'abc\n');
    for (const wrap of [true, false]) {
      const bytes = formatEntry('cn=a', [{ type: 'jpegPhoto', values: [value, Buffer.alloc(1_000_000, 'x')] }], {
        wrap,
      });
      const chunks: Buffer[] = [];
      for (let at = 0; at < bytes.length; at += 65_536) chunks.push(Buffer.from(bytes.subarray(at, at + 65_536)));
      const records: LdifRecord[] = [];
      for await (const batch of readLdif(chunks)) records.push(...batch);
      const [record] = records;
      if (record?.kind !== 'content') throw new TypeError('not an entry');
      expect(record.attributes[0]!.values.map((v) => v.length)).to.deep.equal([1_500_000, 1_000_000]);
      expect(record.attributes[0]!.values[0]!.equals(value)).to.equal(true);
    }
  });
});
