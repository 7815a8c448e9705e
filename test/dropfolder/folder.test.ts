import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { pino } from 'pino';
import { DropFolder } from '../../src/dropfolder/drop-folder.js';
import { DropError } from '../../src/dropfolder/layout.js';
import { DEFAULT_ARGON2_COST, DEFAULT_POLICY } from '../../src/password/policy.js';
import { type Fixture, openFixture, SUFFIX } from '../partition/fixture.js';
import { Drop, dropSettings, type Place, unit, unitDn } from './drop.js';

const SECRET = 'correct horse battery';
const person = (uid: string, more = '') =>
  `dn: uid=${uid},${SUFFIX}\nobjectClass: inetOrgPerson\nuid: ${uid}\ncn: ${uid}\nsn: ${uid}\n${more}\n`;

describe('a drop folder', () => {
  let fixture: Fixture;
  let drop: Drop;
  beforeEach(async () => {
    fixture = await openFixture('memory');
    drop = new Drop();
  });
  afterEach(async () => {
    await fixture.close();
    drop.remove();
  });

  const exists = async (ou: string) => (await fixture.find(`(ou=${ou})`)).length === 1;

  async function refusal(given = {}): Promise<string> {
    try {
      await drop.pass(fixture, given);
    } catch (error) {
      if (error instanceof DropError) return error.message;
      throw error;
    }
    throw new Error('nothing was refused');
  }

  function expectReceipts(found: Partial<Record<Place, string[]>>): void {
    for (const place of ['target', 'processing', 'processed', 'expired', 'error'] as const)
      expect(drop.names(place), place).to.deep.equal(found[place] ?? []);
  }

  it('makes its folders, and moves a file with its receipt to processed', async () => {
    drop.drop('4.42.T..order-1', unit('a'));
    const { result } = await drop.pass(fixture);
    expect(result).to.deep.equal({ processed: 1, error: 0, expired: 0, failed: 0 });
    expectReceipts({ processed: ['4.42.T..order-1', '4.42.T..order-1.receipt.json'] });
    const { start, end, delivery, ...rest } = drop.receipt('processed', '4.42.T..order-1');
    expect(rest).to.deep.equal({
      ...{ id: '42', correlation: 'order-1', name: '4.42.T..order-1', result: 'processed' },
      ...{ records: 1, applied: 1, unchanged: 0, refused: 0, errors: [] },
    });
    expect(new Date(end).getTime()).to.be.at.least(new Date(start).getTime());
    expect(delivery).to.match(/^[0-9a-f]{32}$/);
  });

  it('takes files by priority, then by age', async () => {
    drop.drop('first.ldif', `${unit('x')}dn: ${unitDn('x')}\nchangetype: delete\n\n`);
    drop.drop('old.ldif', `dn: ${unitDn('a')}\nchangetype: delete\n\n`);
    utimesSync(drop.path('target', 'old.ldif'), 1000, 1000);
    drop.drop('9.urgent.T', unit('a'));
    drop.drop('0.whenever.T', `dn: ${unitDn('b')}\nchangetype: delete\n\n`);
    drop.drop('later.ldif', unit('b'));
    const { log } = await drop.pass(fixture);
    const names = [...log.matchAll(/"name":"([^"]+)"/g)].map((match) => match[1]!);
    expect(names[0]).to.equal('9.urgent.T');
    expect(names[1]).to.equal('old.ldif');
    expect(names[4]).to.equal('0.whenever.T');
    expect(drop.names('error')).to.deep.equal([]);
  });

  it('keeps files of one name apart when they are done', async () => {
    for (const ou of ['a', 'b', 'c']) {
      drop.drop('people.ldif', unit(ou));
      await drop.pass(fixture);
    }
    expect(drop.names('processed')).to.have.lengthOf(6);
    expect(drop.receipts().map(({ id }) => id)).to.deep.equal(Array(3).fill('people.ldif'));
    expect(drop.text('processed', 'people.ldif')).to.equal(unit('a'));
  });

  it('gives refused records back as a file that can be dropped again, and tells no secret', async () => {
    const wrong = person('b', `userPassword: ${SECRET}\nmial: b@example.com\n`);
    drop.drop('people.ldif', `${person('a', `userPassword: ${SECRET}\n`)}${wrong}no record ${SECRET}\n\n`);
    const { result, log } = await drop.pass(fixture);
    expect(result).to.include({ error: 1, processed: 0 });
    const receipt = drop.receipt('error', 'people.ldif');
    expect(receipt).to.include({ records: 3, applied: 1, refused: 2 });
    expect(receipt.errors.map(({ line }) => line)).to.deep.equal([8, 16]);
    expect(receipt.errors[0]!.reason).to.match(/^undefinedAttributeType: .*'mial'/);
    for (const text of [log, drop.text('error', 'people.ldif.receipt.json')]) expect(text).not.to.contain(SECRET);
    const rejects = drop.path('error', 'people.ldif.rejects.ldif');
    expect(statSync(rejects).mode & 0o777).to.equal(0o600);
    const text = drop.text('error', 'people.ldif.rejects.ldif');
    expect(text).to.match(/^# line 8: undefinedAttributeType/);
    drop.drop('again.ldif', text.replace('mial:', 'mail:').replace(/# line 16[\s\S]*/, ''));
    expect((await drop.pass(fixture)).result).to.include({ processed: 1 });
    expect(await fixture.values(`uid=b,${SUFFIX}`, 'mail')).to.deep.equal(['b@example.com']);
    const stored = await fixture.values(`uid=b,${SUFFIX}`, 'userPassword');
    expect(stored[0]).to.match(/^\{SSHA512\}/);
  });

  it('counts what an audit log leaves out, in the receipt and in a dry run', async () => {
    const comments = '# time: now\n# left out: userPassword, secret\n';
    const record = `${comments}# dn: ${unitDn('a')}\n# changetype: modify\n\n`;
    drop.drop('audit.ldif', `${comments}${unit('a')}${record}dn: ${unitDn('b')}\nchangetype: delete\n\n`);
    drop.drop('other.ldif', unit('b'));
    expect((await drop.dry(fixture)).filter((line) => line.includes('left out'))).to.deep.equal([
      '  2 lines "# left out: …": secret and long values that an audit log lacks',
    ]);
    await drop.pass(fixture);
    expect(drop.receipt('error', 'audit.ldif')).to.include({ records: 2, applied: 1, refused: 1, leftOut: 2 });
    expect(drop.receipt('processed', 'other.ldif')).to.not.have.property('leftOut');
  });

  it('moves an expired file to expired, and does not read it', async () => {
    drop.drop('4.late.T.1000', unit('late'));
    drop.drop(`4.early.T.${Date.now() + 3_600_000}`, unit('early'));
    drop.drop('4.always.T.0', unit('always'));
    expect((await drop.pass(fixture)).result).to.include({ expired: 1, processed: 2 });
    expect(await exists('late')).to.equal(false);
    expect(drop.names('expired')).to.deep.equal(['4.late.T.1000', '4.late.T.1000.receipt.json']);
    expect(drop.receipt('expired', '4.late.T.1000')).to.include({ result: 'expired', records: 0 });
  });

  it('sends a copy of the receipt to the folder that replyTo names', async () => {
    mkdirSync(join(drop.root, 'answers/incoming/target'), { recursive: true });
    drop.drop('4.1.T..corr.answers', unit('a'));
    await drop.pass(fixture);
    const reply = join(drop.root, 'answers/incoming/target/4.1.T..corr.answers.receipt.json');
    expect(statSync(reply).mode & 0o777).to.equal(0o644);
    expect(readFileSync(reply, 'utf8')).to.equal(drop.text('processed', '4.1.T..corr.answers.receipt.json'));
    expect(drop.receipt('processed', '4.1.T..corr.answers')).to.include({ correlation: 'corr', applied: 1 });
  });

  it('ends a file of which nobody can be answered, and says so once', async () => {
    const late = '4.late.T.1000..nowhere';
    const early = '4.early.T...answers';
    const target = join(drop.root, 'answers/incoming/target');
    mkdirSync(target, { recursive: true });
    drop.drop(late, unit('late'));
    expect((await drop.pass(fixture)).result).to.include({ expired: 1, failed: 0 });
    drop.drop(early, unit('early'));
    const commit = fixture.store.commit.bind(fixture.store);
    fixture.store.commit = (plan) => {
      chmodSync(target, 0o777);
      return commit(plan);
    };
    const { result, log } = await drop.pass(fixture);
    expect(result).to.deep.equal({ processed: 1, error: 0, expired: 0, failed: 0 });
    expect(drop.receipt('expired', late).unanswered).to.match(/^replyTo names 'nowhere', which is not there/);
    expect(drop.receipt('processed', early).unanswered).to.match(/everybody may write there/);
    expect(log.match(/could not be sent/g)).to.have.lengthOf(1);
    expect(readdirSync(target)).to.deep.equal([]);
  });

  it('says in the receipt when the answer fails as it is written', async () => {
    const name = '4.1.T...answers';
    mkdirSync(join(drop.root, `answers/incoming/target/${name}.receipt.json`), { recursive: true });
    drop.drop(name, unit('a'));
    expect((await drop.pass(fixture)).result).to.include({ processed: 1, failed: 0 });
    expect(drop.receipt('processed', name).unanswered).to.match(/^replyTo cannot be written to \(E/);
  });

  it('ends a file that it cannot read', async function () {
    if (process.getuid?.() === 0) this.skip();
    drop.drop('closed.ldif', unit('a'));
    chmodSync(drop.path('target', 'closed.ldif'), 0);
    expect((await drop.pass(fixture)).result).to.include({ error: 1, failed: 0 });
    expect(drop.receipt('error', 'closed.ldif').reason).to.match(/EACCES/);
  });

  it('ends a file of whose progress this directory knows nothing, and applies nothing of it', async () => {
    drop.make();
    const name = '0123456789abcdef0123456789abcdef.b.000000000000.0~x.ldif';
    for (const place of ['processing', 'target'] as const) writeFileSync(drop.path(place, name), unit('a'));
    const log = pino({ enabled: false });
    const folder = await DropFolder.open(drop.folder, fixture.partition, dropSettings({ lease: 0.1 }), log);
    expect(await folder.settle()).to.deep.equal({ processed: 0, error: 2, expired: 0, failed: 0 });
    await folder.close();
    expect(await exists('a')).to.equal(false);
    expect(drop.receipt('error', 'x.ldif').reason).to.match(/not known in this directory: records .* may have been/);
    const reasons = drop.receipts().map(({ reason }) => reason);
    expect(reasons.filter((reason) => /^its name is one that files have in processing/.test(reason!))).to.have.length(
      1,
    );
    for (const place of ['processing', 'target'] as const) expect(drop.names(place)).to.deep.equal([]);
  });

  it('refuses a file whose replyTo leads elsewhere, or nowhere', async () => {
    mkdirSync(join(drop.root, 'real'));
    symlinkSync(join(drop.root, 'real'), join(drop.root, 'link'));
    const wrong = [
      '%2e%2e',
      'a%2f%2e%2e%2f%2e%2e',
      '%2fetc',
      'nowhere',
      'link',
      '%2ehidden',
      'a%00b',
      'drop',
      'drop%2fincoming',
      'data',
      'plain',
      'open',
    ];
    mkdirSync(join(drop.root, 'data'));
    writeFileSync(join(drop.root, 'plain'), '');
    mkdirSync(join(drop.root, 'open/incoming/target'), { recursive: true });
    chmodSync(join(drop.root, 'open'), 0o777);
    for (const replyTo of wrong) drop.drop(`4.1.T...${replyTo}`, unit('a'));
    expect((await drop.pass(fixture)).result).to.include({ error: wrong.length, processed: 0 });
    expect(await exists('a')).to.equal(false);
    for (const replyTo of wrong) expect(drop.receipt('error', `4.1.T...${replyTo}`).reason).to.match(/^replyTo/);
    expect(readdirSync(join(drop.root, 'data'))).to.deep.equal([]);
  });

  it('refuses links, folders, long files and names that cannot be told, each with the reason', async () => {
    drop.make();
    writeFileSync(join(drop.root, 'secret'), unit('secret'));
    symlinkSync(join(drop.root, 'secret'), drop.path('target', 'link.ldif'));
    mkdirSync(drop.path('target', 'folder.ldif'));
    drop.drop('long.ldif', unit('x'.repeat(100)));
    drop.drop('bad\nname.ldif', unit('bad'));
    drop.drop('.hidden.ldif', unit('hidden'));
    writeFileSync(Buffer.from(`${drop.path('target')}/\xff.ldif`, 'latin1'), unit('bad'));
    const { result, log } = await drop.pass(fixture, { maxBytes: 100 });
    expect(result).to.include({ error: 5, processed: 0, failed: 0 });
    const reasons = drop.receipts().map(({ reason }) => reason!);
    for (const expected of [/symbolic link/, /no file/, /may have 100/, /control character/, /not UTF-8/])
      expect(
        reasons.filter((reason) => expected.test(reason)),
        String(expected),
      ).to.have.lengthOf(1);
    expect(log).not.to.contain('\\n"name');
    expect(await fixture.find('(objectClass=organizationalUnit)')).to.deep.equal([]);
    expect(drop.names('target')).to.deep.equal([]);
    expect(drop.names('error').filter((name) => /\p{Cc}/u.test(name))).to.deep.equal([]);
  });

  it('is refused where everybody may write, or where it is a link', async () => {
    drop.make();
    for (const place of ['', 'incoming', 'incoming/target', 'incoming/processing']) {
      chmodSync(join(drop.folder, place), 0o777);
      expect(await refusal(), place).to.match(/everybody may write there.* chmod o-w/);
      chmodSync(join(drop.folder, place), 0o770);
    }
    renameSync(drop.path('error'), join(drop.root, 'elsewhere'));
    symlinkSync(join(drop.root, 'elsewhere'), drop.path('error'));
    expect(await refusal()).to.match(/error.*: is a symbolic link/);
    drop.remove();
    expect(await refusal()).to.match(/is not there; make it/);
  });

  it('checks a whole file before its first record when told to', async () => {
    drop.drop('people.ldif', `${unit('a')}${person('b', 'mial: x\n')}`);
    await drop.pass(fixture, { validateFirst: true });
    expect(await exists('a')).to.equal(false);
    const receipt = drop.receipt('error', 'people.ldif');
    expect(receipt.reason).to.match(/nothing was applied/);
    expect(receipt.errors).to.have.lengthOf(1);
    expect(receipt.errors[0]).to.include({ line: 5 });
    drop.drop('good.ldif', `${unit('a')}${person('b')}dn: uid=b,${SUFFIX}\nchangetype: modify\nadd: mail\nmail: b\n\n`);
    expect((await drop.pass(fixture, { validateFirst: true })).result).to.include({ processed: 1 });
  });

  it('applies records by the rights of an entry, as the access rules give them to a client', async () => {
    await fixture.person('hr');
    const hr = `cn=hr,${SUFFIX}`;
    const group = `cn=editors,${SUFFIX}`;
    await fixture.add(group, { objectClass: 'groupOfNames', cn: 'editors', member: SUFFIX });
    const rule = (who: object, allow: string[]) => ({
      name: 'r',
      who,
      to: { attributes: ['*', 'entry', 'children'] },
      allow,
    });
    const rules = (...all: object[]) => JSON.stringify({ rules: all });
    await fixture.partition.setAccess(rules(rule({ group }, ['view', 'write', 'create'])), 'test', 0);
    const as = fixture.dn(hr);
    drop.drop('one.ldif', unit('one'));
    await drop.pass(fixture, { as });
    expect(drop.receipt('error', 'one.ldif').errors[0]!.reason).to.match(/^insufficientAccessRights/);
    await fixture.modify(group, {
      operation: 'add',
      attribute: { type: 'member', values: [Buffer.from(hr)] },
    });
    drop.drop('two.ldif', unit('two'));
    await drop.pass(fixture, { as });
    expect(drop.receipt('processed', 'two.ldif')).to.include({ applied: 1 });
    const { attributes } = await fixture.read(unitDn('two'));
    expect(attributes.find(({ description }) => description === 'creatorsName')?.values.map(String)).to.deep.equal([
      hr,
    ]);
    expect(await refusal({ as: fixture.dn(`cn=nobody,${SUFFIX}`) })).to.match(/does not exist; add the entry/);
  });

  it('applies nothing by the rights of an entry that is locked, or outside its dates', async () => {
    await fixture.person('hr');
    const hr = `cn=hr,${SUFFIX}`;
    const as = fixture.dn(hr);
    await fixture.partition.setAccess(
      JSON.stringify({
        rules: [
          {
            name: 'r',
            who: { users: true },
            to: { attributes: ['*', 'entry', 'children'] },
            allow: ['view', 'write', 'create'],
          },
        ],
      }),
      'test',
      0,
    );
    const set = (type: string, ...values: string[]) =>
      fixture.modify(hr, {
        operation: 'replace',
        attribute: { type, values: values.map((value) => Buffer.from(value)) },
      });
    const log = pino({ enabled: false });
    const folder = await DropFolder.open(drop.folder, fixture.partition, dropSettings({ as }), log);
    drop.drop('one.ldif', unit('one'));
    await folder.runPass();
    expect(drop.receipts()[0]).to.deep.include({ result: 'processed', errors: [] });
    for (const [type, value, expected] of [
      ['pwdAccountLockedTime', '000001010000Z', /is locked \(pwdAccountLockedTime\); unlock it/],
      ['pwdEndTime', '20200101000000Z', /is not valid at this time/],
      ['pwdStartTime', '29990101000000Z', /is not valid at this time/],
    ] as const) {
      await set(type, value);
      expect(await refusal({ as })).to.match(expected);
      drop.drop(`${type}.ldif`, unit(type));
      expect(await folder.runPass()).to.include({ processed: 0, error: 1 });
      expect(drop.receipt('error', `${type}.ldif`).reason).to.match(expected);
      expect(await exists(type)).to.equal(false);
      await set(type);
    }
    await folder.close();
  });

  it('refuses password hashes that cost more than the settings allow, and says why', async () => {
    const policy = { ...DEFAULT_POLICY, maxCost: 10 * DEFAULT_ARGON2_COST };
    const hash = '{PBKDF2-SHA256}1000000000$c2FsdA$aGFzaA';
    const change = `dn: uid=b,${SUFFIX}\nchangetype: modify\nreplace: userPassword\nuserPassword: ${hash}\n-\n\n`;
    drop.drop('dear.ldif', person('a', `userPassword: ${hash}\n`) + person('b') + change);
    await drop.pass(fixture, { policy });
    const { applied, refused, errors } = drop.receipt('error', 'dear.ldif');
    expect({ applied, refused }).to.deep.equal({ applied: 1, refused: 2 });
    for (const { reason } of errors) expect(reason).to.match(/constraintViolation: .*passwords.maxCost/);
    expect(await fixture.find('(uid=a)')).to.deep.equal([]);
  });

  it('leaves a file alone whose claim was given another name, and says so', async () => {
    drop.drop('f.ldif', `${unit('a')}dn: ${unitDn('b')}\nchangetype: delete\n\n`);
    const stop = new AbortController();
    const commit = fixture.store.commit.bind(fixture.store);
    let left = 2;
    fixture.store.commit = (plan) => commit(plan).then(() => void (--left === 0 && stop.abort()));
    const log = pino({ enabled: false });
    const first = await DropFolder.open(drop.folder, fixture.partition, dropSettings(), log);
    await first.runPass(stop.signal);
    await first.close();
    const [claimed] = readdirSync(drop.path('processing')).filter((name) => name.endsWith('~f.ldif'));
    renameSync(drop.path('processing', claimed), drop.path('processing', claimed!.replace(/~.*/, '~g.ldif')));
    const { result, log: said } = await drop.pass(fixture);
    expect(result).to.include({ failed: 1, processed: 0, error: 0 });
    expect(said).to.match(/record 2 cannot be done; was .*~g.ldif given another name/);
    const [named] = drop.names('processing');
    renameSync(drop.path('processing', named), drop.path('processing', named!.replace(/~.*/, '~f.ldif')));
    await drop.pass(fixture);
    expect(drop.receipt('error', 'f.ldif')).to.include({ records: 2, applied: 1, refused: 1 });
  });

  it('takes files as they come until it is told to end', async () => {
    const stop = new AbortController();
    let done = (): void => undefined;
    const log = pino({}, { write: () => done() });
    const running = await DropFolder.open(drop.folder, fixture.partition, dropSettings(), log);
    const run = running.run(stop.signal);
    for (const ou of ['a', 'b']) {
      const logged = new Promise<void>((resolve) => {
        done = resolve;
      });
      drop.drop(`${ou}.ldif`, unit(ou));
      await logged;
      expect(await exists(ou)).to.equal(true);
    }
    stop.abort();
    await run;
    await running.close();
    expect(drop.names('processed')).to.have.lengthOf(4);
  });
});
