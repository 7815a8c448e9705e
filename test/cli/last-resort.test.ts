import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { exited, heard, rowan, Sandbox, startRowan, until } from './rowan.js';

describe('cli: what nobody caught', () => {
  const sandbox = new Sandbox();
  let thrower: string;

  before(async () => {
    await sandbox.initSample();
    thrower = join(sandbox.folder, 'thrower.mjs');
    writeFileSync(
      thrower,
      `process.on('SIGUSR2', () => { throw new Error('out of the blue' + ' '.repeat(process.env.BLANKS ?? 0) + '.'); });
       process.on('SIGPIPE', () => void Promise.reject(new Error('unheard')));
       if (process.env.THROW) {
         const timer = setInterval(() => {
           if (process.listenerCount('uncaughtException') === 0) return;
           clearInterval(timer);
           throw new Error('out of the blue');
         }, 20);
       }`,
    );
  });
  after(() => sandbox.remove());

  const options = (env: Readonly<Record<string, string>> = {}) => ({
    env: { NODE_OPTIONS: `--import=${pathToFileURL(thrower).href}`, ...env },
  });

  for (const [signal, text] of [
    ['SIGUSR2', 'out of the blue'],
    ['SIGPIPE', 'unheard'],
  ] as const) {
    it(`ends a server with a line in its log: ${text}`, async () => {
      const child = startRowan(
        ['serve', '--data', sandbox.data, '--listen', 'ldap://127.0.0.1:0', '--log-format', 'json'],
        options(),
      );
      await heard(child, 'rowan ready');
      const said = heard(child, 'uncaught error');
      child.kill(signal);
      const line = JSON.parse((await said).trim().split('\n').at(-1)!) as { level: number; err: { stack: string } };
      expect(line.level).to.equal(60);
      expect(line.err.stack).to.contain(text).and.to.contain('thrower.mjs');
      expect(await exited(child)).to.equal('SIGKILL');
      // Nothing is left behind that would keep the next one from the folder.
      expect((await rowan(['check', '--data', sandbox.data])).code).to.equal(0);
    });
  }

  it('ends a command with its stack on the standard error', async () => {
    // Its standard input stays open: without the error it would wait for ever. The exit code is kept until it opens the
    // directory for writing.
    const child = startRowan(['import', '--data', sandbox.data, '-'], options({ THROW: '1' }));
    expect(await heard(child, 'out of the blue\n')).to.match(/^rowan: unexpected error: Error: out of the blue$/m);
    expect(await exited(child)).to.be.oneOf([1, 'SIGKILL']);
  });

  for (const isRead of [true, false])
    it(`ends a server whose report is longer than a pipe holds and ${isRead ? 'is' : 'is not'} read`, async () => {
      const args = ['serve', '--data', sandbox.data, '--listen', 'ldap://127.0.0.1:0'];
      const child = startRowan(args, options({ BLANKS: '300000' }));
      let [ready, report] = ['', ''];
      child.stdout!.on('data', (data: Buffer) => {
        ready += data;
      });
      await until(child, () => ready.includes(' suffixes '));
      if (isRead)
        child.stderr!.on('data', (data: Buffer) => {
          report += data;
        });
      const end = once(child, isRead ? 'close' : 'exit');
      child.kill('SIGUSR2');
      expect(await end).to.deep.equal([null, 'SIGKILL']);
      if (isRead) expect(report).to.match(/FATAL an uncaught error .*\n.*out of the blue {300000}\.\n.*thrower\.mjs/);
    });

  it('ends a command that only reads when the reader of its output is gone; a server goes on', async () => {
    const exporting = startRowan(['export', '--data', sandbox.data]);
    exporting.stdout!.destroy();
    expect(await exited(exporting)).to.equal(0);
    const args = ['serve', '--data', sandbox.data, '--listen', 'ldap://127.0.0.1:0'];
    const serving = startRowan(args, { env: { NOTIFY_SOCKET: sandbox.path('nowhere') } });
    serving.stdout!.destroy();
    // Said after the line on standard output.
    await heard(serving, 'could not be told READY=1');
    serving.kill('SIGTERM');
    expect(await exited(serving)).to.equal(0);
  });
});
