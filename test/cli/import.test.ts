import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { Client } from 'ldapts';
import { checkRejectsPath, RefusalCounts } from '../../src/cli/import/rejects.js';
import {
  ADA,
  ADMIN,
  exited,
  PASSWORD,
  PEOPLE,
  PEOPLE_SCRIPT,
  rowan,
  rowanDoes,
  run,
  Sandbox,
  SUFFIX,
  startRowan,
  until,
} from './rowan.js';

function person(uid: string, more = ''): string {
  return `dn: uid=${uid},${PEOPLE}\nobjectClass: inetOrgPerson\nuid: ${uid}\ncn: ${uid}\nsn: ${uid}\n${more}\n`;
}

describe('cli: import', () => {
  const sandbox = new Sandbox();

  before(() => sandbox.initSample());
  after(() => sandbox.remove());

  function file(name: string, text: string): string {
    const path = sandbox.path(name);
    writeFileSync(path, text);
    return path;
  }

  const exported = (...args: string[]): Promise<string> =>
    rowanDoes(['export', '--data', sandbox.data, '--no-operational', ...args]);

  it('loads folded lines, base64, comments, options and names in any case', async () => {
    const text = [
      '\ufeffversion: 1\n# a comment\n#  that goes on\n\n',
      person('folded', 'descr\n iption;lang-de: ein\n  Text\ncn:: w6TDtsO8\n'),
      person('crlf', 'MAIL: crlf@example.com\n').replaceAll('\n', '\r\n'),
    ];
    expect(await rowanDoes(['import', '--data', sandbox.data, file('folded.ldif', text.join(''))])).to.match(
      /^loaded 2 entries in /,
    );
    expect(await exported('--filter', '(cn=äöü)'))
      .to.contain('description;lang-de: ein Text\n')
      .and.contain('cn:: w6TDtsO8\n');
    expect(await exported('--filter', '(mail=crlf@example.com)')).to.contain(`dn: uid=crlf,${PEOPLE}\n`);
  });

  it('applies change records, among entries', async () => {
    const text = `${person('a')}dn: uid=a,${PEOPLE}
changetype: modify
add: mail
mail: a@example.com
-
replace: sn
sn: Aa
-

dn: uid=a,${PEOPLE}
changetype: modrdn
newrdn: uid=b
deleteoldrdn: 1
newsuperior: ou=services,${SUFFIX}

${person('c')}dn: uid=bram,${PEOPLE}
changetype: delete

dn: uid=d,${PEOPLE}
changetype: add
objectClass: inetOrgPerson
uid: d
cn: d
sn: d
`;
    const out = await rowanDoes(['import', '--data', sandbox.data, file('changes.ldif', text)]);
    expect(out).to.match(/^loaded 2 entries, applied 4 changes in /);
    const all = await exported();
    expect(all)
      .to.contain(`dn: uid=b,ou=services,${SUFFIX}\n`)
      .and.contain(`dn: uid=c,${PEOPLE}\n`)
      .and.contain(`dn: uid=d,${PEOPLE}\n`);
    expect(all).not.to.contain(`dn: uid=bram,${PEOPLE}\n`);
    expect(await exported('--filter', '(sn=Aa)')).to.contain('mail: a@example.com\n');
  });

  it('hashes passwords that come in the clear, says so, and keeps others as they are', async () => {
    const stored = '{SSHA}f5AYt2AtdUAyVjbMyeiSJbs5XTRyb3dhbmFkZA==';
    const text = `${person('clear', 'userPassword: in the clear\n')}${person('hashed', `userPassword: ${stored}\n`)}${person('other', 'userPassword: {X-VENDOR}abc\n')}`;
    const out = await rowanDoes(['import', '--data', sandbox.data, file('pw.ldif', text)]);
    expect(out).to.contain('1 password came in the clear, now stored as {SSHA512}');
    expect(out).to.contain('1 password cannot be verified here (an unknown {SCHEME}): kept, but nobody can bind');
    const all = await exported('--base', PEOPLE, '--filter', '(|(uid=clear)(uid=hashed)(uid=other))');
    const values = [...all.replaceAll('\n ', '').matchAll(/^userPassword: (.*)$/gm)].map((match) => match[1]!);
    expect(values).to.have.length(3);
    expect(values[2]).to.equal('{X-VENDOR}abc');
    expect(values[0]).to.match(/^\{SSHA512\}[A-Za-z0-9+/=]{80,}$/);
    expect(values[1]).to.equal(stored);
  });

  it('leaves out what is worked out when it is asked for, as in a dump of ldapsearch, and says so', async () => {
    const computed = `entryDN: uid=computed,${PEOPLE}\nsubschemaSubentry: cn=Subschema\nhasSubordinates: FALSE\n`;
    const change = person('changed', computed).replace('\n', '\nchangetype: add\n');
    const said = await rowanDoes([
      'import',
      '--data',
      sandbox.data,
      file('computed.ldif', person('computed', computed) + change),
    ]);
    expect(said)
      .to.match(/^loaded 1 entry, applied 1 change in /)
      .and.match(
        /^6 attributes left out that are worked out when they are asked for, the first is \w+ of the entry at line 1$/m,
      );
    expect(await rowanDoes(['export', '--data', sandbox.data])).to.not.match(
      /^(?:entryDN|hasSubordinates|subschema)/im,
    );
  });

  it('takes what is live of a dump with state options, without them, and says what it left out', async () => {
    const dump = [
      `dn: uid=live,${PEOPLE}`,
      'objectClass;vucsn-5f00: inetOrgPerson',
      'uid: live',
      'cn;vucsn-5f00: Ada',
      'CN: Countess',
      'cn;vucsn-5f00;mdcsn-5f00: Countess',
      'sn;lang-de;vucsn-5f00: Eins',
      'sn: One',
      'description;deleted;vdcsn-5f00: gone',
      'description;vucsn-5f00;deleted: gone, too',
      'mail;adcsn-5f00;deletedattribute;deleted:',
      'userPassword;deleted: in the clear',
      'telephoneNumber;vdcsn-5f00;vucsn-5f01: 1',
      'createTimestamp: 20200101000000Z',
      'createTimestamp;adcsn-5f00: 20210101000000Z',
      'modifyTimestamp;adcsn-5f00;vucsn-5f00: 20220101000000Z',
      '',
      '',
    ].join('\n');
    const change = dump.replaceAll(/\blive\b/g, 'added').replace('\n', `\nchangetype: add\n`);
    const bad = `${person('bad', 'description;deleted: gone\nmodifyTimestamp;lang-de: 20220101000000Z\n')}`;
    const path = file('389.ldif', dump + change + bad);
    const { code, stdout } = await rowan(['import', '--data', sandbox.data, '--continue', path]);
    expect(code).to.equal(1);
    expect(stdout).to.include(
      '10 values left out that another server keeps as deleted, 12 taken without their state options, the first is objectClass;vucsn-5f00 of the entry at line 1\n',
    );
    expect(stdout).not.to.include('in the clear');
    expect(readFileSync(`${path}.rejects`, 'utf8')).to.include("attribute 'modifyTimestamp' is operational and takes");
    expect(await exported('--filter', '(description=gone)')).not.to.include('dn:');
    for (const uid of ['live', 'added']) {
      const text = await rowanDoes(['export', '--data', sandbox.data, '--filter', `(uid=${uid})`]);
      const lines = text.split('\n').filter((line) => /^(?:cn|sn|desc|mail|tele|user|(?:create|modify)T)/i.test(line));
      expect(lines.sort()).to.deep.equal([
        'CN: Ada',
        'CN: Countess',
        'createTimestamp: 20200101000000Z',
        'modifyTimestamp: 20220101000000Z',
        'sn: One',
        'sn;lang-de: Eins',
        'telephoneNumber: 1',
      ]);
    }
  });

  it('ends with what was refused by kind, with the first line and a remedy, and with the bytes', async () => {
    const bad = Array.from({ length: 30 }, (_, n) => person(`bad${n}`, `sAMAccountName: ${n}\n`));
    const text = `${person('kind')}${bad.join('')}dn: cn=a\nno colon\n\n`;
    const path = file('kinds.ldif', text);
    const { code, stdout, stderr } = await rowan(['import', '--data', sandbox.data, '--continue', path]);
    expect(code).to.equal(1);
    expect(stdout).to.match(/^loaded 1 entry, refused 31 in [\d.]+ s \(\d+\/s\), [\d,]+ bytes read\n/);
    expect(stdout.replaceAll(',', '')).to.include(` ${text.length} bytes read`);
    expect(stdout.split('\n').slice(1)).to.deep.equal([
      `30 × undefinedAttributeType: attribute 'sAMAccountName' is not in the schema; "rowan schema set" defines others, the first at line 7`,
      '1 × no colon in this line of 8 bytes; expected "attribute: value", the first at line 217',
      '',
    ]);
    expect(stderr).to.include(`rowan: 31 records refused; correct ${path}.rejects and import it\n`);
  });

  it('tells kinds of refusals apart up to a number, and counts the rest together', () => {
    const refusals = new RefusalCounts();
    for (let n = 1; n <= 1000; n++) {
      refusals.add(n, `line ${n}: value ${n} of 'cn' is empty`);
      refusals.add(n, `attribute 'x${'a'.repeat(n)}' is unknown`);
    }
    for (let n = 0; n < 1000; n++) refusals.add(n, String.fromCharCode(0x4e00 + n));
    const lines = refusals.format();
    expect(lines).to.have.length(201);
    expect(lines.join('\n'))
      .to.include("1,000 × value 1 of 'cn' is empty, the first at line 1; correct these records")
      .and.match(/^901 × attribute 'xa+' is unknown, the first at line 100; correct these records$/m)
      .and.include('901 × other reasons');
    const counts = lines.map((line) => Number(line.replace(',', '').split(' ')[0]));
    expect(counts.reduce((sum, count) => sum + count, 0)).to.equal(3000);
  });

  it('--dry-run checks entries and changes as an import does, and writes nothing', async () => {
    const photo = Buffer.alloc(200_000, 7).toString('base64');
    const records = [
      person('dry', `jpegPhoto:: ${photo}\n`),
      `dn: ou=new,${PEOPLE}\nobjectClass: organizationalUnit\nou: new\n\n`,
      person('below').replace(`,${PEOPLE}`, `,ou=new,${PEOPLE}`),
      person('dry'),
      person('orphan').replace(`,${PEOPLE}`, `,ou=nowhere,${PEOPLE}`),
      person('unknown', 'sAMAccountName: x\n'),
      `dn: uid=dry,${PEOPLE}\nchangetype: modify\nadd: mail\nmail: dry@example.com\n\n`,
      `dn: uid=dry,${PEOPLE}\nchangetype: modify\nadd: mail\nmail: dry@example.com\n\n`,
      `dn: ou=new,${PEOPLE}\nchangetype: delete\n\n`,
      `dn: uid=chiara,${PEOPLE}\nchangetype: modify\nadd: mail\nmail: more@example.com\n\n`,
      `dn: uid=chiara,${PEOPLE}\nchangetype: delete\n\n`,
      `dn: uid=chiara,${PEOPLE}\nchangetype: delete\n\n`,
      `dn: uid=dry,${PEOPLE}\nchangetype: modrdn\nnewrdn: uid=renamed\ndeleteoldrdn: 1\n\n`,
      `dn: uid=dry,${PEOPLE}\nchangetype: delete\n\n`,
      person('dry'),
      'dn: cn=x\nno colon\n\n',
    ];
    const path = file('trial.ldif', records.join(''));
    const before = await rowanDoes(['export', '--data', sandbox.data]);
    const dry = await rowan(['import', '--data', sandbox.data, '--dry-run', path]);
    expect(dry.code, dry.stderr).to.equal(1);
    expect(dry.stderr).to.include('rowan: 8 records would be refused\n');
    expect(existsSync(`${path}.rejects`)).to.equal(false);
    expect(await rowanDoes(['export', '--data', sandbox.data])).to.equal(before);
    const real = await rowan(['import', '--data', sandbox.data, '--continue', path]);
    const untimed = (text: string) => text.replace(/ in [\d.]+ s \([\d,]+\/s\)/, '');
    expect(untimed(dry.stdout)).to.equal(`dry run, nothing is written: ${untimed(real.stdout)}`);
  });

  it('--dry-run of a sound file ends with 0, and of standard input, too', async () => {
    const args = ['import', '--data', sandbox.data, '--dry-run'];
    const said = /^dry run, nothing is written: loaded 1 entry in /;
    expect(await rowanDoes([...args, file('sound.ldif', person('sound'))])).to.match(said);
    expect(await rowanDoes([...args, '-'], { input: person('sound') })).to.match(said);
    expect(await exported('--filter', '(uid=sound)')).not.to.include('dn:');
  });

  it('--dry-run that is interrupted leaves no temporary folder', async () => {
    const TMPDIR = sandbox.path('tmp');
    mkdirSync(TMPDIR);
    const child = startRowan(['import', '--data', sandbox.data, '--dry-run', '-'], { env: { TMPDIR } });
    await until(child, () => readdirSync(TMPDIR, { recursive: true }).length > 1);
    child.kill('SIGINT');
    expect(await exited(child)).to.equal('SIGINT');
    expect(readdirSync(TMPDIR)).to.deep.equal([]);
  });

  it('counts passwords and what is left out of loaded records alone', async () => {
    const secrets = 'userPassword: in the clear\nuserPassword: {X-VENDOR}abc\nentryDN: cn=x\n';
    const faulty = `${secrets}nosuchattribute: x\n`;
    const all = [
      person('counted', secrets),
      person('bad', faulty),
      person('counted2', secrets).replace('\n', '\nchangetype: add\n'),
      person('wrong', faulty).replace('\n', '\nchangetype: add\n'),
    ].join('');
    const path = file('some.ldif', all);
    const { stdout } = await rowan(['import', '--data', sandbox.data, '--continue', path]);
    expect(stdout).to.match(/^loaded 1 entry, applied 1 change, refused 2 in /);
    expect(stdout).to.contain('2 passwords came in the clear');
    expect(stdout).to.contain('2 passwords cannot be verified here');
    expect(stdout).to.contain('2 attributes left out');
    const again = await rowan(['import', '--data', sandbox.data, '--continue', path]);
    expect(again.stdout).to.match(/^loaded 0 entries, refused 4 in .*\n(?:2 × [^\n]+\n){2}$/);
    const more = file('more.ldif', [person('bad', faulty), person('behind', secrets)].join(''));
    const ended = await rowan(['import', '--data', sandbox.data, more]);
    expect(ended.stdout).to.match(/^loaded 0 entries, refused 1 in .*\n$/);
  });

  it('says how many accounts are locked by what the file says', async () => {
    const text = [
      person('gone', 'userPassword: x\npwdAccountLockedTime: 000001010000Z\n'),
      person('away', 'userPassword: x\nnsAccountLock: true\n'),
      person('back', 'userPassword: x\nnsAccountLock: false\n'),
      person('bare', 'nsAccountLock: true\n'),
    ].join('\n');
    const out = await rowanDoes(['import', '--data', sandbox.data, file('locked.ldif', text)]);
    expect(out).to.match(/^2 accounts are locked by what the file says .*rowan account unlock/m);
  });

  it('tells of passwords that cannot be verified or cost too much, and check of those that are kept', async () => {
    const own = new Sandbox();
    await own.initSample();
    const gost = 'userPassword: {CRYPT}$gy$j9T$abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9\n';
    const dear = '{PBKDF2-SHA512}1000000$c2FsdA$aGFzaA';
    const some = '{PBKDF2-SHA256}200000$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA';
    const hash = (n: number): string => `{PBKDF2-SHA512}${100_000 + n}$c2FsdA$${'A'.repeat(86)}`;
    const values = (...numbers: number[]): string => numbers.map((n) => `userPassword: ${hash(n)}\n`).join('');
    const modify = (uid: string, lines: string): string => `dn: uid=${uid},${PEOPLE}\nchangetype: modify\n${lines}-\n`;
    const text = [
      person('sasl', 'userPassword: {SASL}sasl@EXAMPLE.COM\n'),
      person('gost', gost),
      person('later', ''),
      modify('later', `add: userPassword\n${gost}`),
      person('md5', 'userPassword: {CRYPT}$1$abcdefgh$L9uHN1rMqygIoj.XIVou50\n'),
      person('only', `userPassword: ${dear}\n`),
      person('both', `userPassword: ${dear}\nuserPassword: in the clear\n`),
      person('some', `userPassword: ${some}\n`),
      modify('some', `add: userPassword\nuserPassword: ${dear}\n`),
      // Too much together: the dearest of an entry are left out.
      person('loaded', values(9, 1, 2, 3, 4, 5)),
      person('added', values(9, 1, 2, 3, 4, 5)).replace('\n', '\nchangetype: add\n'),
      person('changed', values(1, 2, 3, 4)),
      modify('changed', `add: userPassword\n${values(6, 5)}`),
      modify('changed', `delete: userPassword\n${values(1)}-\nadd: userPassword\n${values(7)}`),
      person('replaced', values(1, 2, 3, 4, 5)),
      modify('replaced', `replace: userPassword\n${values(6, 7, 8, 9, 1, 2)}`),
    ].join('\n');
    const said = await rowanDoes(['import', '--data', own.data, file('dear.ldif', text)]);
    expect(said)
      .to.match(/^3 passwords cannot be verified here \(\{SASL\}, \{CRYPT\}\$gy\$\): kept, but nobody can bind/m)
      .and.match(
        /bind with them\n {2}uid=sasl,ou=people,[^ ]*\n {2}uid=gost,ou=people,[^ ]*\n {2}uid=later,ou=people,[^ ]*\n\d/,
      )
      .and.contain('7 passwords left out that cost more to verify than passwords.maxCost allows, alone or with');
    const all = (await rowanDoes(['export', '--data', own.data, '--base', PEOPLE])).replaceAll('\n ', '').split('\n\n');
    const kept = (uid: string): string[] => {
      const found = all.find((entry) => entry.startsWith(`dn: uid=${uid},`))!;
      return [...found.matchAll(/^userPassword(::?) (.*)$/gm)].map(([, colons, text]) =>
        colons === ':' ? text! : Buffer.from(text!, 'base64').toString(),
      );
    };
    expect(kept('only')).to.deep.equal([]);
    expect(kept('both').join()).to.match(/^\{SSHA512\}[^,]*$/);
    expect(kept('some')).to.deep.equal([some]);
    for (const [uid, ...numbers] of [
      ['loaded', 1, 2, 3, 4, 5],
      ['added', 1, 2, 3, 4, 5],
      ['changed', 2, 3, 4, 5, 7],
      ['replaced', 1, 2, 6, 7, 8],
    ] as const)
      expect(kept(uid), uid).to.have.members(numbers.map(hash));
    const check = async (env = {}): Promise<string[]> => {
      const lines = await rowanDoes(['check', '--data', own.data], { env });
      expect(lines).to.match(/no breach found\n$/);
      return lines.match(/^note .*$/gm) ?? [];
    };
    const unknown = [
      ['sasl', '{SASL}'],
      ['gost', '{CRYPT}$gy$'],
      ['later', '{CRYPT}$gy$'],
    ].map(
      ([uid, scheme]) =>
        `note password uid=${uid},${PEOPLE}: ${scheme} cannot be verified here: nobody can bind with it; set another`,
    );
    const notes = await check();
    expect(notes).to.have.length(8).and.include.members(unknown);
    // Of the entries that have "some", and several that are dear together.
    const dearNotes = notes.filter((line) =>
      /^note password uid=\w+,ou=people,\S+: a bind that fails costs \d+\.\d, one that names nobody 1\.0,/.test(line),
    );
    expect(dearNotes).to.have.length(5);
    const strict = await check({ ROWAN_PASSWORDS_MAX_COST: '2' });
    const above = / above passwords\.maxCost: nobody can bind with it; set another$/;
    expect(strict.filter((line) => above.test(line))).to.have.length(21);
    await own.remove();
  });

  it('lists the first twenty entries whose passwords cannot be verified, and counts the others', async () => {
    const foreign = 'userPassword: {SASL}x@EXAMPLE.COM\nuserPassword: {X-VENDOR}x\n';
    const text = Array.from({ length: 23 }, (_, n) => person(`sasl${n}`, foreign)).join('\n');
    const said = await rowanDoes(['import', '--data', sandbox.data, file('foreign.ldif', text)]);
    expect(said.match(/^ {2}uid=sasl\d+,ou=people,/gm)).to.have.length(20);
    expect(said).to.match(/^ {2}and 3 more; "rowan check" names all of them$/m);
  });

  it('refuses the record of a password that is empty or too long, not the file', async () => {
    const text = [
      person('long', `userPassword: ${'x'.repeat(1025)}\n`),
      person('short', 'userPassword: in the clear\n'),
      person('none', 'userPassword:\n').replace('\n', '\nchangetype: add\n'),
      `dn: uid=short,${PEOPLE}\nchangetype: modify\nadd: userPassword\nuserPassword: ${'y'.repeat(1025)}\n-\n`,
    ].join('\n');
    const path = file('long.ldif', text);
    const ended = await rowan(['import', '--data', sandbox.data, '--continue', path]);
    expect(ended.code).to.equal(1);
    expect(ended.stderr).to.contain('rowan: 3 records refused');
    expect(ended.stdout).to.match(/^loaded 1 entry, refused 3 in .*\n1 password came in the clear/);
    const rejects = readFileSync(`${path}.rejects`, 'utf8');
    expect(rejects).to.match(/^# .*line 1.*a password of 1025 bytes is too long; 1024 is the most$/m);
    expect(rejects).to.match(/^# .*an empty password cannot be stored$/m);
  });

  it('ends at the first record that is refused, says where and why, and removes its rejects when none is', async () => {
    const path = file('bad.ldif', `${person('early')}\n${person('bad', 'mial: x\n')}\n${person('later')}`);
    const ended = await rowan(['import', '--data', sandbox.data, path]);
    expect(ended.code).to.equal(1);
    expect(ended.stderr).to.match(
      /^rowan: \S+bad\.ldif, line 8: .*did you mean 'mail'\? "rowan schema set" defines others\. What comes before it is loaded; correct (\S+bad\.ldif\.rejects) and import it, then go on with --resume\n$/,
    );
    expect(await exported('--filter', '(|(uid=early)(uid=bad)(uid=later))'))
      .to.contain('dn: uid=early,')
      .and.not.contain('dn: uid=bad,');
    expect(existsSync(`${path}.rejects`)).to.equal(true);
    writeFileSync(path, person('early') + person('mended', 'mail: x@example.com\n'));
    await rowanDoes(['import', '--data', sandbox.data, '--dry-run', '--resume', path]);
    expect(existsSync(`${path}.rejects`)).to.equal(true);
    await rowanDoes(['import', '--data', sandbox.data, '--resume', path]);
    expect(existsSync(`${path}.rejects`)).to.equal(false);
    const empty = file('empty', '');
    await rowanDoes(['import', '--data', sandbox.data, '--resume', '--rejects', empty, path]);
    expect(existsSync(empty)).to.equal(true);
  });

  it('--continue goes on, and the rejects can be corrected and imported', async () => {
    const orphan = `dn: uid=stray,ou=nowhere,${SUFFIX}\nobjectClass: inetOrgPerson\nuid: stray\ncn: o\nsn: o\n\n`;
    const broken = `dn: uid=broken,${PEOPLE}\nobjectClass: inetOrgPerson\nthis is no line\n\n`;
    const text =
      person('first') +
      person('corrected', 'mial: x@example.com\nuserPassword: secret\n') +
      orphan +
      broken +
      person('ada') +
      person('lastly');
    const path = file('mixed.ldif', text);
    const ended = await rowan(['import', '--data', sandbox.data, '--continue', path]);
    expect(ended.code).to.equal(1);
    expect(ended.stdout).to.match(/^loaded 2 entries, refused 4 in /);
    expect(ended.stderr).to.contain(`rowan: 4 records refused; correct ${path}.rejects and import it\n`);
    const rejects = readFileSync(`${path}.rejects`, 'utf8');
    expect(statSync(`${path}.rejects`).mode & 0o777).to.equal(0o600);
    expect(rejects)
      .to.match(/^# line 7: .*mail/m)
      .and.match(/^# line 15: /m)
      .and.match(/^# line 21: .*line 23/m)
      .and.match(/^# line 25: .*already/m);
    const corrected = rejects
      .replace('mial:', 'mail:')
      .replaceAll(`ou=nowhere,${SUFFIX}`, PEOPLE)
      .replace('this is no line', 'uid: broken\ncn: b\nsn: b');
    const again = await rowan([
      'import',
      '--data',
      sandbox.data,
      '--continue',
      '--rejects',
      sandbox.path('second'),
      file('again.ldif', corrected),
    ]);
    expect(again.stdout).to.match(/^loaded 3 entries, refused 1 in /);
    expect(existsSync(sandbox.path('second'))).to.equal(true);
  });

  it('names the first refused record, counts the others, and goes on behind it as the message says', async () => {
    const orphan = person('orphan').replace(`,${PEOPLE}`, `,ou=nowhere,${PEOPLE}`);
    const path = file('order.ldif', person('ada') + person('new') + orphan + person('last'));
    const ended = await rowan(['import', '--data', sandbox.data, path]);
    expect(ended.stdout).to.match(/^loaded 0 entries, refused 2 in /);
    // An import that takes long shows its progress before.
    expect(ended.stderr.replace(/^import: .*\n/gm, '')).to.equal(
      `rowan: ${path}, line 1: entryAlreadyExists: there is an entry with this name already. What comes before it is loaded, and 1 behind it refused too; correct ${path}.rejects and import it, then go on with --resume\n`,
    );
    const rejects = readFileSync(`${path}.rejects`, 'utf8');
    expect(rejects.match(/^# line \d+: \w+/gm)).to.deep.equal([
      '# line 1: entryAlreadyExists',
      '# line 13: noSuchObject',
    ]);
    const corrected = rejects.replaceAll('uid=ada', 'uid=ada2').replace('uid: ada', 'uid: ada2');
    writeFileSync(`${path}.rejects`, corrected.replace('ou=nowhere,', ''));
    await rowanDoes(['import', '--data', sandbox.data, `${path}.rejects`]);
    const again = await rowan(['import', '--data', sandbox.data, '--resume', path]);
    expect(again.stderr).to.include('an earlier import of this file ended at line 1; going on behind that record\n');
    expect(again.stdout).to.match(/^loaded 1 entry, refused 1 in /);
  });

  it('tells refusals before the end of the input, however few records are loaded', async () => {
    const rejects = sandbox.path('rejects');
    const child = startRowan(['import', '--data', sandbox.data, '--continue', '--rejects', rejects, '-']);
    const long = `description: ${'x'.repeat(64 * 1024)}\n`;
    const bad = Array.from({ length: 150 }, (_, n) => person(`bad${n}`, `mial: x\n${long}`));
    child.stdin!.write(person('prompt') + bad.join(''));
    await until(child, () => existsSync(rejects) && statSync(rejects).size > 0);
    child.stdin!.end(person('finally'));
    expect(await exited(child)).to.equal(1);
    const uids = [...readFileSync(rejects, 'utf8').matchAll(/^uid: (\w+)$/gm)].map(([, uid]) => uid);
    expect(uids).to.deep.equal(bad.map((_, n) => `bad${n}`));
    expect(await exported('--filter', '(|(uid=prompt)(uid=finally))'))
      .to.include('uid=prompt,')
      .and.include('uid=finally,');
  });

  it('--resume goes on behind a refused change, and applies none twice', async () => {
    const change = (more: string): string => `dn: ${ADA}\nchangetype: modify\n${more}-\n\n`;
    const bad = change('add: mial\nmial: x\n');
    const path = file(
      'added.ldif',
      change('add: description\ndescription: one\n') + bad + change('add: description\ndescription: two\n'),
    );
    const ended = await rowan(['import', '--data', sandbox.data, path]);
    expect(ended.stdout).to.match(/^loaded 0 entries, applied 1 change, refused 1 in /);
    writeFileSync(`${path}.rejects`, readFileSync(`${path}.rejects`, 'utf8').replaceAll('mial', 'mail'));
    expect(await rowanDoes(['import', '--data', sandbox.data, `${path}.rejects`])).to.include('applied 1 change in');
    expect(await rowanDoes(['import', '--data', sandbox.data, '--resume', path])).to.include('applied 1 change in');
    expect(await exported('--filter', '(uid=ada)')).to.match(/^description: one\ndescription: two$/m);
  });

  it('refuses a file that is not LDIF before anything is written', async () => {
    const before = readdirSync(sandbox.data);
    for (const [name, text, ...more] of [
      ['people.csv', Buffer.from('uid,cn,sn\nada,Ada,Lovelace\n')],
      ['people.json', Buffer.from('{\n  "dn": "uid=x"\n}\n\n{}\n'), '--continue'],
      ['utf-16.ldif', Buffer.from('\ufeffdn: cn=x\n', 'utf16le'), '--dry-run'],
    ] as const) {
      const path = sandbox.path(name);
      writeFileSync(path, text);
      const ended = await rowan(['import', '--data', sandbox.data, ...more, path]);
      expect(ended).to.include({ code: 1, stdout: '' });
      expect(ended.stderr).to.match(/^rowan: \S+ is not LDIF: line 1: [^\n]+; nothing is written\n$/);
      expect(existsSync(`${path}.rejects`)).to.equal(false);
    }
    expect(readdirSync(sandbox.data)).to.deep.equal(before);
  });

  it('names the line of a fault once, and the suffixes for a name below none', async () => {
    const path = file(
      'fault.ldif',
      `dn cn=x\ncn: x\n\ndn: cn=y\nno colon\n\n${person('one').replaceAll('dc=com', 'dc=org')}`,
    );
    const { stderr } = await rowan(['import', '--data', sandbox.data, path]);
    expect(stderr).to.match(
      /fault\.ldif, line 1: no colon in this line of 7 bytes; expected "attribute: value"\. What/,
    );
    await rowan(['import', '--data', sandbox.data, '--continue', path]);
    expect(readFileSync(`${path}.rejects`, 'utf8'))
      .to.match(/^# line 1: no colon/m)
      .and.match(/^# line 4: no colon .*\(in line 5\)$/m)
      .and.contain(`it is below no suffix; this directory holds '${SUFFIX}'`);
  });

  it('writes rejects neither over its input nor over a file that is not one of rejects', async () => {
    const text = person('bad', 'mial: x@example.com\n');
    const path = file('in.ldif', text);
    const link = sandbox.path('link');
    symlinkSync(path, link);
    const isInput = ' is the file to import; name another one';
    expect(() => checkRejectsPath(path, path)).to.throw(`${path}${isInput}`);
    const ended = await rowan(['import', '--data', sandbox.data, '--rejects', link, path]);
    expect(ended.code).to.equal(2);
    expect(ended.stderr).to.contain(`${link}${isInput}`);
    expect(readFileSync(path, 'utf8')).to.equal(text);
    const other = file('precious', 'precious\n');
    expect(() => checkRejectsPath(other, path)).to.throw(`${other} exists and has no refused records; move it away`);
    checkRejectsPath(file('none', ''), path);
    const taken = file('old', '# line 7: of before\n\n');
    await rowan(['import', '--data', sandbox.data, '--no-resume', '--rejects', taken, path]);
    expect(readFileSync(taken, 'utf8')).to.match(/^# line 1: .*mial/);
  });

  it('the same file twice: every entry is refused as present, and nothing changes', async () => {
    const path = file('twice.ldif', person('x') + person('y'));
    await rowanDoes(['import', '--data', sandbox.data, path]);
    const before = await rowanDoes(['export', '--data', sandbox.data]);
    const ended = await rowan(['import', '--data', sandbox.data, '--continue', path]);
    expect(ended).to.include({ code: 1 });
    expect(ended.stdout).to.match(/^loaded 0 entries, refused 2 in /);
    expect(await rowanDoes(['export', '--data', sandbox.data])).to.equal(before);
    expect(await rowanDoes(['import', '--data', sandbox.data, '--resume', path])).to.match(
      /^loaded 0 entries, 2 were there already/,
    );
  });

  it('--resume passes over entries that exist and ends at the first other record that is refused', async () => {
    const path = file('resumed.ldif', person('ada') + person('bad', 'mial: x@example.com\n') + person('never'));
    const ended = await rowan(['import', '--data', sandbox.data, '--resume', path]);
    expect(ended.code).to.equal(1);
    expect(ended.stdout).to.match(/^loaded 0 entries, 1 were there already, refused 1/);
    expect(ended.stderr).to.contain('resumed.ldif, line 7: undefinedAttributeType: ');
    expect(await exported('--filter', '(uid=never)')).to.not.contain('uid=never');
  });

  it('reads URLs only when allowed', async () => {
    const note = file('note.txt', 'from a file');
    const path = file('url.ldif', person('url', `description:< file://${note}\n`));
    const refused = await rowan(['import', '--data', sandbox.data, path]);
    expect(refused.code).to.equal(1);
    expect(refused.stderr).to.match(/URL/);
    await rowanDoes(['import', '--data', sandbox.data, '--allow-urls', path]);
    expect(await exported('--filter', '(uid=url)')).to.contain('description: from a file\n');
  });

  it('works beside a running server, which answers with what is loaded', async () => {
    const server = await sandbox.serve();
    const client = new Client({ url: server.url });
    await client.bind(ADMIN, PASSWORD);
    const find = async (filter: string): Promise<unknown[]> =>
      (await client.search(PEOPLE, { filter })).searchEntries.map((entry) => entry.dn);
    expect(await find('(uid=beside)')).to.deep.equal([]);
    const input = person('beside', 'mail: beside@example.com\nuserPassword: in the clear\n');
    expect(await rowanDoes(['import', '--data', sandbox.data, '-'], { input })).to.match(/^loaded 1 entry/);
    expect(await find('(mail=beside@example.com)')).to.deep.equal([`uid=beside,${PEOPLE}`]);
    await client.bind(`uid=beside,${PEOPLE}`, 'in the clear');
    await client.unbind();
  });

  it('what it exports, another directory imports to the same, and neither has a breach', async () => {
    const all = await rowanDoes(['export', '--data', sandbox.data]);
    const other = sandbox.path('other');
    await rowanDoes(['init', '--data', other, '--suffix', SUFFIX, '--admin-dn', ADMIN]);
    await rowanDoes(['import', '--data', other, file('all.ldif', all)]);
    expect(await rowanDoes(['export', '--data', other])).to.equal(all);
    const output = sandbox.path('out.ldif');
    expect(await rowanDoes(['export', '--data', other, '--output', output])).to.equal(
      `exported ${all.match(/^dn/gm)!.length} entries to ${output}\n`,
    );
    expect(readFileSync(output, 'utf8')).to.equal(all);
    expect(statSync(output).mode & 0o777).to.equal(0o600);
    for (const data of [sandbox.data, other])
      expect(await rowanDoes(['check', '--data', data])).to.match(/^no breach found$/m);
  });
});

describe('cli: scripts/people.mjs', () => {
  it('writes the same bytes for the same number', async () => {
    const { createHash } = await import('node:crypto');
    const made = await run(process.execPath, [PEOPLE_SCRIPT, '1000']);
    expect(createHash('sha256').update(made.stdout).digest('hex')).to.equal(
      'e91407ccaa11813a38d427211d181899b8e726af5fcc4d4382432fbdefcaf900',
    );
  });
});

describe('cli: files that are none', () => {
  const sandbox = new Sandbox();
  before(() => sandbox.init());
  after(() => sandbox.remove());

  it('are one clear line', async () => {
    const missing = await rowan(['import', '--data', sandbox.data, sandbox.path('missing.ldif')]);
    expect(missing).to.include({ code: 1, stderr: `rowan: ${sandbox.path('missing.ldif')}: no such file or folder\n` });
    mkdirSync(sandbox.path('folder'));
    const folder = await rowan(['import', '--data', sandbox.data, sandbox.path('folder')]);
    expect(folder).to.include({ code: 1, stderr: `rowan: ${sandbox.path('folder')}: is a folder, not an LDIF file\n` });
  });
});
