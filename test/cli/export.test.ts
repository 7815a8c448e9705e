import { chmodSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { MAIN, rowan, rowanDoes, run, Sandbox } from './rowan.js';

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
