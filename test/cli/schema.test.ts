import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { openSchema, Partition } from '../../src/partition/index.js';
import { filesDifference, Schema } from '../../src/schema/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { attributes, refused as isRefused } from '../partition/fixture.js';
import { RawClient, searchRequest, simpleBind } from '../server/raw-client.js';
import { ADMIN, PASSWORD, rowan, rowanDoes, Sandbox, SUFFIX, serve } from './rowan.js';

const SITE = `dn: cn=site
attributeTypes: ( 1.3.6.1.4.1.99999.1 NAME 'badge' EQUALITY caseIgnoreMatch
  SUBSTR caseIgnoreSubstringsMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )
objectClasses: ( 1.3.6.1.4.1.99999.2 NAME 'visitor' SUP person STRUCTURAL MAY badge )
`;
const MORE = "attributeTypes: ( 1.3.6.1.4.1.99999.3 NAME 'desk' SUP name )\n";
const ENTRIES = `dn: ${SUFFIX}
objectClass: organization
objectClass: dcObject
dc: example
o: Example

dn: cn=Ann,${SUFFIX}
objectClass: visitor
cn: Ann
sn: Lee
badge: 17

dn: cn=staff,${SUFFIX}
objectClass: groupOfNames
objectClass: posixGroup
cn: staff
gidNumber: 7
member: cn=Ann,${SUFFIX}
`;

describe('cli: the schema of a directory', () => {
  const sandbox = new Sandbox();
  const changed = new Sandbox();
  const folder = sandbox.path('schema');
  const data = ['--data', sandbox.data];
  const base = ['--suffix', SUFFIX, '--admin-dn', ADMIN];
  const own = ['--schema-folders', folder];

  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
  const writeAll = () => {
    mkdirSync(folder, { recursive: true });
    write('base.ldif', MORE);
    write('site.ldif', SITE);
  };
  const init = (...args: string[]) =>
    rowanDoes(['init', ...base, ...args], { env: { ROWAN_ADMIN_PASSWORD: PASSWORD } });
  const load = (where: string[], input = ENTRIES) =>
    rowanDoes(['import', ...where, '-'], { input, cwd: sandbox.folder });
  const refused = async (args: string[], ...why: RegExp[]) => {
    const { code, stderr } = await rowan(args);
    for (const part of why) expect(stderr).to.match(part);
    expect(code).to.equal(2);
  };

  const withPartition = async (where: string, work: (partition: Partition) => Promise<unknown>) => {
    const store = await openLmdbStore(where);
    const partition = await Partition.open(store, await openSchema(store));
    try {
      await work(partition);
    } finally {
      await partition.close();
    }
  };

  before(async () => {
    writeAll();
    await init(...data, ...own, '--schema-nis', 'rfc2307bis');
    rmSync(folder, { recursive: true });
    await load(data);
  });
  after(() => Promise.all([sandbox.remove(), changed.remove()]));

  it('is remembered: no command and no server needs the flags of init, nor the folder', async () => {
    expect(existsSync(folder)).to.equal(false);
    expect(await rowanDoes(['check', ...data])).to.equal('no breach found\n');
    await rowanDoes(['index', 'add', 'badge', ...data]);
    expect(await rowanDoes(['export', ...data, '--filter', '(badge=17)'])).to.contain('badge: 17');
    expect(await rowanDoes(['schema', 'show', ...data])).to.equal(
      'NIS schema rfc2307bis, own files: base.ldif, site.ldif\n',
    );
    for (const args of [[], ['--workers', '2']]) {
      const server = await serve(sandbox.data, args);
      try {
        const client = await RawClient.open(server.port);
        await client.request(simpleBind(ADMIN, PASSWORD));
        const filter = { type: 'equal', attribute: 'badge', value: Buffer.from('17') } as const;
        const { code, entries } = await client.request(searchRequest(SUFFIX, { scope: 'sub', filter }));
        expect([code, entries.map(({ dn }) => dn)]).to.deep.equal([0, [`cn=Ann,${SUFFIX}`]]);
        client.close();
      } finally {
        await server.stop();
      }
    }
  });

  it('is copied with the directory, and read by a program of one’s own', async () => {
    const copy = sandbox.path('copy');
    await rowanDoes(['copy', '--from', sandbox.data, '--to', copy]);
    await withPartition(copy, async ({ schema }) => {
      expect(schema.attribute('badge')?.oid).to.equal('1.3.6.1.4.1.99999.1');
    });
  });

  it('is kept beside an export with "schema show --text", and restored from there', async () => {
    const kept = sandbox.path('kept');
    mkdirSync(kept);
    const text = await rowanDoes(['schema', 'show', ...data, '--text']);
    expect(text).to.equal(`# base.ldif\n${MORE}\n# site.ldif\n${SITE}`);
    writeFileSync(join(kept, 'own.ldif'), text);
    const exported = await rowanDoes(['export', ...data]);
    const restored = ['--data', sandbox.path('restored')];
    await init(...restored, '--schema-folders', kept, '--schema-nis', 'rfc2307bis');
    await load(restored, exported);
    expect(await rowanDoes(['export', ...restored])).to.equal(exported);
  });

  it('may be given again, but not another', async () => {
    writeAll();
    expect(await rowanDoes(['export', ...data, ...own])).to.contain('badge: 17');
    const advice = /"rowan schema set" gives it another/;
    await refused(
      ['check', ...data, '--schema-nis', 'rfc2307'],
      /schema.nis is rfc2307,.* NIS schema rfc2307bis\./,
      advice,
    );
    write('site.ldif', `${SITE}# more\n`);
    await refused(['serve', ...data, ...own], /schema file 'site.ldif' has another text/, advice);
    const stored = [
      { name: 'base.ldif', text: MORE },
      { name: 'site.ldif', text: SITE },
    ];
    write('site.ldif', SITE);
    write('more.ldif', '# nothing yet\n');
    expect(filesDifference(stored, [folder])).to.match(/has no schema file 'more.ldif'/);
    rmSync(join(folder, 'site.ldif'));
    rmSync(join(folder, 'more.ldif'));
    expect(filesDifference(stored, [folder])).to.match(/has a schema file 'site.ldif' besides/);
  });

  it('is changed by "schema set", but never so that entries, indexes or names lose what they need', async () => {
    writeAll();
    await changed.init();
    const set = ['schema', 'set', '--data', changed.data];
    expect((await rowan(set)).stderr).to.contain('give --schema-folders, --schema-nis or --without-files');
    await withPartition(changed.data, async (partition) => {
      expect(await rowanDoes([...set, ...own, '--schema-nis', 'rfc2307bis'])).to.match(
        /rfc2307bis, own files: base.ldif, site.ldif\n.*[1-9]\d* added, \d+ removed, [1-9]\d* changed; run/,
      );
      partition.renewReads();
      await partition.refresh();
      expect(partition.schemaIsCurrent, 'of one who had it open').to.equal(false);
    });
    await load(['--data', changed.data]);
    const less = Schema.load({ nis: 'rfc2307bis' });
    await withPartition(changed.data, async (partition) => {
      expect(partition.schemaIsCurrent).to.equal(true);
      await partition.addIndex('badge');
      await isRefused(
        'unwillingToPerform',
        partition.changeSchema(less),
        /'badge' has an index .*rowan index drop badge/,
      );
      await partition.dropIndex('badge');
    });
    const { code, stderr } = await rowan([...set, '--without-files']);
    expect(stderr).to.match(
      /object class 'visitor' would not be defined any more, and 'cn=Ann,dc=example,dc=com' has it/,
    );
    expect(code).to.equal(1);
    await withPartition(changed.data, async (partition) => {
      const ann = partition.schema.parseDn(`cn=Ann,${SUFFIX}`);
      await partition.delete(ann, { dn: ADMIN });
      await partition.add(ann, attributes({ objectClass: ['person', 'extensibleObject'], sn: 'Lee', badge: '1' }), {
        dn: ADMIN,
      });
      await isRefused(
        'unwillingToPerform',
        partition.changeSchema(less),
        /'badge' would not be defined any more, and 'cn=Ann/,
      );
      await partition.delete(ann, { dn: ADMIN });
      expect(await partition.changeSchema(less)).to.deep.equal({ added: 0, removed: 3, changed: 0 });
    });
    await withPartition(changed.data, async (partition) => expect(await partition.check(() => undefined)).to.equal(0));
  });

  it('is too long at over 4 MiB, and a mistake in it is named before there is a folder', async () => {
    writeAll();
    const none = sandbox.path('none');
    const args = ['init', '--data', none, ...base, ...own];
    write('site.ldif', `${SITE}attributeTypes: ( 1.2.3.4 NAME 'odd' SUP nothing )\n`);
    expect((await rowan(args)).stderr).to.match(/site.ldif:5: 'odd': .*'nothing' is not defined/);
    write('site.ldif', `${SITE}${`# ${'x'.repeat(1000)}\n`.repeat(4200)}`);
    expect((await rowan(args)).stderr).to.match(
      /schema files of \d+ characters; all of them together may have 4194304/,
    );
    expect(existsSync(none)).to.equal(false);
  });

  it('is not read from a folder without an .ldif file: an error says what to do, with exit code 2', async () => {
    const empty = sandbox.path('empty');
    const none = sandbox.path('nothing');
    mkdirSync(empty);
    const why = /^rowan: schema folder '.*empty' holds no \.ldif file; put files of/;
    await refused(['init', '--data', none, ...base, '--schema-folders', empty], why);
    expect(existsSync(none)).to.equal(false);
    await refused(['schema', 'set', ...data, '--schema-folders', empty], why);
    await refused(['check', ...data, '--schema-folders', empty], why);
    writeFileSync(join(empty, 'nis.schema'), "attributetype ( 1.2.3.4 NAME 'odd' SUP name )\n");
    const read = (given: string) => () => Schema.load({ extra: [given] });
    expect(read(empty)).to.throw(/holds no \.ldif file; convert 'nis\.schema' to LDIF, with slaptest or by hand/);
    expect(read(none)).to.throw(/schema folder '.*nothing' cannot be read/);
  });
});
