import { cpSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { RawClient } from '../server/raw-client.js';
import {
  ADMIN,
  exited,
  heard,
  LAUNCHER,
  PASSWORD,
  PEOPLE,
  PEOPLE_SCRIPT,
  run,
  Sandbox,
  SUFFIX,
  startProgram,
} from './rowan.js';
import { figures } from './workers.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const BUNDLE = join(root, 'dist/bundle/cli');
/** "rowan" under the DES crypt of old. */
const OLD_HASH = '{CRYPT}ab0iXeLhKgH2M';

/** Other tests run what the compiler made; these run what `npx rowan` does. */
describe('cli: the bundled program', () => {
  const sandbox = new Sandbox();
  after(() => sandbox.remove());

  async function rowan(args: readonly string[], input?: string): Promise<string> {
    const env = { ROWAN_ADMIN_PASSWORD: PASSWORD };
    const ended = await run(process.execPath, [LAUNCHER, ...args], { env, ...(input === undefined ? {} : { input }) });
    expect(ended.code, `rowan ${args.join(' ')}\n${ended.stderr}`).to.equal(0);
    return ended.stdout;
  }

  it('has files for its threads and processes, each beside the one that starts it', () => {
    const files = readdirSync(BUNDLE).filter((name) => /\.c?js$/.test(name));
    const started = new Set<string>();
    for (const name of files) {
      const text = readFileSync(join(BUNDLE, name), 'utf8');
      for (const [, path] of text.matchAll(/new URL\("\.\/([\w-]+\.js)",\s*(?:__url|import\.meta\.url)\)/g))
        started.add(path!);
      expect(readdirSync(BUNDLE)).to.include(`${name}.map`);
    }
    expect(started.size).to.be.at.least(4);
    expect(files).to.include.members([...started]);
  });

  it('makes, loads, checks, exports and serves a directory, with all its threads and processes', async () => {
    await rowan(['init', '--data', sandbox.data, '--suffix', SUFFIX, '--admin-dn', ADMIN]);
    const { stdout } = await run(process.execPath, [PEOPLE_SCRIPT, '3000']);
    const old = `dn: uid=old,${PEOPLE}\nobjectClass: inetOrgPerson\nuid: old\ncn: old\nsn: old\nuserPassword: ${OLD_HASH}\n`;
    await rowan(['import', '--data', sandbox.data, '-'], `${stdout}${old}`);
    expect(await rowan(['check', '--data', sandbox.data])).to.equal('no breach found\n');
    expect(await rowan(['export', '--data', sandbox.data, '--filter', '(uid=old)'])).to.contain(
      `dn: uid=old,${PEOPLE}\n`,
    );
    writeFileSync(sandbox.path('rowan.yaml'), 'listen:\n  - ldap://127.0.0.1:0\nworkers: 2\n');
    const args = ['serve', '--config', sandbox.path('rowan.yaml'), '--data', sandbox.data];
    const server = startProgram(process.execPath, [LAUNCHER, ...args]);
    const ready = await heard(server, ' suffixes ');
    const client = await RawClient.open(Number(/:(\d+) pid/.exec(ready)![1]));
    // A hash of its own program, one of a native package, an index that names so many that a thread has them, and two
    // workers.
    expect(await client.bind(`uid=old,${PEOPLE}`, 'wrong')).to.equal(49);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    for (let n = 0; n < 3; n++) {
      const filter = { type: 'equal', attribute: 'objectClass', value: Buffer.from('person') } as const;
      expect((await client.search(SUFFIX, { scope: 'sub', filter })).entries).to.have.length(3001);
    }
    expect((await figures(client)).has('worker.2.pid')).to.equal(true);
    client.close();
    server.kill('SIGTERM');
    expect(await exited(server)).to.equal(0);
  });

  it('starts with what V8 has compiled, and without it where that is of another V8', async () => {
    // Asked in a process without the flags of this one, which is as another V8.
    const question = `require('${join(dirname(LAUNCHER), 'program.cjs')}').loadProgram().script.cachedDataRejected`;
    expect((await run(process.execPath, ['-p', question])).stdout).to.equal('false\n');
    for (const name of ['dist/bundle', 'package.json', 'schema', 'scripts'])
      cpSync(join(root, name), sandbox.path(`copy/${name}`), { recursive: true });
    symlinkSync(join(root, 'node_modules'), sandbox.path('copy/node_modules'));
    writeFileSync(sandbox.path('copy/dist/bundle/cli/program.cjs.cache'), 'of no V8');
    const args = [sandbox.path('copy/scripts/rowan.cjs'), 'export', '--data', sandbox.data];
    const ended = await run(process.execPath, [...args, '--filter', '(uid=old)']);
    expect(ended).to.include({ code: 0, stderr: '' });
    expect(ended.stdout).to.contain(`dn: uid=old,${PEOPLE}\n`);
  });

  it('says where an error comes from, in the sources, when it is asked to', async () => {
    const args = ['export', '--data', sandbox.path('nowhere')];
    const { stderr } = await run(process.execPath, [LAUNCHER, ...args], { env: { ROWAN_DEBUG: '1' } });
    expect(stderr).to.match(/\/src\/cli\/[\w-]+\.ts:\d+:\d+/);
    expect(dirname(LAUNCHER)).to.equal(join(root, 'scripts'));
  });
});
