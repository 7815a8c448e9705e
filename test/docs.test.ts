import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { heard, LAUNCHER, rowanDoes, Sandbox, startRowan } from './cli/rowan.js';
import { needs } from './require.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const library = new URL('../src/index.js', import.meta.url).href;

const SAMPLE_URL = 'ldap://127.0.0.1:1389';
const ADA = 'uid=ada,ou=people,dc=example,dc=com';

interface Page {
  /** Relative to the project. */
  readonly path: string;
  readonly text: string;
}

interface Fence {
  readonly language: string;
  readonly body: string;
}

function allPages(): Page[] {
  const top = readdirSync(root).filter((name) => name.endsWith('.md'));
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name));
  return [...top, ...docs].sort().map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}

function page(path: string): Page {
  return { path, text: readFileSync(join(root, path), 'utf8') };
}

const FENCE = /^```(\w*)[^\n]*\n([\s\S]*?)^```/gm;

function fences({ text }: Page): Fence[] {
  return [...text.matchAll(FENCE)].map((match) => ({ language: match[1]!, body: match[2]! }));
}

/** What GitHub makes of a heading. */
function anchor(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
}

function anchors(text: string): Set<string> {
  return new Set([...text.replace(FENCE, '').matchAll(/^#{1,6} +(.+)$/gm)].map((match) => anchor(match[1]!)));
}

const LINK = /\[[^\]]*\]\(([^()\s]+)\)/g;

/** Links of a page that lead to no file, or to no heading of it. */
function brokenLinks({ path, text }: Page): string[] {
  const prose = text.replace(FENCE, '').replace(/`[^`\n]*`/g, '');
  return [...prose.matchAll(LINK)].flatMap(([, link]) => {
    if (/^[a-z][a-z0-9+.-]*:/i.test(link!)) return [];
    const [file, heading] = link!.split('#') as [string, string?];
    const target = file === '' ? path : join(dirname(path), file);
    if (relative(root, join(root, target)).startsWith('..')) return [`${path}: ${link} leaves the project`];
    if (!existsSync(join(root, target))) return [`${path}: ${link} leads to no file`];
    if (heading === undefined || anchors(page(target).text).has(heading)) return [];
    return [`${path}: ${link} leads to no heading`];
  });
}

const SOURCE_PATH = /(?<![\w/.-])(?:src|test|scripts|schema)\/[\w./-]*\w/g;

/** Files of the project that a page names and that are not there. */
function missingFiles({ path, text }: Page): string[] {
  const named = new Set(text.match(SOURCE_PATH) ?? []);
  return [...named].filter((file) => !existsSync(join(root, file))).map((file) => `${path}: ${file} does not exist`);
}

/** Command lines of a page: lines of its code blocks, continued ones joined, and code within sentences. */
function commandLines({ text }: Page): string[] {
  const blocks = text.replace(/\\\n\s*/g, '').matchAll(/^ {4}(\S.*)$/gm);
  const inline = text.replace(FENCE, '').matchAll(/`([^`\n]+)`/g);
  return [...blocks, ...inline].map((match) => match[1]!.replace(/ {2,}# .*$/, ''));
}

/** `npm …` of the pages, such as `start` and `test`. */
function npmScripts(pages: readonly Page[]): Set<string> {
  const lines = pages.flatMap(commandLines);
  const named = lines.flatMap((line) => [...line.matchAll(/\bnpm (?:run (?:-\S+ )*)?([a-z][\w:]*)/g)]);
  return new Set(named.map((match) => match[1]!).filter((name) => name !== 'ci' && name !== 'install'));
}

interface RowanCommand {
  readonly words: readonly string[];
  readonly flags: readonly string[];
}

const ROWAN =
  /(?:^|[\s|])rowan ([a-z]+(?: (?:password|totp)\b)?(?: (?:list|add|drop|restore|purge|set|show|apply|diff|history|explain|test|lock|unlock|expire|must-change|enroll|remove|revoke)\b)?)([^|`]*)/;

function rowanCommands(pages: readonly Page[]): RowanCommand[] {
  return pages.flatMap(commandLines).flatMap((line) => {
    const match = ROWAN.exec(line);
    if (!match || /^rowan [a-z]+:/.test(line) || match[1] === 'ready') return [];
    return [{ words: match[1]!.split(' '), flags: match[2]!.match(/(?<=\s)--[a-z-]+/g) ?? [] }];
  });
}

/** This process's variables without those that would steer Rowan. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('ROWAN_')));
}

function rowan(args: readonly string[], input = ''): string {
  const run = spawnSync(process.execPath, [LAUNCHER, ...args], { encoding: 'utf8', env: cleanEnvironment(), input });
  if (run.status !== 0) throw new Error(`rowan ${args.join(' ')}: ${run.stderr}`);
  return run.stdout;
}

function runSnippet(program: string, args: readonly string[], body: string): string {
  const run = spawnSync(program, args, { cwd: root, encoding: 'utf8', input: body, timeout: 60_000 });
  expect(run.stderr).to.equal('');
  expect(run.status).to.equal(0);
  return run.stdout;
}

const NODE = ['--input-type=module', '-'];

function only(found: readonly Fence[], what: string): string {
  const match = found.filter(({ body }) => body.includes(what));
  expect(match, `code blocks with ${what}`).to.have.lengthOf(1);
  return match[0]!.body;
}

describe('documents', () => {
  const pages = allPages();

  it('link to files and headings that exist', () => {
    expect(pages.flatMap(brokenLinks)).to.deep.equal([]);
  });

  it('name files that exist', () => {
    expect(pages.flatMap(missingFiles)).to.deep.equal([]);
  });

  it('that the sources name exist', () => {
    const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((n) =>
      n.endsWith('.ts'),
    );
    const named = sources.flatMap(
      (name) => readFileSync(join(root, 'src', name), 'utf8').match(/\bdocs\/[\w./-]+\.md\b/g) ?? [],
    );
    expect(named).to.include('docs/formats/packed-row.md');
    expect([...new Set(named)].filter((path) => !existsSync(join(root, path)))).to.deep.equal([]);
  });

  it('the table of decisions in architecture.md names files that exist', () => {
    const { text } = page('docs/architecture.md');
    const table = text.slice(text.indexOf('## Where is it decided'), text.indexOf('## The data, in short'));
    // A name without a folder is in the folder of the file before it.
    let folder = '';
    const named = [...table.matchAll(/`(?:src\/)?([\w./-]+)\.ts`/g)].map(([, file]) => {
      if (file!.includes('/')) folder = dirname(file!);
      return `src/${file!.includes('/') ? file : `${folder}/${file}`}.ts`;
    });
    expect(named.length).to.be.greaterThan(80);
    expect(named.filter((file) => !existsSync(join(root, file)))).to.deep.equal([]);
  });

  it('are all in the index of docs', () => {
    const index = page('docs/README.md').text;
    const left = pages
      .filter(({ path }) => path.startsWith('docs/') && path !== 'docs/README.md')
      .filter(({ path }) => !index.includes(`(${relative('docs', path)})`));
    expect(left.map(({ path }) => path)).to.deep.equal([]);
  });

  it('name npm scripts that package.json has', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: object };
    const named = npmScripts(pages);
    expect([...named]).to.include.members(['start', 'test', 'bench']);
    expect(Object.keys(scripts)).to.include.members([...named]);
  });

  it('name commands and flags that rowan has', async () => {
    const named = ['README.md', 'docs/access.md', 'docs/architecture.md', 'docs/cli.md', 'docs/passwords.md'];
    const commands = rowanCommands(named.map(page));
    expect(commands.map(({ words }) => words[0])).to.include.members(['init', 'import', 'serve', 'passwd', 'explain']);
    const wanted = [...new Set(commands.map(({ words }) => words.join(' ')))];
    const help = new Map<string, string>();
    const ask = async (): Promise<void> => {
      for (let words = wanted.pop(); words !== undefined; words = wanted.pop())
        help.set(words, await rowanDoes([...words.split(' '), '--help']));
    };
    await Promise.all([ask(), ask(), ask(), ask()]);
    for (const { words, flags } of commands) {
      const text = help.get(words.join(' '));
      expect(text).to.match(new RegExp(`^Usage: rowan ${words.join(' ')}\\b`));
      for (const flag of flags) expect(text, words.join(' ')).to.match(new RegExp(`^ +(-\\w, )?${flag}\\b`, 'm'));
    }
  });

  it('README: "A directory of your own" works line by line', async () => {
    const section = /^## A directory of your own\n\n((?: {4}.*\n)+)/m.exec(page('README.md').text)![1]!;
    const lines = section
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/\s+/));
    expect(lines.map(([npx, name, command]) => [npx, name, command])).to.deep.equal(
      ['init', 'import', 'serve'].map((command) => ['npx', 'rowan', command]),
    );
    const sandbox = new Sandbox();
    symlinkSync(join(root, 'scripts'), sandbox.path('scripts'));
    const [init, load, serve] = lines.map((words) => words.slice(2).map((word) => word.replace(/:\d+$/, ':0')));
    try {
      await rowanDoes(init!, { cwd: sandbox.folder });
      expect(await rowanDoes(load!, { cwd: sandbox.folder })).to.match(/^loaded 5 entries in /);
      const server = startRowan(serve!, { cwd: sandbox.folder });
      expect(await heard(server, ' suffixes ')).to.match(/^rowan ready: ldap:.* suffixes dc=example,dc=org$/m);
    } finally {
      await sandbox.remove();
    }
  });

  it('with mistakes are noticed', () => {
    const wrong = {
      path: 'docs/wrong.md',
      text: '[a](nothing.md) [b](README.md#nothing) [c](../../x) [d](https://e.org) `src/store/nothing.ts`, `src/store`.\n',
    };
    expect(brokenLinks(wrong)).to.deep.equal([
      'docs/wrong.md: nothing.md leads to no file',
      'docs/wrong.md: README.md#nothing leads to no heading',
      'docs/wrong.md: ../../x leaves the project',
    ]);
    expect(missingFiles(wrong)).to.deep.equal(['docs/wrong.md: src/store/nothing.ts does not exist']);
    const commands = {
      path: '',
      text: 'Run `npx rowan fly --far -x`.\n\n    npm run nothing && npx rowan index list\n',
    };
    expect(rowanCommands([commands])).to.deep.equal([
      { words: ['index', 'list'], flags: [] },
      { words: ['fly'], flags: ['--far'] },
    ]);
    expect([...npmScripts([commands])]).to.deep.equal(['nothing']);
  });
});

describe('programs in the documents', () => {
  const readme = fences(page('README.md'));
  let folder: string;
  let server: ChildProcess;
  let url: string;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-docs-'));
    const options = ['--data', join(folder, 'data'), '--listen', 'ldap://127.0.0.1:0', '--log-level', 'warn'];
    server = spawn(process.execPath, [LAUNCHER, 'quickstart', ...options], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: cleanEnvironment(),
    });
    url = await new Promise((resolve, reject) => {
      let said = '';
      server.stdout!.on('data', (data: Buffer) => {
        said += data.toString();
        const match = /listens on (\S+)/.exec(said);
        if (match) resolve(match[1]!);
      });
      server.once('exit', (code) => reject(new Error(`quickstart ended with ${code}: ${said}`)));
    });
    rowan(['passwd', '--data', join(folder, 'data'), ADA], 'correct horse');
  });

  after(async () => {
    const ended = new Promise((resolve) => server.once('exit', resolve));
    server.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true });
  });

  const served = (body: string): string => {
    expect(body).to.include(SAMPLE_URL).and.to.include(ADA);
    return body.replaceAll(SAMPLE_URL, url);
  };

  it('search with ldapts', () => {
    const body = served(only(readme, "from 'ldapts'"));
    expect(runSnippet(process.execPath, NODE, body)).to.include('bram@example.com');
  });

  it('search with ldapjs', () => {
    const body = served(only(readme, "from 'ldapjs'"));
    expect(runSnippet(process.execPath, NODE, body)).to.include('uid=bram,ou=people,dc=example,dc=com');
  });

  it('search with ldap3', function () {
    needs(this, 'python3-ldap3');
    const body = served(only(readme, 'from ldap3'));
    expect(runSnippet('/usr/bin/python3', ['-'], body)).to.include('bram@example.com');
  });

  it('embed a server and mount a partition', () => {
    const programs = fences(page('docs/embedding.md')).filter(({ language }) => language === 'js');
    expect(programs).to.have.lengthOf(2);
    for (const { body } of programs) {
      const local = body.replace("'rowan-ldap'", `'${library}'`);
      expect(local).to.include(pathToFileURL(root).href);
      expect(runSnippet(process.execPath, NODE, local)).to.match(/^ldap:\/\/127\.0\.0\.1:\d+\n$/);
    }
  });
});
