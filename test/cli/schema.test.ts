import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { openSchema, Partition } from '../../src/partition/index.js';
import { Schema } from '../../src/schema/index.js';
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
  let sandbox: Sandbox;
  let folder: string;
  let data: string[];

  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
  const init = async (...more: string[]) => {
    const args = ['init', ...data, '--suffix', SUFFIX, '--admin-dn', ADMIN, ...more];
    await rowanDoes(args, { env: { ROWAN_ADMIN_PASSWORD: PASSWORD } });
  };
  const load = () => rowanDoes(['import', ...data, '-'], { input: ENTRIES, cwd: sandbox.folder });

  const withPartition = async (work: (partition: Partition) => Promise<unknown>, where = sandbox.data) => {
    const store = await openLmdbStore(where);
    const partition = await Partition.open(store, await openSchema(store));
    try {
      await work(partition);
    } finally {
      await partition.close();
    }
  };

  beforeEach(() => {
    sandbox = new Sandbox();
    data = ['--data', sandbox.data];
    folder = sandbox.path('schema');
    mkdirSync(folder);
    write('site.ldif', SITE);
  });
  afterEach(async () => {
    await sandbox.remove();
  });

  it('is remembered: no command and no server needs the flags of init, nor the folder', async () => {
    await init('--schema-folders', folder, '--schema-nis', 'rfc2307bis');
    rmSync(folder, { recursive: true });
    await load();
    expect(await rowanDoes(['check', ...data])).to.equal('no breach found\n');
    await rowanDoes(['index', 'add', 'badge', ...data]);
    expect(await rowanDoes(['export', ...data, '--filter', '(badge=17)'])).to.contain('badge: 17');
    expect(await rowanDoes(['schema', 'show', ...data])).to.equal('NIS schema rfc2307bis, own files: site.ldif\n');
    expect(await rowanDoes(['schema', 'show', '--text', ...data])).to.equal(`# site.ldif\n${SITE}`);
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
    await init('--schema-folders', folder);
    const copy = sandbox.path('copy');
    await rowanDoes(['copy', '--from', sandbox.data, '--to', copy]);
    await withPartition(async ({ schema }) => {
      expect(schema.attribute('badge')?.oid).to.equal('1.3.6.1.4.1.99999.1');
    }, copy);
  });

  it('may be given again, but not another', async () => {
    write('base.ldif', '# nothing yet\n');
    await init('--schema-folders', folder);
    await rowanDoes(['check', ...data, '--schema-folders', folder]);
    const refused = async (args: string[], why: RegExp) => {
      const { code, stderr } = await rowan(args);
      expect(stderr)
        .to.match(why)
        .and.match(/"rowan schema set" gives it another/);
      expect(code).to.equal(2);
    };
    await refused(['check', ...data, '--schema-nis', 'rfc2307bis'], /schema.nis is rfc2307bis.* NIS schema rfc2307\./);
    write('site.ldif', SITE + MORE);
    await refused(['serve', ...data, '--schema-folders', folder], /schema file 'site.ldif' has another text/);
    write('site.ldif', SITE);
    write('more.ldif', MORE);
    await refused(['export', ...data, '--schema-folders', folder], /has no schema file 'more.ldif'/);
    rmSync(join(folder, 'site.ldif'));
    rmSync(join(folder, 'more.ldif'));
    // base.ldif is there still.
    await refused(['export', ...data, '--schema-folders', folder], /has a schema file 'site.ldif' besides/);
  });

  it('is changed by "schema set", but never so that entries, indexes or names lose what they need', async () => {
    await init();
    const set = ['schema', 'set', ...data];
    expect((await rowan(set)).stderr).to.contain('give --schema-folders, --schema-nis or --without-files');
    const both = [...set, '--schema-folders', folder, '--schema-nis', 'rfc2307bis'];
    expect(await rowanDoes(both)).to.match(
      /rfc2307bis, own files: site.ldif\n.*[1-9]\d* added, \d+ removed, [1-9]\d* changed; run/,
    );
    await load();
    const less = Schema.load({ nis: 'rfc2307bis' });
    await withPartition(async (partition) => {
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
    await withPartition(async (partition) => {
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
      expect(await partition.changeSchema(less)).to.deep.equal({ added: 0, removed: 2, changed: 0 });
    });
    expect(await rowanDoes(['check', ...data])).to.equal('no breach found\n');
  });

  it('that changes beneath a server is said in its log, and taken at the next start', async () => {
    await init();
    await withPartition(async (partition) => {
      await rowanDoes(['schema', 'set', ...data, '--schema-folders', folder]);
      partition.renewReads();
      await partition.refresh();
      expect(partition.schemaIsCurrent).to.equal(false);
    });
    await withPartition(async (partition) => expect(partition.schemaIsCurrent).to.equal(true));
  });

  it('is too long at over 4 MiB, and a mistake in it is named before there is a folder', async () => {
    write('site.ldif', `${SITE}attributeTypes: ( 1.2.3.4 NAME 'odd' SUP nothing )\n`);
    const args = ['init', ...data, '--suffix', SUFFIX, '--admin-dn', ADMIN, '--schema-folders', folder];
    expect((await rowan(args)).stderr).to.match(/site.ldif:5: 'odd': .*'nothing' is not defined/);
    write('site.ldif', `${SITE}${`# ${'x'.repeat(1000)}\n`.repeat(4200)}`);
    expect((await rowan(args)).stderr).to.match(
      /schema files of \d+ characters; all of them together may have 4194304/,
    );
    write('site.ldif', SITE);
    await init();
  });

  it('is kept beside an export with "schema show --text", and restored from there', async () => {
    write('more.ldif', MORE);
    await init('--schema-folders', folder, '--schema-nis', 'rfc2307bis');
    await load();
    const kept = sandbox.path('kept');
    mkdirSync(kept);
    writeFileSync(join(kept, 'own.ldif'), await rowanDoes(['schema', 'show', ...data, '--text']));
    const exported = await rowanDoes(['export', ...data]);
    data = ['--data', sandbox.path('restored')];
    await init('--schema-folders', kept, '--schema-nis', 'rfc2307bis');
    await rowanDoes(['import', ...data, '-'], { input: exported, cwd: sandbox.folder });
    expect(await rowanDoes(['export', ...data])).to.equal(exported);
  });

  it('is not read from a folder without an .ldif file: an error says what to do, with exit code 2', async () => {
    const empty = sandbox.path('empty');
    mkdirSync(empty);
    const args = ['init', ...data, '--suffix', SUFFIX, '--admin-dn', ADMIN, '--schema-folders'];
    const refused = async (given: string[], why: RegExp) => {
      const { code, stderr } = await rowan(given);
      expect(stderr).to.match(why);
      expect(code).to.equal(2);
    };
    await refused([...args, empty], /^rowan: schema folder '.*empty' holds no \.ldif file; put files of/);
    expect(existsSync(sandbox.data)).to.equal(false);
    writeFileSync(join(empty, 'nis.schema'), "attributetype ( 1.2.3.4 NAME 'odd' SUP name )\n");
    await refused([...args, empty], /holds no \.ldif file; convert 'nis\.schema' to LDIF, with slaptest or by hand/);
    await refused([...args, sandbox.path('nothing')], /schema folder '.*nothing' cannot be read/);
    await init();
    await refused(['schema', 'set', ...data, '--schema-folders', empty], /holds no \.ldif file/);
    await refused(['check', ...data, '--schema-folders', empty], /holds no \.ldif file/);
  });
});
