import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('../../', import.meta.url));
const source = join(root, 'src');

/** Rooms that each room may import from, itself aside; packages are listed apart. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  bytes: [],
  cache: [],
  fair: [],
  ldap: [],
  store: ['bytes', 'cache'],
  schema: ['bytes', 'cache', 'ldap'],
  protocol: ['ldap'],
  ldif: ['bytes', 'ldap', 'schema'],
  password: ['cache', 'fair'],
  partition: ['bytes', 'cache', 'fair', 'ldap', 'schema', 'store'],
  jobs: ['partition', 'store'],
  replica: ['ldap', 'partition', 'protocol', 'store'],
  access: ['bytes', 'cache', 'ldap', 'schema', 'store', 'partition'],
  records: ['cache', 'ldap', 'ldif', 'partition', 'password', 'schema', 'server'],
  dropfolder: ['access', 'ldap', 'ldif', 'partition', 'password', 'records', 'schema', 'server', 'store'],
  server: [
    ...['access', 'bytes', 'cache', 'fair', 'jobs', 'ldif', 'protocol', 'partition', 'replica', 'schema', 'password'],
    'ldap',
  ],
  cli: [
    ...[
      'access',
      'cache',
      'fair',
      'dropfolder',
      'jobs',
      'server',
      'partition',
      'records',
      'replica',
      'store',
      'schema',
      'ldif',
      'password',
    ],
    ...['protocol', 'ldap'],
  ],
};

/** Packages that only these rooms may import. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  lmdb: ['store'],
  hbase: ['store'],
  saxes: ['store'],
  ldapjs: ['server'],
  asn1js: ['protocol'],
  '@node-rs/argon2': ['password'],
  '@zxcvbn-ts/core': ['password'],
  '@zxcvbn-ts/language-common': ['password'],
  bcryptjs: ['password'],
  'unix-crypt-td-js': ['password'],
  uuid: ['partition'],
  commander: ['cli'],
  croner: ['jobs'],
  'cli-progress': ['cli'],
  'prom-client': ['cli'],
  '@opentelemetry/api': ['server'],
  diff: ['cli'],
  'csv-parse': ['dropfolder'],
  yaml: ['access', 'cli', 'dropfolder'],
  pino: ['server', 'cli', 'dropfolder'],
};

/**
 * Folders with sub-folders: each may import from those that are named, and from the files beside it in the outer
 * folder. Not from folders that are not named here.
 */
const FOLDERS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  store: { memory: [], lmdb: [], hbase: [] },
  'store/lmdb': {
    record: [],
    file: ['record'],
    rows: ['file', 'record'],
    lists: ['file', 'record', 'rows'],
    read: ['file', 'lists', 'record', 'rows'],
    write: ['file', 'lists', 'record', 'rows'],
    ingest: ['file', 'lists', 'record', 'rows', 'write'],
  },
  'store/hbase': { rpc: [], filter: ['rpc'], schema: ['rpc'], journal: ['rpc', 'schema'] },
  partition: {
    model: [],
    feed: ['model'],
    tree: ['model'],
    read: ['model', 'tree'],
    history: ['model', 'feed', 'tree', 'read'],
    groups: ['model', 'tree', 'read'],
    references: ['model', 'tree', 'read', 'groups', 'write'],
    write: ['model', 'tree'],
    index: ['model', 'write'],
    bulk: ['model', 'tree', 'write'],
    values: ['model', 'tree', 'write'],
    upkeep: ['model', 'tree', 'feed', 'write', 'index'],
  },
  'partition/read': {
    order: [],
    filter: [],
    plan: ['filter'],
    run: ['filter', 'order', 'plan'],
  },
  'partition/upkeep': { check: [] },
  access: { 'from-slapd': [] },
  server: {
    words: [],
    settings: [],
    listen: ['settings'],
    entry: ['words'],
    observation: [],
    processes: ['observation', 'settings', 'words'],
    passwords: ['processes', 'settings'],
    virtual: ['entry', 'processes', 'settings', 'words'],
    services: ['entry', 'observation', 'passwords', 'processes', 'settings', 'virtual', 'words'],
    logs: ['observation', 'processes', 'services', 'settings', 'words'],
    request: ['entry', 'observation', 'passwords', 'services', 'words'],
    operations: [
      'entry',
      'observation',
      'passwords',
      'processes',
      'request',
      'services',
      'settings',
      'virtual',
      'words',
    ],
    long: ['entry', 'observation', 'operations', 'processes', 'request', 'services', 'settings', 'words'],
    connection: ['entry', 'long', 'observation', 'operations', 'processes', 'request', 'services', 'settings', 'words'],
    watch: ['logs', 'observation', 'processes', 'services'],
    mount: ['connection', 'entry', 'operations', 'request', 'services', 'settings', 'words'],
  },
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

/** The file that a relative import means, below `src`. */
function targetOf({ file, target }: Import): string {
  return relative(source, join(dirname(join(source, file)), target)).replace(/\.js$/, '.ts');
}

/**
 * One circle of files, type imports included, that import one another, the first again at its end; undefined where
 * there is none.
 */
function circleIn(graph: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (file: string): string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return undefined;
    path.push(file);
    for (const next of graph.get(file) ?? []) {
      const found = visit(next);
      if (found) return found;
    }
    path.pop();
    done.add(file);
    return undefined;
  };
  for (const file of graph.keys()) {
    const found = visit(file);
    if (found) return found;
  }
  return undefined;
}

/** What is wrong with an import between sub-folders of one folder, or undefined. */
function objectionToFolder(file: string, to: string): string | undefined {
  for (const [folder, arrows] of Object.entries(FOLDERS)) {
    const [from, target] = [file, to].map((path) => subFolder(folder, path));
    if (from === undefined || target === undefined || from === target) continue;
    const allowed = arrows[from];
    if (!allowed) return `${folder}/${from} is not in the list of folders`;
    if (!allowed.includes(target)) return `${folder}/${from} may not import ${folder}/${target}`;
  }
  return undefined;
}

/** The sub-folder of `folder` in which a file lies; undefined beside them, and elsewhere. */
function subFolder(folder: string, path: string): string | undefined {
  if (!path.startsWith(`${folder}/`)) return undefined;
  const [name, more] = path.slice(folder.length + 1).split('/');
  return more === undefined ? undefined : name;
}

/** The arrows of a drawing in `docs/architecture.md`: what each folder imports, as it is drawn. */
function drawnArrows(lines: readonly string[]): Map<string, Set<string>> {
  const arrows = new Map<string, Set<string>>();
  /** Behind a fork, by its column. */
  const forks = new Map<number, readonly string[]>();
  for (const line of lines) {
    let left: readonly string[] = [];
    let targets: readonly string[] = [];
    for (const { 0: token, index } of line.matchAll(/[a-z]+(?:, [a-z]+)*|[◄┬├└]/g)) {
      if (token === '◄') targets = left;
      else if (token === '┬') forks.set(index, targets);
      else if (token === '├' || token === '└') targets = forks.get(index)!;
      else {
        left = token.split(', ');
        for (const name of left) arrows.set(name, new Set([...(arrows.get(name) ?? []), ...targets]));
        targets = [];
      }
    }
  }
  return arrows;
}

/** All that can be come to along arrows. */
function reached(arrows: ReadonlyMap<string, ReadonlySet<string>>, from: string): Set<string> {
  const found = new Set<string>();
  for (const next of arrows.get(from) ?? []) {
    found.add(next);
    for (const far of reached(arrows, next)) found.add(far);
  }
  return found;
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

  it('make no circles', () => {
    const graph = new Map<string, string[]>();
    for (const one of files.flatMap(importsOf)) {
      if (one.target.startsWith('.')) graph.set(one.file, [...(graph.get(one.file) ?? []), targetOf(one)]);
    }
    expect(circleIn(graph)).to.equal(undefined);
  });

  it('follow the arrows between sub-folders', () => {
    const wrong = files.flatMap(importsOf).flatMap((one) => {
      const why = one.target.startsWith('.') && objectionToFolder(one.file, targetOf(one));
      return why ? [`${one.file}: '${one.target}': ${why}`] : [];
    });
    expect(wrong).to.deep.equal([]);
  });

  const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8').split('\n');
  for (const room of ['partition', 'server', 'store/lmdb', 'store/hbase']) {
    it(`between the folders of ${room} are drawn in docs/architecture.md`, () => {
      const first = page.findIndex((line) => line.startsWith(`    ${room} `) && line.includes('◄'));
      const end = page.indexOf('', first);
      const lines = page.slice(first, end).map((line) => line.replace(`    ${room} `, ' '.repeat(room.length + 5)));
      const drawn = drawnArrows(lines);
      expect([...drawn.keys()].sort()).to.deep.equal(Object.keys(FOLDERS[room]!).sort());
      for (const [folder, targets] of Object.entries(FOLDERS[room]!)) {
        expect([...reached(drawn, folder)], `${folder}, as drawn`).to.include.members([...targets]);
        expect(targets, `${folder}, as allowed`).to.include.members([...drawn.get(folder)!]);
      }
    });
  }

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
    expect(objectionToFolder('store/lmdb/file/pages.ts', 'store/lmdb/rows/segments.ts')).to.equal(
      'store/lmdb/file may not import store/lmdb/rows',
    );
    expect(objectionToFolder('store/lmdb/new/pages.ts', 'store/lmdb/rows/segments.ts')).to.equal(
      'store/lmdb/new is not in the list of folders',
    );
  });

  it('that make a circle are noticed', () => {
    const straight = new Map([
      ['a', ['b', 'c']],
      ['b', ['c']],
    ]);
    expect(circleIn(straight)).to.equal(undefined);
    expect(circleIn(new Map([...straight, ['c', ['d']], ['d', ['b']]]))).to.deep.equal(['b', 'c', 'd', 'b']);
  });
});
