import { expect } from 'chai';
import { formatRecord, type LdifRecord, VERSION_LINE } from '../../src/ldif/index.js';
import { badLength, notBase64, parse, plain, type Random, random } from './helpers.js';

/** Records of more bytes, and lines of a sixteenth of them, are long. */
const LONG = 800;

type Value = readonly [type: string, value: Buffer, form: 'text' | 'base64'];

function randomValue(r: Random): Value {
  const type = ['cn', 'jpegPhoto', 'description;lang-de'][r.below(3)]!;
  const length = r.below(2) === 0 ? r.below(40) : r.below(3000);
  return r.below(2) === 0
    ? [type, Buffer.from(Array.from({ length }, () => r.below(256))), 'base64']
    : [type, Buffer.from(`x${'a b:<#\x80'.repeat(length / 8)}x`, 'latin1'), 'text'];
}

/** A line folded anywhere, or not. */
function line(r: Random, text: string, end: string): string {
  if (r.below(3) === 0) return text + end;
  let folded = text.slice(0, 30);
  for (let at = 30, next = 0; at < text.length; at = next) {
    next = at + 1 + r.below(200);
    folded += `${end} ${text.slice(at, next)}`;
  }
  return folded + end;
}

function randomText(r: Random): Buffer {
  const end = r.below(3) === 0 ? '\r\n' : '\n';
  let text = r.below(2) === 0 ? VERSION_LINE.toString() : '\ufeff# first\n';
  text = Buffer.from(text).toString('latin1');
  for (let n = 0; n < 8; n++) {
    text += line(r, `dn: cn=${n}`, end);
    for (let k = r.below(8); k >= 0; k--) {
      const [type, value, form] = randomValue(r);
      if (r.below(6) === 0) text += line(r, `# ${'comment '.repeat(r.below(60))}`, end);
      text += line(
        r,
        `${type}${form === 'text' ? `: ${value.toString('latin1')}` : `:: ${value.toString('base64')}`}`,
        end,
      );
    }
    text += end.repeat(1 + r.below(3));
  }
  return Buffer.from(text, 'latin1');
}

/** A record with where it stands, its text left out. */
function placed(record: LdifRecord): unknown {
  return {
    ...(plain(record) as object),
    line: record.line,
    offset: record.offset,
  };
}

function formatted(record: LdifRecord): Buffer {
  return Buffer.concat([...formatRecord(record), Buffer.from('\n')]);
}

describe('LDIF: long records', () => {
  it('long records are read like short records, however they are split', () => {
    const r = random();
    let apart = 0;
    for (let round = 0; round < 60; round++) {
      const text = randomText(r);
      const wanted = parse(text, { longRecordBytes: 1e9 }, 1 + r.below(300));
      expect(wanted.every((record) => record.detachedValues === undefined)).to.equal(true);
      const found = parse(text, { longRecordBytes: LONG }, 1 + r.below(300));
      expect(found.map(placed), `seed ${r.seed}`).to.deep.equal(wanted.map(placed));
      for (const record of found) {
        apart += record.detachedValues?.length ?? 0;
        const again = parse(formatted(record));
        expect(again.map(plain), `seed ${r.seed}`).to.deep.equal([plain(record)]);
      }
    }
    expect(apart).to.be.greaterThan(100);
  });

  it('errors in long records are reported with their line, and the rest is not taken for a whole record', () => {
    const good = Buffer.alloc(3000, 7).toString('base64');
    const wrong = {
      [notBase64(11)]: `${good.slice(0, 10)}!${good.slice(11)}`,
      [notBase64(3001)]: `${good.slice(0, 3000)}=${good.slice(3001)}`,
      [notBase64(4000)]: `${good.slice(0, -1)}!`,
      [badLength(4001)]: `${good}A`,
      [badLength(3999)]: good.slice(1),
    };
    for (const [reason, base64] of Object.entries(wrong)) {
      const text = `dn: cn=a\ncn: a\njpegPhoto::\n ${base64.slice(0, 500)}\n ${base64.slice(500)}\nsn: b\n\ndn: cn=b\ncn: b\n`;
      const [first, second] = parse(text, { longRecordBytes: LONG }, 100);
      expect(first).to.include({ kind: 'error', faultLine: 3, reason: `line 3: ${reason}`, line: 1, offset: 0 });
      expect(parse(formatted(first!))[0]).to.include({ kind: 'error' });
      expect(second).to.include({ kind: 'content', line: 8, dn: 'cn=b' });
      const [short] = parse(text);
      expect(short).to.include({ kind: 'error', reason: `line 3: ${reason}` });
    }
    const base64 = `jpegPhoto:: ${good}\n`;
    const bad = `dn: cn=a\n${base64}no colon\n\n`;
    const [record] = parse(bad, { longRecordBytes: LONG }, 100);
    expect(record).to.include({ kind: 'error', faultLine: 3 });
    expect(formatted(record!).toString().replaceAll('\n ', '')).to.equal(bad.replace(':: ', '::'));
  });

  it('long records may be changes, may end with the file, and have a maximum length', () => {
    const text = Buffer.alloc(2000, 'text ');
    const change = `dn: cn=a\nchangetype: modify\nreplace: description\ndescription: ${text}\n-\nadd: cn\ncn: b`;
    const [record] = parse(change, { longRecordBytes: LONG }, 64);
    expect(record).to.deep.include({ kind: 'modify', dn: 'cn=a' });
    expect(plain(record!)).to.deep.equal(plain(parse(change)[0]!));
    const cut = parse(`dn: cn=a\ndescription: ${text}`, { longRecordBytes: LONG }, 64);
    expect(cut.map((one) => one.detachedValues?.[0]?.value.equals(text.subarray(0, 2000)))).to.deep.equal([true]);
    const many = `dn: cn=a\ncn: a\n\ndn: cn=b\n${`description: ${text}\n`.repeat(3)}\ndn: cn=c\ncn: c\n`;
    const options = { longRecordBytes: LONG, maxRecordBytes: 5000 };
    const records = parse(many, options, 64);
    expect(records.map(({ kind, line }) => `${kind} ${line}`)).to.deep.equal(['content 1', 'error 4', 'content 9']);
    expect(records[1]).to.include({ reason: 'line 4: a record of more than 5000 bytes' });
    expect(records[2]!.offset).to.equal(many.indexOf('dn: cn=c'));
  });
});
