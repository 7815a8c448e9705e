import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { PASSWORD, rowan, rowanDoes, Sandbox, SUFFIX } from './rowan.js';

const OPERATIONS = fileURLToPath(new URL('../../../docs/operations.md', import.meta.url));
const PEOPLE = 300;
const GROUP = `ou=group,${SUFFIX}`;
/** Checks that need all rows of table `master`. */
const DERIVED = /^(count|treeRow|index|parent|id|large|purge) /m;

/** LDIF of a suffix, people below it, and an entry with others below it. */
function ldif(): string {
  const records = [`dn: ${SUFFIX}\nobjectClass: domain\ndc: example\n`];
  const person = (name: string, above: string, more = ''): void => {
    const uid = `dn: uid=${name},${above}\nobjectClass: inetOrgPerson\nuid: ${name}\ncn: c\nsn: c\n`;
    records.push(`${uid}description: Mark-${name}-\n${more}`);
  };
  for (let i = 0; i < PEOPLE; i++) person(`u${1000 + i}`, SUFFIX);
  records.push(`dn: ${GROUP}\nobjectClass: organizationalUnit\nou: group\ndescription: Mark-group-\n`);
  for (let i = 0; i < 10; i++) person(`below${i}`, GROUP);
  const photo = Buffer.alloc(2_000_000, 'a photo ');
  photo.write('Mark-photo-', 1_500_000);
  person('large', SUFFIX, `jpegPhoto:: ${photo.toString('base64')}\n`);
  return records.join('\n');
}
/** With the suffix, the group, those below it and the one with a photo. */
const ALL = PEOPLE + 13;

describe('cli: rows that are damaged', () => {
  const original = new Sandbox();
  let sandbox = original;
  let whole: string;

  before(async () => {
    await original.init();
    writeFileSync(original.path('a.ldif'), ldif());
    await rowanDoes(['import', '--data', original.data, original.path('a.ldif')]);
    whole = await rowanDoes(['export', '--data', original.data]);
    expect(dns(whole)).to.have.length(ALL);
  });
  beforeEach(() => {
    sandbox = new Sandbox();
    cpSync(original.data, sandbox.data, { recursive: true });
  });
  afterEach(() => sandbox.remove());
  after(() => original.remove());

  const dns = (text: string): string[] => text.match(/^dn: .*$/gm) ?? [];
  const recordsOf = (text: string): string[] => text.split('\n\n').filter((record) => record.startsWith('dn: '));
  const uuidOf = (dn: string): string => new RegExp(`dn: ${dn}\n(?:.+\n)*?entryUUID: (.*)`).exec(whole)![1]!;
  const fileOf = (): string => join(sandbox.data, 'data.mdb');

  /** Changes the byte `behind` each of the texts, wherever they stand in the data file. */
  function damage(text: string, behind = 0): void {
    const data = readFileSync(fileOf());
    let found = 0;
    for (let at = data.indexOf(text); at >= 0; at = data.indexOf(text, at + 1), found++)
      data[at + text.length + behind]! ^= 0x40;
    expect(found, text).to.be.greaterThan(0);
    writeFileSync(fileOf(), data);
  }

  /** What `check` says; it ends with 1. */
  async function told(): Promise<string> {
    const { code, stdout } = await rowan(['check', '--data', sandbox.data]);
    expect(code).to.equal(1);
    return stdout;
  }

  it('hide no sound row from check, and repair writes nothing that follows from them', async () => {
    damage('Mark-u1150');
    damage('Mark-u1203');
    const check = await told();
    expect(check).not.to.match(DERIVED);
    for (const name of ['u1150', 'u1203']) {
      const uuid = uuidOf(`uid=${name},${SUFFIX}`);
      expect(check).to.contain(`damage ${uuid}: row ${uuid.replaceAll('-', '')} of table master is damaged`);
      expect(check).to.contain(`lost ${uuid}: the entry whose row is damaged is uid=${name},${SUFFIX}\n`);
    }
    expect(check).to.contain('unchecked counters of entries: rows of table master cannot be read');
    const { code, stdout } = await rowan(['repair', '--data', sandbox.data]);
    expect(code).to.equal(1);
    expect(stdout).not.to.match(DERIVED);
    expect(stdout).to.contain('unchecked counters of entries').and.to.contain('not repaired: ');
    expect(stdout).not.to.match(/^(repaired|nothing)/m);
    expect(await told()).to.equal(check);
    expect(recordsOf((await rowan(['export', '--data', sandbox.data])).stdout)).to.deep.equal(
      recordsOf(whole).filter((record) => !/^dn: uid=u1(150|203),/.test(record)),
    );
  });

  it('of an entry with others below it take none of those for lost', async () => {
    damage('Mark-group');
    const uuid = uuidOf(GROUP);
    const check = await told();
    expect(check).not.to.match(DERIVED);
    expect(check).to.contain(`lost ${uuid}: the entry whose row is damaged is ${GROUP}\n`);
    expect(check).to.contain('unchecked parents that do not exist');
    const repair = await rowan(['repair', '--data', sandbox.data]);
    expect(repair.code).to.equal(1);
    expect(repair.stdout).not.to.match(DERIVED);
    const { code, stdout, stderr } = await rowan(['export', '--data', sandbox.data]);
    expect(code).to.equal(1);
    expect(stderr).to.contain(`lost entry: ${GROUP} (entryUUID ${uuid}`);
    expect(dns(stdout)).to.have.members(dns(whole).filter((line) => line !== `dn: ${GROUP}`));
  });

  it('are gone around by export, which names what is lost', async () => {
    damage('Mark-u1150');
    const file = sandbox.path('all.ldif');
    const { code, stdout, stderr } = await rowan(['export', '--data', sandbox.data, '--output', file]);
    expect(code).to.equal(1);
    expect(stdout).to.equal(`exported ${ALL - 1} entries to ${file}\n`);
    // A slow machine is told how far the export is.
    const said = stderr
      .trim()
      .split('\n')
      .filter((line) => !line.startsWith('export: '));
    const [first, last] = said.slice(-2);
    const uuid = uuidOf(`uid=u1150,${SUFFIX}`);
    expect(first).to.contain(`lost entry: uid=u1150,${SUFFIX} (entryUUID ${uuid}; row ${uuid.replaceAll('-', '')}`);
    expect(first).to.contain('of table master');
    expect(last).to.equal('rowan: this export is partial: 1 entry could not be read');
    const text = readFileSync(file, 'utf8');
    expect(dns(text)).to.have.length(ALL - 1);
    expect(recordsOf(whole)).to.include.members(recordsOf(text));
    expect(text).to.match(/\n# lost entry: uid=u1150,.*\n\n/);
    expect(text).to.match(/\n# this export is partial: 1 entry could not be read\n\n$/);
  });

  it('are gone around where entries are chosen by a filter', async () => {
    damage('Mark-u1150');
    const { code, stdout } = await rowan(['export', '--data', sandbox.data, '--filter', '(description=*-u11*)']);
    expect(code).to.equal(1);
    expect(dns(stdout)).to.have.length(99);
  });

  it('of table tree lose no entry: export finds them, and repair makes the rows', async () => {
    // A tree row's value is behind its key.
    damage(',2.5.4.11=group', 12);
    damage(',0.9.2342.19200300.100.1.1=u1150', 12);
    const check = await told();
    expect(check).to.contain('of table tree is damaged');
    expect(check).not.to.match(/^(count|parent) /m);
    expect(dns(await rowanDoes(['export', '--data', sandbox.data]))).to.have.members(dns(whole));
    await rowanDoes(['repair', '--data', sandbox.data]);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.match(/^no breach found/);
    expect(await rowanDoes(['export', '--data', sandbox.data])).to.equal(whole);
  });

  it('of a large value cost the value alone', async () => {
    damage('Mark-photo');
    const check = await told();
    expect(check).to.contain(`damage ${uuidOf(`uid=large,${SUFFIX}`)}`);
    expect(check).not.to.match(DERIVED);
    const { code, stdout, stderr } = await rowan(['export', '--data', sandbox.data]);
    expect(code).to.equal(1);
    expect(stderr).to.contain(`lost value: jpegPhoto of uid=large,${SUFFIX}`);
    expect(dns(stdout)).to.have.members(dns(whole));
    expect(stdout).to.contain('Mark-large-').and.not.to.contain('jpegPhoto:');
  });

  it('are got rid of by the lines of docs/operations.md', async () => {
    damage('Mark-u1150');
    const section = /\n## Damage\n(.*?)\n## /s.exec(readFileSync(OPERATIONS, 'utf8'))![1]!;
    const lines = section.match(/^ {4}rowan .*$/gm)!.map((line) => line.trim().split(' ').slice(1));
    expect(lines.map(([command]) => command)).to.deep.equal(['export', 'init', 'import', 'check']);
    for (const args of lines) {
      const here = args.map((arg) => (arg === 'data' ? sandbox.data : arg));
      const options = { cwd: sandbox.folder, env: { ROWAN_ADMIN_PASSWORD: PASSWORD } };
      if (args[0] === 'export') expect((await rowan(here, options)).code, args.join(' ')).to.equal(1);
      else await rowanDoes(here, options);
    }
    expect(existsSync(sandbox.path('all.ldif.rejects'))).to.equal(false);
    const restored = sandbox.path('restored');
    expect(await rowanDoes(['repair', '--data', restored])).to.equal('nothing to repair\n');
    const found = await rowanDoes(['export', '--data', restored]);
    expect(dns(found)).to.have.members(dns(whole).filter((line) => !line.includes('u1150')));
  });
});
