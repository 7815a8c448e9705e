import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'chai';
import type { TopFigures } from '../../src/cli/watch/top-page.js';
import { parseFilter } from '../../src/ldap/filter-text.js';
import { needs } from '../require.js';
import {
  ADA,
  ADMIN,
  exited,
  MAIN,
  PASSWORD,
  PEOPLE,
  rowan,
  Sandbox,
  SUFFIX,
  startProgram,
  startRowan,
  until,
} from './rowan.js';
import { TwoWorkers } from './workers.js';

const WATCHING = 'operations from now on';

/** Collects what a program says. */
function listen(child: ChildProcess): () => string {
  let said = '';
  for (const stream of [child.stdout!, child.stderr!])
    stream.on('data', (data: Buffer) => {
      said += data.toString();
    });
  return () => said;
}

describe('cli: rowan tail and rowan top', () => {
  const sandbox = new Sandbox();
  let two: TwoWorkers;

  before(async () => {
    await sandbox.initSample();
    two = await TwoWorkers.start(sandbox);
  });
  after(async () => {
    two.close();
    await two.server.stop();
    await sandbox.remove();
  });

  async function tail(...args: string[]): Promise<{ child: ChildProcess; said: () => string }> {
    const child = startRowan(['tail', '--data', sandbox.data, ...args]);
    const said = listen(child);
    await until(child, () => said().includes(WATCHING));
    return { child, said };
  }

  it('tail shows the operations of all workers that are asked for, to each who watches', async () => {
    const [one, other] = await two.both();
    const watchers = await Promise.all([
      tail(),
      tail('--failed', '--json'),
      tail('--op', 'search', '--base', PEOPLE, '--who', 'CN=Admin', '--client', '127.0.', '--slower-than', '0'),
    ]);
    const [all, failed, searches] = watchers;
    await one.search(ADA, { filter: parseFilter('(description=\\1b[31m)') });
    await other.search(PEOPLE, { scope: 'one' });
    await other.search(SUFFIX);
    const stranger = await two.open();
    expect(await stranger.bind(ADA, 'not her secret')).to.equal(49);
    expect(await stranger.bind(ADMIN, PASSWORD)).to.equal(0);
    await stranger.search(SUFFIX);
    for (const { child, said } of [all!, failed!])
      await until(child, () => said().includes(ADA) && said().includes('49'));
    const ofSuffix = (): string[] =>
      all!
        .said()
        .split('\n')
        .filter((line) => line.includes(` ${SUFFIX} base `));
    await until(all!.child, () => ofSuffix().length === 2);
    await until(searches!.child, () => searches!.said().includes(`${PEOPLE} one`));
    for (const { child } of watchers) child.kill('SIGINT');
    await Promise.all(watchers.map(({ child }) => exited(child)));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may reach a terminal
    for (const { said } of watchers) expect(said()).not.to.match(/[\x00-\x09\x0b-\x1f\x7f]|secret|horse/);
    const lines = failed!
      .said()
      .split('\n')
      .filter((line) => line.startsWith('{'));
    expect(lines).to.have.length(1);
    expect(JSON.parse(lines[0]!)).to.include({ err: 49, client_ip: '127.0.0.1' });
    const shown = searches!
      .said()
      .split('\n')
      .filter((line) => /^\d/.test(line));
    expect(shown).to.have.length(2);
    expect(shown[0]).to.match(/ w1 .*\(description=\\1b\[31m\)/);
    expect(shown[1]).to.contain(' w2 ');
  });

  it('top tells operations, workers, clients and slow searches, with no value of a filter', async () => {
    const [one, other] = await two.both();
    const top = rowan(['top', '--data', sandbox.data, '--once', '--json']);
    let hasEnded = false;
    void top.then(() => {
      hasEnded = true;
    });
    while (!hasEnded) {
      await one.search(SUFFIX, { scope: 'sub', filter: parseFilter('(description=*whereabouts*)') });
      await other.search(ADA);
    }
    const { stdout } = await top;
    const figures = JSON.parse(stdout) as TopFigures;
    expect(stdout).not.to.contain('whereabouts');
    const [kind] = figures.kinds;
    expect(kind!.op).to.equal('search');
    expect(kind!.highestMs >= kind!.meanMs).to.equal(true);
    expect(figures.workers.map(({ worker }) => worker)).to.deep.equal([1, 2]);
    expect(figures.clients).to.have.length(1);
    expect(figures.clients[0]).to.include({ address: '127.0.0.1', boundAs: ADMIN });
    const slow = figures.slowSearches.find(({ shape }) => shape === '(description=*?*)')!;
    expect(slow).to.include({ base: SUFFIX, scope: 'sub', plan: 'table' });
    expect(slow.advice).to.contain('rowan index add description --substring');
  });

  it('top draws a page on a terminal and gives it back as it was', async function () {
    needs(this, 'script');
    for (const key of ['q', '\x03']) {
      const command = `stty cols 60 rows 8; "${process.execPath}" "${MAIN}" top --data "${sandbox.data}"`;
      const child = startProgram('script', ['-qec', command, '/dev/null']);
      const said = listen(child);
      await until(child, () => said().includes('OPERATION'));
      const closed = once(child, 'close');
      child.stdin!.write(key);
      expect((await closed)[0]).to.equal(0);
      const [before, page] = said().split('\x1b[?1049h\x1b[?25l');
      expect(before).to.equal('');
      expect(page!.endsWith('\x1b[?25h\x1b[?1049l')).to.equal(true);
      const [drawn] = page!.split('\x1b[J');
      expect(drawn!.split('\n')).to.have.length(8);
    }
  });

  it('says what is wrong: no server, a base that is no DN, an unknown kind', async () => {
    const bad = await rowan(['tail', '--data', sandbox.data, '--base', 'nothing']);
    expect(bad.code).to.equal(1);
    expect(bad.stderr).to.match(/^rowan: --base nothing: ./);
    expect((await rowan(['tail', '--data', sandbox.data, '--op', 'read'])).code).to.equal(2);
    const nowhere = await rowan(['top', '--data', sandbox.folder]);
    expect(nowhere.stderr).to.match(/^rowan: no server answers/);
  });
});
