import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { exited, heard, rowan, Sandbox, startRowan } from './rowan.js';

describe('cli: what nobody caught', () => {
  const sandbox = new Sandbox();
  let thrower: string;

  before(async () => {
    await sandbox.initSample();
    thrower = join(sandbox.folder, 'thrower.mjs');
    writeFileSync(
      thrower,
      `process.on('SIGUSR2', () => { throw new Error('out of the blue'); });
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
      expect(await exited(child)).to.equal(1);
      // Nothing is left behind that would keep the next one from the folder.
      expect((await rowan(['check', '--data', sandbox.data])).code).to.equal(0);
    });
  }

  it('ends a command with its stack on the standard error', async () => {
    // Its standard input stays open: without the error it would wait for ever.
    const child = startRowan(['import', '--data', sandbox.data, '-'], options({ THROW: '1' }));
    expect(await heard(child, 'out of the blue\n')).to.match(/^rowan: unexpected error: Error: out of the blue$/m);
    expect(await exited(child)).to.equal(1);
  });
});
