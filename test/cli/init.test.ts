import { existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { needs } from '../require.js';
import { RawClient } from '../server/raw-client.js';
import {
  ADMIN,
  exited,
  MAIN,
  PASSWORD,
  rowan,
  rowanDoes,
  Sandbox,
  SUFFIX,
  serve,
  startProgram,
  until,
} from './rowan.js';

describe('cli: init', () => {
  const sandbox = new Sandbox();
  const init = (data: string, ...more: string[]): string[] => [
    'init',
    '--data',
    data,
    '--suffix',
    SUFFIX,
    '--admin-dn',
    ADMIN,
    ...more,
  ];

  after(() => sandbox.remove());

  it('makes a directory that only its owner reads, and never prints a password it was given', async () => {
    const data = sandbox.path('given');
    const out = await rowanDoes(init(data), { env: { ROWAN_ADMIN_PASSWORD: PASSWORD } });
    expect(out).to.contain(data).and.contain(ADMIN).and.not.contain(PASSWORD);
    expect(statSync(data).mode & 0o077).to.equal(0);
    expect(await rowanDoes(['check', '--data', data])).to.equal('no breach found\n');
  });

  it('takes a password from a variable without the line end, as from a file', async () => {
    const data = sandbox.path('line-end');
    await rowanDoes(init(data), { env: { ROWAN_ADMIN_PASSWORD: `${PASSWORD}\r\n` } });
    const server = await serve(data);
    const client = await RawClient.open(server.port);
    expect([await client.bind(ADMIN, `${PASSWORD}\r\n`), await client.bind(ADMIN, PASSWORD)]).to.deep.equal([49, 0]);
    client.close();
    await server.stop();
    const env = { ROWAN_ADMIN_PASSWORD: '\n' };
    expect((await rowan(init(sandbox.path('empty')), { env })).stderr).to.match(/is set but empty/);
  });

  it('says what a bad DN should be, with exit code 2, before there is a folder', async () => {
    const cases: [string[], RegExp][] = [
      [['--suffix', 'bad', '--admin-dn', ADMIN], /'bad' has no '='; a DN is written like/],
      [
        ['--suffix', 'example.com', '--admin-dn', ADMIN],
        /'example.com' has no '='; did you mean 'dc=example,dc=com'\?/,
      ],
      [['--suffix', SUFFIX, '--admin-dn', ' '], /the administrator's DN is empty/],
    ];
    for (const [names, why] of cases) {
      const { code, stderr } = await rowan(['init', '--data', sandbox.path('bad'), ...names]);
      expect(stderr).to.match(why);
      expect(code).to.equal(2);
      expect(existsSync(sandbox.path('bad'))).to.equal(false);
    }
  });

  it('makes a password up where nobody can be asked, and shows it', async () => {
    const out = await rowanDoes(init(sandbox.path('generated')));
    expect(out).to.match(/^password: [A-Za-z0-9_-]{20} {3}\(shown this once/m);
  });

  it('asks a person for it, twice, without showing it', async function () {
    needs(this, 'script');
    const data = sandbox.path('asked');
    const command = [process.execPath, MAIN, ...init(data)].map((word) => `'${word}'`).join(' ');
    const terminal = startProgram('script', ['-qec', command, '/dev/null']);
    let said = '';
    terminal.stdout!.on('data', (bytes: Buffer) => {
      said += bytes;
    });
    await until(terminal, () => said.includes('New password for'));
    terminal.stdin!.write('secret typef\x7fd\r');
    await until(terminal, () => said.includes('Once more: '));
    terminal.stdin!.write('secret typed\r');
    expect(await exited(terminal), said).to.equal(0);
    expect(said).not.to.contain('secret');
    const { port, stop } = await serve(data);
    const client = await RawClient.open(port);
    expect(await client.bind(ADMIN, 'secret typed')).to.equal(0);
    client.close();
    await stop();
  });

  it('reads the password from a file, and takes several suffixes', async () => {
    const data = sandbox.path('two');
    writeFileSync(sandbox.path('pw'), `${PASSWORD}\n`);
    const out = await rowanDoes(init(data, '--admin-password-file', sandbox.path('pw'), '--suffix', 'o=other'));
    expect(out).not.to.contain('password:');
    writeFileSync(sandbox.path('o.ldif'), 'dn: o=other\nobjectClass: organization\no: other\n');
    await rowanDoes(['import', '--data', data, sandbox.path('o.ldif')]);
    expect(await rowanDoes(['export', '--data', data, '--base', 'o=other', '--no-operational'])).to.contain(
      'dn: o=other\n',
    );
  });

  it('ends where no folder can be made', async () => {
    const refused = await rowan(init('/proc/x/data'));
    expect(refused).to.include({
      code: 1,
      stderr: 'rowan: /proc/x: no folder can be made in /proc; choose another\n',
    });
  });

  it('refuses a folder that holds something', async () => {
    const folder = sandbox.path('full');
    mkdirSync(folder);
    writeFileSync(`${folder}/something`, '');
    const refused = await rowan(init(folder));
    expect(refused).to.include({ code: 1, stdout: '' });
    expect(refused.stderr).to.equal(
      `rowan: ${folder} exists already and is not empty; choose another --data, or serve what is there\n`,
    );
    await sandbox.init();
    expect((await rowan(init(sandbox.data))).code).to.equal(1);
  });

  for (const [what, args, message] of [
    ['a malformed suffix', ['--suffix', 'nonsense', '--admin-dn', ADMIN], /^rowan: .*\(invalidDNSyntax\)\n$/],
    [
      'a suffix below another',
      ['--suffix', SUFFIX, '--suffix', `ou=x,${SUFFIX}`, '--admin-dn', ADMIN],
      /^rowan: 'ou=x,dc=example,dc=com' lies below 'dc=example,dc=com'.*\n$/,
    ],
    ['an unknown attribute in the DN', ['--suffix', 'dcc=x', '--admin-dn', ADMIN], /^rowan: .*dcc.*\n$/],
    ['an empty password', [], /^rowan: .*empty.*\n$/],
  ] as const) {
    it(`refuses ${what}, and leaves no folder`, async () => {
      const data = sandbox.path('refused');
      const given = args.length > 0 ? ['init', '--data', data, ...args] : init(data);
      const refused = await rowan(given, { env: { ROWAN_ADMIN_PASSWORD: args.length > 0 ? PASSWORD : '' } });
      expect(refused.code).to.be.greaterThan(0);
      expect(refused.stderr).to.match(message);
      expect(existsSync(data)).to.equal(false);
    });
  }
});

describe('cli: the command line', () => {
  it('teaches by example', async () => {
    const commands = [
      'init',
      'serve',
      'import',
      'export',
      'check',
      'repair',
      'warm',
      'index',
      'unique',
      'references',
      'number',
      'deleted',
      'explain',
      'passwd',
      'account',
      'config',
    ];
    await Promise.all(
      commands.map(async (command) => {
        const help = await rowanDoes([command, '--help']);
        expect(help.match(new RegExp(`rowan ${command} `, 'g'))?.length, command).to.be.greaterThan(1);
      }),
    );
  });

  it("shows a command's own options first, and those of every command under a heading", async () => {
    const help = await rowanDoes(['import', '--help']);
    const [, own, common] = /\nOptions:\n(.*)\n\nDirectory, HBase and schema options:\n(.*)\n\nExamples:/s.exec(help)!;
    expect(own)
      .to.include('--continue')
      .and.include('--help')
      .and.not.match(/--(?:config|data|hbase|schema)/);
    expect(common).to.include('--config').and.include('--data').and.include('--hbase-site').and.include('--schema-nis');
    expect(await rowanDoes(['serve', '--help'])).to.match(/\nOptions:\n {2}--listen /);
    expect(await rowanDoes(['schema', 'set', '--help'])).to.match(/\nOptions:\n.*--schema-folders .*\n\nDirectory,/s);
  });

  it('does not list what npm start runs', async () => {
    expect(await rowanDoes(['--help'])).not.to.contain('quickstart');
  });

  for (const [what, args, message] of [
    ['an unknown command', ['servee'], "unknown command 'servee'"],
    ['an unknown option', ['check', '--dta', 'x'], "unknown option '--dta'"],
    ['a port', ['serve', '--port', '389'], `option '--port'; "rowan serve --listen ldap://127.0.0.1:1389" names`],
    [
      'a password',
      ['init', '--suffix', 'o=x', '--admin-dn', 'o=x', '--admin-password', 'x'],
      '"rowan init --admin-password-file FILE" takes it from a file',
    ],
    [
      'a port that is none',
      ['serve', '--data', 'x', '--listen', 'ldap://127.0.0.1:99999'],
      '--listen has a bad port in "ldap://127.0.0.1:99999": 99999; the highest is 65535\n',
    ],
    [
      'an entryUUID that is none',
      ['deleted', 'restore', '1234', '--data', 'x'],
      `rowan: '1234' is neither an entryUUID nor a DN; "rowan deleted list" shows them\n`,
    ],
    [
      'a number that is none',
      ['deleted', 'purge', '--older-than', 'x'],
      "rowan: --older-than: 'x' is not a number of days\n",
    ],
    ['a choice that is none', ['init', '--access', 'x'], "rowan: --access: 'x' is none of users-read, anybody-reads, "],
    ['a missing argument', ['import', '--data', 'x'], "missing required argument 'file'"],
    ['a missing option', ['init', '--data', 'x'], "required option '--suffix <dn>'"],
    [
      'purging without saying what',
      ['deleted', 'purge', '--data', 'x'],
      "give either '--older-than <days>' or '--all'",
    ],
    [
      'restoring since a time without what is below',
      ['deleted', 'restore', '0190a3c2-5f0e-7b11-9c3f-2a4d5e6f7081', '--since', '2026-11-23', '--data', 'x'],
      "'--since' goes with '--subtree'",
    ],
    ['tables in HBase without saying which', ['hbase', 'schema'], "which HBase? give '--store hbase://"],
    ['tables in HBase of a folder', ['hbase', 'verify', '--data', 'x'], "which HBase? give '--store hbase://"],
    ['a filter that is none', ['explain', '--data', 'x', '--base', 'o=x', '(uid=x'], 'filter, at character 7'],
  ] as const) {
    it(`${what} is a usage error`, async () => {
      const ended = await rowan([...args]);
      expect(ended).to.include({ code: 2, stdout: '' });
      expect(ended.stderr).to.contain(`rowan: `).and.contain(message);
    });
  }

  it('a folder without a directory is one clear line', async () => {
    const ended = await rowan(['check', '--data', '/nowhere/at/all']);
    expect(ended).to.include({ code: 1, stdout: '' });
    expect(ended.stderr)
      .to.match(/^rowan: .*\/nowhere\/at\/all.*\n$/)
      .and.not.contain('    at ');
  });

  it('shows the stack to who debugs', async () => {
    const ended = await rowan(['check', '--data', '/nowhere/at/all'], { env: { ROWAN_DEBUG: '1' } });
    expect(ended.stderr).to.match(/\n {4}at /);
  });
});
