import { expect } from 'chai';
import { formatClaim, nameFault, parseClaim, parseFileName } from '../../src/dropfolder/names.js';

const PLAIN = { priority: 4, class: '', expiry: undefined, correlation: '', replyTo: '', type: '', properties: '' };

describe('names of dropped files', () => {
  it('of the form priority.id.class, which DropboxMQ documents, are read', () => {
    const name = '4.1140911283485000-1299715532.T';
    const id = '1140911283485000-1299715532';
    expect(parseFileName(name)).to.deep.equal({ ...PLAIN, name, id, class: 'T', isCsv: false });
  });

  it('of the form priority.id.class.expiry.correlation.replyTo.type.properties are read', () => {
    const name = '9.1140911283485000-7.T.1893456000000.order-17.hr-answers.people.a=1;b=2';
    expect(parseFileName(name)).to.deep.equal({
      ...{ name, id: '1140911283485000-7', priority: 9, class: 'T', expiry: 1893456000000 },
      ...{ correlation: 'order-17', replyTo: 'hr-answers', type: 'people', properties: 'a=1;b=2', isCsv: false },
    });
  });

  it('may leave fields empty, and write any character of a field as % and two digits', () => {
    const read = parseFileName('0.id%2e1.T..why%20not..csv');
    const { id, priority, expiry, correlation, replyTo, type, isCsv } = read;
    expect({ id, priority, expiry, correlation, replyTo, type, isCsv }).to.deep.equal({
      ...{ id: 'id.1', priority: 0, expiry: undefined, correlation: 'why not', replyTo: '', type: 'csv', isCsv: true },
    });
  });

  it('of another form are ids', () => {
    for (const name of ['people.ldif', '1.people.ldif', '44.id.T', '4.id', '4..T', '4.id.T.soon', '4.%zz.T', 'x'])
      expect(parseFileName(name), name).to.deep.equal({ ...PLAIN, name, id: name, isCsv: false });
    expect(parseFileName('HR.CSV')).to.include({ id: 'HR.CSV', isCsv: true });
  });

  it('that another file had before keep their fields behind a prefix', () => {
    expect(parseFileName('0123abcd~7.id.T')).to.include({ name: '0123abcd~7.id.T', id: 'id', priority: 7 });
  });

  it('with control characters, bytes that are no UTF-8, or more than 180 bytes are refused', () => {
    expect(nameFault(Buffer.from('people.ldif'))).to.equal(undefined);
    expect(nameFault(Buffer.from('Ünïcode 名.ldif'))).to.equal(undefined);
    expect(nameFault(Buffer.from('a\nb'))).to.match(/control character/);
    expect(nameFault(Buffer.from('a\x7f'))).to.match(/control character/);
    expect(nameFault(Buffer.from([0x61, 0xff]))).to.match(/not UTF-8/);
    expect(nameFault(Buffer.from('x'.repeat(181)))).to.match(/181 bytes, and may have 180/);
  });

  it('of claims say who has which file, and since when', () => {
    const claim = { token: '0f'.repeat(16), isBegun: true, claimant: 'ab'.repeat(6), timeMs: 1893456e6, name: 'a~b.c' };
    expect(parseClaim(formatClaim(claim))).to.deep.equal(claim);
    expect(parseClaim('people.ldif')).to.equal(undefined);
  });
});
