import { once } from 'node:events';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { exited, MAIN, PEOPLE_SCRIPT, rowan, rowanDoes, run, Sandbox, startRowan, until } from './rowan.js';

describe('cli: export --output', () => {
  const sandbox = new Sandbox();
  before(() => sandbox.initSample());
  after(() => sandbox.remove());

  const modeOf = (path: string): number => statSync(path).mode & 0o777;
  const exportTo = (path: string): Promise<string> => rowanDoes(['export', '--data', sandbox.data, '--output', path]);

  it('makes a file that was there readable for its owner only, and replaces all of it', async () => {
    const path = sandbox.path('old.ldif');
    writeFileSync(path, 'x'.repeat(1_000_000));
    chmodSync(path, 0o644);
    await exportTo(path);
    expect(modeOf(path)).to.equal(0o600);
    expect(readFileSync(path, 'utf8')).to.equal(await rowanDoes(['export', '--data', sandbox.data]));
  });

  it('follows a symbolic link', async () => {
    const [path, link] = [sandbox.path('target.ldif'), sandbox.path('link.ldif')];
    writeFileSync(path, '');
    chmodSync(path, 0o664);
    symlinkSync(path, link);
    await exportTo(link);
    expect(modeOf(path)).to.equal(0o600);
    expect(readFileSync(path, 'utf8')).to.match(/^version: 1\n/);
    const [later, ahead] = [sandbox.path('later.ldif'), sandbox.path('ahead.ldif')];
    symlinkSync('later.ldif', ahead);
    await exportTo(ahead);
    expect(readFileSync(later, 'utf8')).to.equal(readFileSync(path, 'utf8'));
  });

  it('writes to pipes and devices as they are', async () => {
    const mode = modeOf('/dev/null');
    await exportTo('/dev/null');
    expect(modeOf('/dev/null')).to.equal(mode);
    const script = '"$0" "$1" export --data "$2" --output /dev/stdout | cat';
    const { code, stdout } = await run('sh', ['-c', script, process.execPath, MAIN, sandbox.data]);
    expect(code).to.equal(0);
    expect(stdout)
      .to.match(/^version: 1\n/)
      .and.match(/\nexported 21 entries to \/dev\/stdout\n$/);
  });

  it('names the file that cannot be written', async () => {
    const full = await rowan(['export', '--data', sandbox.data, '--output', '/dev/full']);
    expect(full).to.include({ code: 1, stderr: 'rowan: /dev/full: no room left on the device\n' });
    const path = sandbox.path('none/x.ldif');
    const none = await rowan(['export', '--data', sandbox.data, '--output', path]);
    expect(none).to.include({ code: 1, stderr: `rowan: ${path}: no such file or folder\n` });
  });
});

describe('cli: an export that does not come to its end', () => {
  const sandbox = new Sandbox();
  const folder = (): string => sandbox.path('out');
  const path = (): string => sandbox.path('out/all.ldif');
  const words = (): string[] => ['export', '--data', sandbox.data, '--even-if-damaged', '--output', path()];
  const parts = (): string[] => readdirSync(folder()).filter((name) => name !== 'all.ldif');

  before(async () => {
    await sandbox.init();
    const { stdout } = await run(process.execPath, [PEOPLE_SCRIPT, '10000']);
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: stdout });
    mkdirSync(folder());
  });
  beforeEach(() => writeFileSync(path(), 'what was there\n'));
  after(() => sandbox.remove());

  const expectUntouched = (): void => {
    expect(readFileSync(path(), 'utf8')).to.equal('what was there\n');
    expect(parts()).to.deep.equal([]);
  };

  it('as there is no room leaves the file that was there, and no other', async () => {
    const limited = ['-c', 'ulimit -f 1000; exec "$0" "$@"', process.execPath, MAIN, ...words()];
    const ended = await run('sh', limited);
    expect(ended.code).to.equal(1);
    expect(ended.stderr).to.match(/^rowan: .*all\.ldif.*$/m);
    expect(ended.stdout).to.equal('');
    expectUntouched();
  });

  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    it(`by ${signal} does so, too, and says it`, async () => {
      const child = startRowan(words());
      let said = '';
      child.stderr!.on('data', (data: Buffer) => {
        said += data.toString();
      });
      const closed = once(child, 'close');
      await until(child, () => parts().length > 0);
      child.kill(signal);
      expect(await closed).to.deep.equal([null, signal]);
      expect(said).to.contain(`rowan: interrupted; ${path()} is not written`);
      expectUntouched();
    });

  it('by kill -9 leaves a part that is told by its name, and that the next one removes', async () => {
    const child = startRowan(words());
    await until(child, () => parts().length > 0);
    child.kill('SIGKILL');
    expect(await exited(child)).to.equal('SIGKILL');
    expect(parts()).to.deep.equal([`all.ldif.${child.pid}.part`]);
    expect(readFileSync(path(), 'utf8')).to.equal('what was there\n');
    // One of a process that lives, and others.
    const others = [`all.ldif.${process.pid}.part`, 'all.ldif.x.part', `all-ldif.${child.pid}.part`];
    for (const name of others) writeFileSync(sandbox.path(`out/${name}`), '');
    await rowanDoes(words());
    expect(parts()).to.have.members(others);
    expect(readFileSync(path(), 'utf8').match(/^dn: uid=/gm)).to.have.length(10_000);
  });
});
