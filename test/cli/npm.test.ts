import { spawn } from 'node:child_process';
import { cpSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { exited, LAUNCHER, MAIN, run, Sandbox, startProgram, until } from './rowan.js';
import { lives } from './workers.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const LISTEN = ['--listen', 'ldap://127.0.0.1:0'];

/** Runs the program in the project until a server has said its pid in its log or its line; that pid. */
async function serverOf(
  program: string,
  args: readonly string[],
  env: Record<string, string>,
): Promise<[number, number]> {
  const child = startProgram(program, args, { cwd: root, env });
  let said = '';
  child.stdout?.on('data', (data: Buffer) => (said += data));
  child.stderr?.on('data', (data: Buffer) => (said += data));
  const pid = (): number => Number(/ pid (\d+)/.exec(said)?.[1] ?? 0);
  try {
    await until(child, () => pid() > 0);
  } catch (error) {
    throw new Error(`${program} ${args.join(' ')}: ${said}`, { cause: error });
  }
  return [child.pid!, pid()];
}

async function ends(pid: number): Promise<void> {
  while (lives(pid)) await sleep(10);
}

describe('cli: started by npm', () => {
  const sandbox = new Sandbox();
  const env = (): Record<string, string> => ({ npm_config_cache: sandbox.path('npm') });

  before(() => sandbox.initSample());
  after(() => sandbox.remove());

  for (const signal of ['SIGTERM', 'SIGKILL'] as const)
    it(`npx rowan serve, ended by ${signal}, ends the server`, async () => {
      const args = ['--offline', 'rowan', 'serve', '--data', sandbox.data, ...LISTEN];
      const [npx, server] = await serverOf('npx', args, env());
      expect(server).not.to.equal(npx);
      process.kill(npx, signal);
      await ends(server);
    });

  it('a server in the background of a script outlives it', async () => {
    // The other one, of a script without a background, watches and ends: by then this one would have, too.
    const script = `npm_lifecycle_script='rowan serve --data data' "$0" "$1" serve --data "$3" ${LISTEN.join(' ')} &
      "$0" "$1" serve --data "$2" ${LISTEN.join(' ')} & while read line; do :; done`;
    cpSync(sandbox.data, sandbox.path('other'), { recursive: true });
    const child = spawn('sh', ['-c', script, process.execPath, MAIN, sandbox.data, sandbox.path('other')], {
      stdio: 'pipe',
      env: { ...process.env, npm_lifecycle_script: 'rowan serve --data data & wait-for-it' },
    });
    let said = '';
    child.stdout.on('data', (data: Buffer) => (said += data));
    const pids = (): number[] => [...said.matchAll(/ pid (\d+) /g)].map(([, pid]) => Number(pid));
    await until(child, () => pids().length === 2);
    child.stdin.end();
    await exited(child);
    while (pids().every(lives)) await sleep(10);
    const [server, none] = pids().filter(lives);
    expect(none).to.equal(undefined);
    expect(readFileSync(`/proc/${server}/cmdline`, 'latin1').split('\0')).to.include(sandbox.data);
    process.kill(server!, 'SIGTERM');
    await ends(server!);
  });
});

describe('cli: a checkout', () => {
  const sandbox = new Sandbox();
  after(() => sandbox.remove());

  it('that has no packages yet is told to get them by npm start', async () => {
    for (const file of ['package.json', 'scripts/rowan.cjs', 'src/cli/main.ts'])
      cpSync(`${root}${file}`, sandbox.path(file));
    const env = { npm_config_cache: sandbox.path('npm') };
    const ended = await run('npm', ['start', '--silent'], { cwd: sandbox.folder, env });
    expect(ended).to.deep.equal({
      code: 1,
      stdout: '',
      stderr: 'rowan: not compiled yet, and the compiler is not installed; run "npm ci" first\n',
    });
  });

  it('says of each package with a script of its own whether npm may run it', () => {
    const read = (file: string): unknown => JSON.parse(readFileSync(`${root}${file}`, 'utf8'));
    const { packages } = read('package-lock.json') as { packages: Record<string, { hasInstallScript?: boolean }> };
    const { allowScripts } = read('package.json') as { allowScripts: Record<string, boolean> };
    const scripted = Object.keys(packages).filter((path) => packages[path]!.hasInstallScript);
    expect(Object.keys(allowScripts)).to.have.members(scripted.map((path) => path.replace(/^.*node_modules\//, '')));
  });
});

describe('cli: the launcher', () => {
  const { engines } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { engines: { node: string } };

  it('says in one line that Node is too old', async () => {
    const pretend = (version: string): string => {
      const code = `Object.defineProperty(process.versions, 'node', { value: '${version}' })`;
      return `data:text/javascript,${encodeURIComponent(code)}`;
    };
    for (const version of ['12.22.12', '20.11.1']) {
      const ended = await run(process.execPath, ['--import', pretend(version), LAUNCHER, '--version']);
      expect(ended).to.deep.equal({
        code: 1,
        stdout: '',
        stderr: `rowan: Rowan needs Node.js ${engines.node.replace('>=', '')} or later; this is ${version}\n`,
      });
    }
    for (const version of ['20.12.0', '22.1.0'])
      expect((await run(process.execPath, ['--import', pretend(version), LAUNCHER, '--version'])).code).to.equal(0);
  });

  it('has no syntax that Node 12 cannot parse', () => {
    const text = readFileSync(LAUNCHER, 'utf8');
    // Optional chaining, defaults of null, assignments by logic, private names, awaits and imports of a module.
    expect(text).not.to.match(/\?\.|\?\?|\|\|=|&&=|this\.#|^\s*await |^import |^export /m);
    expect(text.indexOf('isOldNode()')).to.be.lessThan(text.indexOf("require('node:"));
  });
});
