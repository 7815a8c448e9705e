import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { Fixture, openFixture, SUFFIX, testSchema } from '../partition/fixture.js';
import { faulty } from '../store/faulty.js';
import { Drop, dropRows } from './drop.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const MAPPING = `
key: { column: id, attribute: employeeNumber }
base: ${PEOPLE}
dn: uid={login},${PEOPLE}
attributes:
  uid: login
  givenName: first
  sn: last
  cn: "{first} {last}"
  mail: [mail, second mail]
  userPassword: password
constants:
  objectClass: inetOrgPerson
`;
const HEAD = 'id,login,first,last,mail,second mail,password\n';
const ADA = '1,ada,Ada,Brandt,ada@example.com,,sesame open\n';
const LI = '2,li,Wei,"Li, Jr.",li@example.com,wei@example.com,\n';

describe('CSV files in a drop folder', () => {
  let fixture: Fixture;
  let drop: Drop;
  let mapping: string;
  beforeEach(async () => {
    fixture = await openFixture('memory');
    await fixture.unit('people');
    drop = new Drop();
    mapping = join(drop.root, 'mapping.yaml');
    writeFileSync(mapping, MAPPING);
  });
  afterEach(async () => {
    await fixture.close();
    drop.remove();
  });

  const values = (uid: string, type: string) => fixture.values(`uid=${uid},${PEOPLE}`, type);
  const people = () => fixture.find('(uid=*)');

  async function passes(text: string | Buffer, given = {}) {
    drop.drop('hr.csv', Buffer.concat([Buffer.from(HEAD), Buffer.from(text)]));
    await drop.pass(fixture, { mapping, ...given });
    const { records, applied, unchanged, refused, reason } = drop
      .receipts()
      .sort((a, b) => (a.end < b.end ? 1 : -1))[0]!;
    return { records, applied, unchanged, refused, ...(reason !== undefined && { reason }) };
  }

  function dryLines(text: string): Promise<string[]> {
    drop.drop('hr.csv', HEAD + text);
    return drop.dry(fixture, { mapping });
  }

  it('make entries, change them where a row says something else, and leave the others as they are', async () => {
    expect(await passes(ADA + LI)).to.deep.equal({ records: 2, applied: 2, unchanged: 0, refused: 0 });
    expect(await values('li', 'sn')).to.deep.equal(['Li, Jr.']);
    expect(await values('li', 'mail')).to.deep.equal(['li@example.com', 'wei@example.com']);
    const [stored] = await values('ada', 'userPassword');
    expect(stored).to.match(/^\{SSHA512\}/);
    const { version } = await fixture.read(`uid=ada,${PEOPLE}`);
    const li = '2,li,Wei,Li,,WEI@example.com,\n';
    expect(await passes(ADA.replace('sesame', 'other') + li)).to.deep.equal({
      ...{ records: 2, applied: 1, unchanged: 1, refused: 0 },
    });
    expect((await fixture.read(`uid=ada,${PEOPLE}`)).version).to.equal(version);
    expect(await values('li', 'mail')).to.deep.equal(['WEI@example.com']);
  });

  it('print under --dry-run what is added, changed attribute by attribute, and removed, but no secret', async () => {
    writeFileSync(mapping, `${MAPPING}gone: delete\n`);
    await passes(ADA + LI);
    expect(await dryLines('1,ada,Ada,Brandt-Meyer,,,sesame\n3,xi,Xi,Wu,,,sesame\n')).to.deep.equal([
      'hr.csv:',
      "  warning: 'employeeNumber' has no index, and each row reads all entries; run: rowan index add employeeNumber",
      `  change uid=ada,${PEOPLE}`,
      '    sn: Brandt -> Brandt-Meyer',
      '    cn: Ada Brandt -> Ada Brandt-Meyer',
      '    mail: ada@example.com -> (none)',
      `  add uid=xi,${PEOPLE}`,
      '    objectClass: inetOrgPerson',
      ...['    employeeNumber: 3', '    uid: xi', '    givenName: Xi', '    sn: Wu', '    cn: Xi Wu'],
      '    userPassword: (secret)',
      `  remove uid=li,${PEOPLE}`,
      '  3 records: 3 applied, 0 unchanged, 0 refused',
    ]);
    expect(await people()).to.deep.equal([`uid=ada,${PEOPLE}`, `uid=li,${PEOPLE}`]);
    expect(drop.names('target')).to.deep.equal(['hr.csv']);
  });

  it('delete the entries whose rows have gone, when the mapping says so', async () => {
    writeFileSync(mapping, `${MAPPING}gone: delete\n`);
    await passes(ADA + LI);
    expect(await passes(LI)).to.deep.equal({ records: 2, applied: 1, unchanged: 1, refused: 0 });
    expect(await people()).to.deep.equal([`uid=li,${PEOPLE}`]);
  });

  it('disable them by an attribute, once, when the mapping says that', async () => {
    writeFileSync(mapping, `${MAPPING}gone: { attribute: employeeType, value: left }\n`);
    await passes(ADA + LI);
    expect(await values('ada', 'employeeType')).to.deep.equal([]);
    expect(await passes(LI)).to.include({ records: 2, applied: 1 });
    expect(await values('ada', 'employeeType')).to.deep.equal(['left']);
    expect(await passes(LI)).to.deep.equal({ records: 1, applied: 0, unchanged: 1, refused: 0 });
  });

  it('are refused whole where too many entries would go, or all', async () => {
    writeFileSync(mapping, `${MAPPING}gone: delete\nmostGone: 1\n`);
    await passes(`${ADA}${LI}3,xi,Xi,Wu,,,\n`);
    expect((await passes(ADA)).reason).to.match(/^2 entries have no row in it, and at most 1 may go/);
    expect((await passes('')).reason).to.match(/no rows/);
    expect(await people()).to.have.lengthOf(3);
  });

  it('end where they were left when too many entries would go by now', async () => {
    writeFileSync(mapping, `${MAPPING}gone: delete\nmostGone: 1\n`);
    await passes(`${ADA}${LI}`);
    drop.drop('more.csv', `${HEAD}3,xi,Xi,Wu,,,\n${ADA}${LI}`);
    const stop = new AbortController();
    const commit = fixture.store.commit.bind(fixture.store);
    let left = 2;
    fixture.store.commit = (plan) => commit(plan).then(() => void (--left === 0 && stop.abort()));
    await drop.pass(fixture, { mapping }, stop.signal);
    fixture.store.commit = commit;
    for (const n of [7, 8]) {
      const names = { uid: `p${n}`, cn: 'P', sn: 'P', employeeNumber: String(n) };
      await fixture.add(`uid=p${n},${PEOPLE}`, { objectClass: 'inetOrgPerson', ...names });
    }
    expect((await drop.pass(fixture, { mapping })).result).to.include({ error: 1, failed: 0 });
    const receipt = drop.receipt('error', 'more.csv');
    expect(receipt).to.include({ records: 1, applied: 1 });
    expect(receipt.reason).to.match(/^2 entries have no row .* after its record 1 was not applied$/);
    expect(drop.names('processing')).to.deep.equal([]);
    expect(await dropRows(fixture.store)).to.deep.equal([]);
  });

  it('that are no CSV, lack a column, or name somebody twice are refused whole, without a value of theirs', async () => {
    for (const [text, expected] of [
      [`${ADA}2,"sesame open\n`, /^line .* is not as in a CSV file/],
      [`${ADA}2,sesame\n`, /^line .* is not as in a CSV file/],
      [`${ADA}2,li,Wei,Li,,,sesame"x\n`, /^line 3 is not as in a CSV file \(INVALID_OPENING_QUOTE\)/],
      [ADA + ADA, /^line 3 has a 'id' that another row has/],
      [',x,x,x,,,\n', /^line 2 has no 'id'/],
    ] as const) {
      const { reason, applied } = await passes(text);
      expect(reason).to.match(expected);
      expect(reason).not.to.contain('sesame');
      expect(applied).to.equal(0);
    }
    drop.drop('other.csv', 'id,login\n1,ada\n');
    await drop.pass(fixture, { mapping });
    expect(drop.receipt('error', 'other.csv').reason).to.match(/no column 'first', 'last'/);
    expect(await people()).to.deep.equal([]);
  });

  it('are refused whole where they are not UTF-8, and stored as they are where they are', async () => {
    for (const text of ['2,zoe,Zo\xeb,Smit,,,\n', '2,zoe,Zoe,Smit,,,\xc3']) {
      expect((await passes(Buffer.from(ADA + text, 'latin1'))).reason).to.equal(
        'it is not UTF-8; convert it with iconv',
      );
      expect(await people()).to.deep.equal([]);
    }
    expect(await passes(`${'\n'.repeat(65_500)}2,zoe,${'\u00eb'.repeat(40)},Smit,,,\n`)).to.include({ applied: 1 });
    expect(await values('zoe', 'givenName')).to.deep.equal(['\u00eb'.repeat(40)]);
  });

  it('tell no more of entries than those may see by whose rights they are applied', async () => {
    await passes(ADA + LI);
    await fixture.person('hr');
    const as = fixture.dn(`cn=hr,${SUFFIX}`);
    const rules = [
      { name: 'all', who: { users: true }, to: { attributes: ['entry', 'employeeNumber', 'uid'] }, allow: ['view'] },
      { name: 'base', who: { users: true }, to: { base: PEOPLE, attributes: ['*', 'entry'] }, allow: ['view'] },
    ];
    await fixture.partition.setAccess(JSON.stringify({ rules }), 'test', 0);
    for (const last of ['Brandt', 'Meyer']) {
      const found = await passes(ADA.replace('Brandt', last), { as });
      expect(found).to.include({ unchanged: 0, refused: 1 });
    }
    const told = drop.receipts().flatMap(({ errors }) => errors.map(({ reason }) => reason));
    expect(new Set(told).size).to.equal(1);
    expect(told[0]).to.match(/^insufficientAccessRights/);
    const hiding = [{ ...rules[1], name: 'only base' }];
    await fixture.partition.setAccess(JSON.stringify({ rules: hiding }), 'test', 1);
    expect(await passes('1,eve,Eve,Stone,,,\n', { as })).to.include({ refused: 1 });
    const rejects = drop.names('error').filter((one) => one.endsWith('.rejects.ldif'));
    const texts = rejects.map((name) => drop.text('error', name)).filter((text) => text.includes('uid=eve'));
    expect(texts).to.have.lengthOf(1);
    expect(texts[0]).to.contain('changetype: add');
    writeFileSync(mapping, `${MAPPING}gone: delete\n`);
    expect(await passes('1,eve,Eve,Stone,,,\n', { as })).to.include({ records: 1, refused: 1 });
  });

  it('give refused rows back as LDIF', async () => {
    expect(await passes(`${ADA}2,li,Wei,,,,\n`)).to.include({ applied: 1, refused: 1 });
    const name = drop.names('error').find((one) => one.endsWith('.rejects.ldif'))!;
    const text = drop.text('error', name);
    expect(text).to.match(/^# line 3: objectClassViolation: .*'sn'/);
    drop.drop('mended.ldif', text.replace('changetype: add\n', 'changetype: add\nsn: Li\ncn: Wei Li\n'));
    expect((await drop.pass(fixture)).result).to.include({ processed: 1 });
    expect(await values('li', 'employeeNumber')).to.deep.equal(['2']);
  });

  it('are done once, row by row and entry by entry, when the store fails before or after any commit', async () => {
    const rows = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => `${from + i},p${from + i},P,P,,,\n`).join('');
    writeFileSync(mapping, `${MAPPING}gone: delete\n`);
    for (const at of ['beforeCommit', 'afterCommit'] as const) {
      for (let fails = 0, failed = true; failed; fails++) {
        await passes(rows(1, 4));
        // It cannot be deleted while there is an entry below it.
        await fixture.add(`cn=below,uid=p1,${PEOPLE}`, { objectClass: 'device', cn: 'below' });
        let left = fails;
        failed = false;
        const store = faulty(fixture.store, (point) => {
          if (point.at !== at || failed || left-- > 0) return undefined;
          failed = true;
          return at === 'beforeCommit' ? { do: 'fail' } : { do: 'cut' };
        });
        const failing = new Fixture(store, await Partition.open(store, testSchema()), undefined);
        drop.drop('hr.csv', `${HEAD}${rows(3, 5)}9,wrong,,,,,\n`);
        await drop.pass(failing, { mapping }).catch(() => undefined);
        await drop.pass(fixture, { mapping });
        const { records, applied, unchanged, refused } = drop.receipts().sort((a, b) => (a.end < b.end ? 1 : -1))[0]!;
        expect([records, applied, unchanged, refused]).to.deep.equal([5, 2, 1, 2]);
        expect(await people()).to.deep.equal([1, 3, 4].map((n) => `uid=p${n},${PEOPLE}`));
        expect(await dropRows(fixture.store)).to.deep.equal([]);
        for (const dn of [`cn=below,uid=p1,${PEOPLE}`, ...(await people())]) await fixture.delete(dn);
        drop.remove();
        drop = new Drop();
        mapping = join(drop.root, 'mapping.yaml');
        writeFileSync(mapping, `${MAPPING}gone: delete\n`);
      }
    }
  });

  it('end in error where the directory does not have what the mapping names', async () => {
    writeFileSync(mapping, `${MAPPING.replace('base: ', 'base: ou=nowhere,')}gone: delete\n`);
    expect((await passes(ADA)).reason).to.match(/^noSuchObject: /);
    expect(drop.names('processing')).to.deep.equal([]);
  });

  it('end with their receipt when the identity is locked meanwhile', async () => {
    await fixture.person('hr');
    const hr = `cn=hr,${SUFFIX}`;
    const to = { attributes: ['*', 'entry', 'children'] };
    const rules = [{ name: 'r', who: { users: true }, to, allow: ['view', 'write', 'create'] }];
    await fixture.partition.setAccess(JSON.stringify({ rules }), 'test', 0);
    const commit = fixture.store.commit.bind(fixture.store);
    let left = 3;
    fixture.store.commit = async (plan) => {
      await commit(plan);
      if (--left !== 0) return;
      fixture.store.commit = commit;
      const locked = { type: 'pwdAccountLockedTime', values: [Buffer.from('000001010000Z')] };
      await fixture.modify(hr, { operation: 'replace', attribute: locked });
    };
    // The row of the file, one entry, one refusal.
    const found = await passes(`${LI}9,wrong,,,,,\n${ADA}`, { as: fixture.dn(hr) });
    expect(found).to.include({ records: 2, applied: 1, refused: 1 });
    expect(found.reason).to.match(/is locked .*; what comes after its record 2 was not applied$/);
    expect(drop.names('processing')).to.deep.equal([]);
    expect(await dropRows(fixture.store)).to.deep.equal([]);
  });

  it('keep a comma or a plus of a value within the name of an entry', async () => {
    writeFileSync(mapping, MAPPING.replace('uid={login}', 'cn={last}'));
    await passes(`7,x,Wei,"Li, Jr. + Co",,,\n`);
    expect(await fixture.find('(employeeNumber=7)')).to.deep.equal([`cn=Li\\, Jr. \\+ Co,${PEOPLE}`]);
  });

  it('are refused without a mapping, or with one that is wrong, which is named', async () => {
    const { mapping: _, ...without } = { mapping };
    drop.drop('hr.csv', HEAD + ADA);
    await drop.pass(fixture, without);
    expect(drop.receipts()[0]!.reason).to.match(/no mapping .*--mapping/);
    for (const [text, expected] of [
      [MAPPING.replace('sn:', 'snn:'), /mapping.yaml: .*'snn'/],
      [`${MAPPING}gone: sometimes\n`, /mapping.yaml: gone has to be/],
      [`${MAPPING}delimiter: ""\n`, /mapping.yaml: delimiter has to be one character/],
      [`${MAPPING}hase: x\n`, /mapping.yaml: 'hase' is not known/],
      [MAPPING.replace('base:', '# base:'), /mapping.yaml: base has to be/],
    ] as const) {
      writeFileSync(mapping, text);
      expect((await passes(ADA)).reason).to.match(expected);
    }
  });
});
