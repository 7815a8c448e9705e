import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { Client, UnavailableError } from 'ldapts';
import { needs } from '../require.js';
import { ADMIN, heard, MAIN, PASSWORD, type RunningServer, run, Sandbox, SUFFIX, serve } from './rowan.js';

/** Bytes of the file system, and of the file that is removed later. */
const [SIZE, FILLER] = [12 << 20, 8 << 20];
const RAW = /^(?:Write error: No space left on device position \d+, size \d+)+$/;

describe('cli: a directory on a file system that is mounted read-only', () => {
  const sandbox = new Sandbox();
  after(() => sandbox.remove());

  it('can be read, and a command that writes says what is wrong', async function () {
    needs(this, 'small-disk');
    await sandbox.initSample();
    const inside = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"';
    const onReadOnly = (...args: string[]) =>
      run('unshare', [
        '-rm',
        'sh',
        '-c',
        inside,
        sandbox.data,
        process.execPath,
        MAIN,
        ...args,
        '--data',
        sandbox.data,
      ]);
    expect((await onReadOnly('export')).stdout).to.match(/^dn: dc=example/m);
    const said = 'is on a file system that is mounted read-only; mount it for writing';
    expect(await onReadOnly('index', 'add', 'title')).to.deep.equal({
      code: 1,
      stdout: '',
      stderr: `rowan: ${sandbox.data} ${said}\n`,
    });
    expect((await onReadOnly('export', '--output', `${sandbox.data}/all.ldif`)).stderr).to.equal(
      `rowan: ${sandbox.data}: its file system is mounted read-only\n`,
    );
  });
});

for (const workers of ['1', '2'])
  describe(`cli: a server of ${workers} processes whose disk is full`, () => {
    const sandbox = new Sandbox();
    let server: RunningServer;
    let log = '';

    before(async function () {
      needs(this, 'small-disk');
      await sandbox.initSample();
      const disk = sandbox.path('disk');
      mkdirSync(disk);
      // The server alone sees the small file system.
      const program = sandbox.path('on-small-disk');
      const inside = [
        `mount -t tmpfs -o size=${SIZE} tmpfs "$DISK" && cp -r "$DISK/../data" "$DISK/data"`,
        `head -c ${FILLER} /dev/zero > "$DISK/filler" && exec "$NODE" "$@"`,
      ].join(' && ');
      writeFileSync(program, `#!/bin/sh\nexec unshare -rm sh -c '${inside}' sh "$@"\n`, { mode: 0o700 });
      server = await serve(
        `${disk}/data`,
        ['--workers', workers, '--log-format', 'json', '--access-log-output', 'stderr'],
        {
          node: program,
          env: { DISK: disk, NODE: process.execPath },
        },
      );
      server.process.stderr!.on('data', (text: Buffer) => {
        log += text.toString();
      });
    });
    after(() => sandbox.remove());

    it('says so once, and once that it can write again; what LMDB prints touches no line of the log', async () => {
      const [admin, guesser] = [new Client({ url: server.url }), new Client({ url: server.url })];
      await admin.bind(ADMIN, PASSWORD);
      let count = 0;
      const add = (length: number) =>
        admin.add(`cn=p${count++},${SUFFIX}`, { objectClass: 'person', sn: 'x', description: 'x'.repeat(length) });
      const fill = async (length: number): Promise<void> => {
        for (;;) await add(length);
      };
      for (const length of [20_000, 5_000, 100])
        await fill(length).catch((error: unknown) => expect(error).to.be.instanceOf(UnavailableError));
      for (let n = 0; n < 40; n++) {
        const bind = guesser.bind(ADMIN, '').catch(() => undefined);
        await add(100 + 500 * n).catch((error: unknown) => expect(error).to.be.instanceOf(UnavailableError));
        await bind;
        await guesser.bind(ADMIN, '').catch(() => undefined);
      }
      rmSync(`/proc/${server.process.pid}/root${sandbox.path('disk')}/filler`);
      const again = heard(server.process, 'the disk has room again');
      await add(100);
      await again;
      await Promise.all([admin.unbind(), guesser.unbind()]);
      await server.stop();
      const lines = log.split('\n').filter((line) => line !== '' && !RAW.test(line));
      const told = lines.map((line) => JSON.parse(line) as { level?: number; msg?: string; folder?: string });
      expect(told.filter(({ msg }) => msg?.startsWith('failed bind'))).to.have.length.above(9);
      const ours = told.filter(({ msg }) => msg?.startsWith('the disk'));
      expect(ours.map(({ level }) => level)).to.deep.equal([50, 30]);
      expect(ours[0])
        .to.include({ folder: `${sandbox.path('disk')}/data` })
        .and.to.have.property('freeBytes');
    });
  });
