import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('../../', import.meta.url));
const source = join(root, 'src');

/** Rooms that each room may import from, itself aside; packages are listed apart. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  ldap: [],
  store: [],
  schema: ['ldap'],
  protocol: ['ldap'],
  ldif: ['ldap', 'schema'],
  password: [],
  partition: ['ldap', 'schema', 'store'],
  server: ['protocol', 'partition', 'schema', 'password', 'ldap'],
  cli: ['server', 'partition', 'store', 'schema', 'ldif', 'password', 'protocol', 'ldap'],
};

/** Packages that only these rooms may import. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  lmdb: ['store'],
  hbase: ['store'],
  ldapjs: ['server'],
  asn1js: ['protocol'],
  '@node-rs/argon2': ['password'],
  bcryptjs: ['password'],
  'unix-crypt-td-js': ['password'],
  uuid: ['partition'],
  commander: ['cli'],
  'cli-progress': ['cli'],
  yaml: ['cli'],
  pino: ['server', 'cli'],
};

interface Import {
  readonly file: string;
  readonly room: string;
  readonly target: string;
}

function* sourceFiles(): Generator<string> {
  for (const name of readdirSync(source, { recursive: true, encoding: 'utf8' })) {
    if (name.endsWith('.ts')) yield join(source, name);
  }
}

const SPECIFIER = /^(?:import|export)\s(?:[^'";]*?\sfrom\s+)?'([^']+)'|\bimport\(\s*'([^']+)'\s*\)/gm;

function importsOf(file: string): Import[] {
  const path = relative(source, file);
  const room = path.includes(sep) ? path.split(sep)[0]! : '';
  return [...readFileSync(file, 'utf8').matchAll(SPECIFIER)].map((match) => ({
    file: path,
    room,
    target: (match[1] ?? match[2])!,
  }));
}

/** What is wrong with an import, or undefined. */
function objection({ file, room, target }: Import): string | undefined {
  if (target.startsWith('node:')) return undefined;
  if (target.startsWith('.')) return objectionToRoom(file, room, target);
  const name = target
    .split('/')
    .slice(0, target.startsWith('@') ? 2 : 1)
    .join('/');
  const rooms = PACKAGES[name];
  if (!rooms) return `package ${name} is in no room's list`;
  return rooms.includes(room) ? undefined : `package ${name} belongs to ${rooms.join(', ')}`;
}

function objectionToRoom(file: string, room: string, target: string): string | undefined {
  const path = relative(source, join(dirname(join(source, file)), target));
  if (path.startsWith('..')) return 'leaves src';
  const to = path.includes(sep) ? path.split(sep)[0]! : '';
  if (to === room || room === '') return undefined;
  return ALLOWED[room]?.includes(to) ? undefined : `${room} may not import ${to || 'src/index'}`;
}

describe('imports', () => {
  const files = [...sourceFiles()];

  it('point only the allowed way', () => {
    const wrong = files.flatMap(importsOf).flatMap((one) => {
      const why = objection(one);
      return why ? [`${one.file}: '${one.target}': ${why}`] : [];
    });
    expect(wrong).to.deep.equal([]);
  });

  it('are found where there are some', () => {
    const rooms = new Set(files.flatMap(importsOf).map((one) => one.room));
    expect([...rooms]).to.include.members(['partition', 'schema', 'store']);
  });

  it('of a wrong kind are noticed', () => {
    expect(objection({ file: 'store/row.ts', room: 'store', target: '../ldap/error.js' })).to.equal(
      'store may not import ldap',
    );
    expect(objection({ file: 'server/server.ts', room: 'server', target: '../cli/main.js' })).to.equal(
      'server may not import cli',
    );
    expect(objection({ file: 'schema/load.ts', room: 'schema', target: 'lmdb' })).to.equal(
      'package lmdb belongs to store',
    );
    expect(objection({ file: 'cli/main.ts', room: 'cli', target: '../../test/require.js' })).to.equal('leaves src');
  });
});
