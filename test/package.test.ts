import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('../../', import.meta.url));

const PROGRAM = `import { initDirectory, mount, openLmdbStore, Partition, RowanServer, Schema, makeConfig } from 'rowan-ldap';
import ldapjs from 'ldapjs';

const schema: Schema = Schema.load();
const store = await openLmdbStore('data', { readOnly: false });
const adminPassword: Buffer = Buffer.from('{SSHA512}');
await initDirectory(store, { suffixes: ['dc=example,dc=com'], adminDn: 'cn=admin', adminPassword }, schema);
const partition = await Partition.open(store, schema);
export const mounted: void = mount(ldapjs.createServer(), partition);
export const server = (log: ConstructorParameters<typeof RowanServer>[2]) => new RowanServer(partition, makeConfig(), log);
`;
const LDAPJS = `declare module 'ldapjs' {
  const ldapjs: { createServer(): import('rowan-ldap').MountableServer };
  export default ldapjs;
}
`;

/** A program's folder with the package and nothing else than what npm installs with it. */
describe('the package that npm packs', function () {
  this.timeout(300_000);
  let folder: string;
  let installed: string;

  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-package-'));
    installed = join(folder, 'node_modules/rowan-ldap');
    mkdirSync(installed, { recursive: true });
    const packed = execFileSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], {
      cwd: root,
    });
    execFileSync('tar', ['xzf', join(folder, packed.toString().trim()), '-C', installed, '--strip-components=1']);
    const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
    };
    for (const name of [...Object.keys(dependencies), '@types/node', 'undici-types']) link(name);
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  function link(name: string): void {
    const path = join(folder, 'node_modules', name);
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(join(root, 'node_modules', name), path);
  }

  it('compiles a strict TypeScript program without skipLibCheck', () => {
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n');
    writeFileSync(join(folder, 'program.ts'), PROGRAM);
    writeFileSync(join(folder, 'ldapjs.d.ts'), LDAPJS);
    const options = { strict: true, skipLibCheck: false, module: 'nodenext', target: 'es2022', noEmit: true };
    const config = { compilerOptions: { ...options, types: ['node'] }, files: ['ldapjs.d.ts', 'program.ts'] };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    const compiled = spawnSync(process.execPath, [tsc, '-p', folder, '--pretty', 'false'], { encoding: 'utf8' });
    expect(compiled.stdout).to.equal('');
    expect(compiled.status).to.equal(0);
  });

  it('starts the command line', () => {
    const version = execFileSync(process.execPath, [join(installed, 'scripts/rowan.cjs'), '--version']).toString();
    const { version: own } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    expect(version).to.include(own);
  });

  it('holds the files to which its README links, and neither benchmarks nor the test runner', () => {
    const readme = readFileSync(join(installed, 'README.md'), 'utf8');
    const links = [...readme.matchAll(/\]\(([^():#\s]+)(?:#[^)\s]*)?\)/g)].map((match) => match[1]!);
    expect(links.length).to.be.greaterThan(10);
    expect(links.filter((path) => !existsSync(join(installed, path)))).to.deep.equal([]);
    const others = ['scripts/bench', 'scripts/load', 'scripts/test.mjs', 'scripts/test-lane.mjs', 'test', 'dist/test'];
    expect(others.filter((path) => existsSync(join(installed, path)))).to.deep.equal([]);
  });
});
