import { execFile, execFileSync } from 'node:child_process';
import { chmod, chown, mkdir, mkdtemp, open, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { bytes, cell, codeOf, errorOf } from './suite/fixture.js';

const run = promisify(execFile);
const CHILD = join(import.meta.dirname, 'lmdb-child.js');

describe('lmdb: the data folder', () => {
  let base: string;
  let folder: string;

  beforeEach(async () => {
    base = await mkdtemp(join(tmpdir(), 'rowan-folder-'));
    folder = join(base, 'data.d');
  });
  afterEach(() => rm(base, { recursive: true, force: true }));

  /** A store with some rows. */
  async function filled(): Promise<void> {
    const store = await openLmdbStore(folder);
    await store.createTable({ name: 't', families: [{ name: 'a' }] });
    for (let i = 0; i < 20; i++) {
      const put = [cell(0, 'q', 'v'.repeat(5000))];
      await store.commit({ steps: [{ table: 't', key: bytes(`row ${i}`), put }], decisive: 0 });
    }
    await store.close();
  }

  async function damage(at: number, data: Buffer): Promise<void> {
    const file = await open(join(folder, 'data.mdb'), 'r+');
    await file.write(data, 0, data.length, at);
    await file.close();
  }

  it('creates it for its owner alone', async () => {
    await filled();
    expect((await stat(folder)).mode & 0o777).to.equal(0o700);
    for (const name of ['data.mdb', 'lock.mdb', 'rowan.json']) {
      expect((await stat(join(folder, name))).mode & 0o777, name).to.equal(0o600);
    }
  });

  it('creates nothing when told not to', async () => {
    const error = await errorOf(openLmdbStore(folder, { create: false }));
    expect(error?.code).to.equal('format');
    expect(error?.message)
      .to.include(folder)
      .and.to.match(/rowan init/);
    expect(await codeOf(openLmdbStore(folder, { readOnly: true }))).to.equal('format');
    expect(
      await codeOf(
        stat(folder).then(
          () => undefined,
          () => openLmdbStore(folder, { create: false }),
        ),
      ),
    ).to.equal('format');
  });

  it('reads without writing when opened read-only', async () => {
    await filled();
    const store = await openLmdbStore(folder, { readOnly: true });
    expect(await store.count('t', {}, 100)).to.equal(20);
    expect(await codeOf(store.createTable({ name: 'u', families: [{ name: 'a' }] }))).to.equal('permission');
    expect(await codeOf(store.commit({ steps: [], decisive: 0 }))).to.equal('permission');
    await store.close();
  });

  it('refuses data of a newer format', async () => {
    await filled();
    await writeFile(join(folder, 'rowan.json'), '{"format": 1000, "store": "lmdb"}');
    const error = await errorOf(openLmdbStore(folder));
    expect(error?.code).to.equal('format');
    expect(error?.message)
      .to.include(folder)
      .and.to.match(/newer.*upgrade/);
  });

  it('refuses data of an older format, to write and to read, and says how it is taken over', async () => {
    await filled();
    const marker = '{"format": 2, "store": "lmdb"}';
    await writeFile(join(folder, 'rowan.json'), marker);
    for (const readOnly of [false, true]) {
      const error = await errorOf(openLmdbStore(folder, { readOnly }));
      expect(error?.code).to.equal('format');
      expect(error?.message)
        .to.include(`rowan export --data ${folder}`)
        .and.to.match(/older.*format 2.*import/);
    }
    expect(await readFile(join(folder, 'rowan.json'), 'utf8')).to.equal(marker);
  });

  it('refuses a folder of something else and leaves it alone', async () => {
    await mkdir(folder);
    await writeFile(join(folder, 'thesis.txt'), 'mine');
    const error = await errorOf(openLmdbStore(folder));
    expect(error?.code).to.equal('format');
    expect(error?.message).to.include(folder).and.to.include('thesis.txt');
    await writeFile(join(folder, 'rowan.json'), '{"format": 1, "store": "hbase"}');
    expect(await codeOf(openLmdbStore(folder))).to.equal('format');
    await writeFile(join(folder, 'rowan.json'), '{"form');
    expect(await codeOf(openLmdbStore(folder))).to.equal('corrupt');
    expect(
      await codeOf(
        stat(join(folder, 'data.mdb')).then(
          () => undefined,
          () => openLmdbStore(folder),
        ),
      ),
    ).to.equal('corrupt');
  });

  it('says that the data file is cut short', async () => {
    await filled();
    const { size } = await stat(join(folder, 'data.mdb'));
    for (const length of [size - 8192 * 3, 20_000, 8192 + 100, 8192, 100]) {
      await truncate(join(folder, 'data.mdb'), length);
      const error = await errorOf(openLmdbStore(folder));
      expect(error?.code, String(length)).to.equal('corrupt');
      expect(error?.message)
        .to.include(join(folder, 'data.mdb'))
        .and.to.match(/restore/);
    }
  });

  it('says that a meta page is damaged, or of another version', async () => {
    for (const [at, data, code] of [
      [24, Buffer.from('garbage!'), 'corrupt'],
      [8192 + 24, Buffer.alloc(8), 'corrupt'],
      [48, Buffer.from([1, 2, 3, 4]), 'corrupt'],
      [28, Buffer.from([9, 0, 0, 0]), 'format'],
    ] as const) {
      await filled();
      await damage(at, data);
      expect(await codeOf(openLmdbStore(folder)), String(at)).to.equal(code);
      await rm(folder, { recursive: true });
    }
  });

  it('says that a file is no data file at all', async () => {
    await filled();
    await writeFile(join(folder, 'data.mdb'), 'This is not a database.'.repeat(10_000));
    expect(await codeOf(openLmdbStore(folder))).to.equal('corrupt');
  });

  it('takes no row that is cut', async () => {
    await filled();
    const store = await openLmdbStore(folder);
    const rows = [{ key: bytes('row 3'), row: bytes('\0\0\x05\0\0\0\0') }];
    expect(await codeOf(store.ingest([{ table: 't', rows }], { steps: [], decisive: 0 }))).to.equal('corrupt');
    await store.close();
  });

  describe('which this user may not use', () => {
    /**
     * What a process of another user says; as root it becomes nobody, else the owner has taken the right from himself.
     */
    async function said(mode: 'open' | 'read'): Promise<string> {
      return (await run(process.execPath, [CHILD, mode, folder])).stdout.trim();
    }

    async function refused(mode: 'open' | 'read', path: string): Promise<void> {
      const error = JSON.parse(await said(mode)) as { code: string; message: string };
      expect(error.code).to.equal('permission');
      expect(error.message)
        .to.include(path)
        .and.to.match(/owner or mode/);
    }

    beforeEach(async () => {
      await filled();
      await chmod(base, 0o755);
      const nobody = process.getuid!() === 0 ? 65534 : process.getuid!();
      for (const name of ['', 'data.mdb', 'lock.mdb', 'rowan.json']) await chown(join(folder, name), nobody, -1);
    });

    it('is told apart from one that it may', async () => {
      expect([await said('open'), await said('read')]).to.deep.equal(['ok', 'ok']);
    });

    for (const [name, mode] of [
      ['.', 0o000],
      ['data.mdb', 0o000],
      ['lock.mdb', 0o000],
      ['lock.mdb', 0o400],
      ['rowan.json', 0o000],
    ] as const) {
      it(`says so of ${name === '.' ? 'the folder' : name} with mode ${mode.toString(8)}, for writing and reading`, async () => {
        await chmod(join(folder, name), mode);
        await refused('open', name === '.' ? folder : join(folder, name));
        await refused('read', name === '.' ? folder : join(folder, name));
        await chmod(join(folder, name), 0o700);
      });
    }

    it('says so when it wants to write what it may only read', async () => {
      await chmod(join(folder, 'data.mdb'), 0o400);
      await refused('open', join(folder, 'data.mdb'));
      expect(await said('read')).to.equal('ok');
      await chmod(folder, 0o500);
      await refused('open', folder);
      expect(await said('read')).to.equal('ok');
      await chmod(folder, 0o700);
      await rm(join(folder, 'lock.mdb'));
      await chmod(folder, 0o500);
      await refused('read', folder);
      await chmod(folder, 0o700);
    });

    it('says so when it may not make one', async () => {
      await chmod(folder, 0o500);
      folder = join(folder, 'below');
      await refused('open', folder);
      await chmod(join(base, 'data.d'), 0o700);
    });
  });

  it('survives a write that is cut short: an error, nothing acknowledged lost, and it serves on', async () => {
    const { stdout } = await run('/bin/sh', [
      '-c',
      'ulimit -f 8192; exec "$0" "$1" fill "$2"',
      process.execPath,
      CHILD,
      folder,
    ]);
    const [failure, rows, closed] = stdout.trim().split('\n') as [string, string, string];
    const error = JSON.parse(failure) as { code: string; message: string; applied: string };
    expect([error.code, error.applied]).to.deep.equal(['unavailable', 'no']);
    expect(error.message)
      .to.include(folder)
      .and.to.match(/device and limits/);
    const [, acknowledged, found] = rows.split(' ').map(Number) as [number, number, number];
    expect(acknowledged).to.be.greaterThan(10);
    expect(found).to.equal(acknowledged);
    expect(closed).to.equal('closed');
    const store = await openLmdbStore(folder);
    expect(await store.count('f', {}, 1_000_000)).to.equal(found);
    await store.commit({ steps: [{ table: 'f', key: bytes('again'), put: [cell(0, 'q', '')] }], decisive: 0 });
    await store.close();
  });

  it('says that the device is full, and serves again when there is room', async function () {
    const mount = join(base, 'small');
    await mkdir(mount);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', mount], { stdio: 'ignore' });
    } catch {
      this.skip(); // only root may mount
    }
    try {
      await writeFile(join(mount, 'room'), Buffer.alloc(2 << 20));
      const { stdout } = await run(process.execPath, [CHILD, 'fill', join(mount, 'data')]);
      const lines = stdout.trim().split('\n');
      const error = JSON.parse(lines[0]!) as { code: string; message: string };
      expect(error.code).to.equal('full');
      expect(error.message)
        .to.include(join(mount, 'data'))
        .and.to.match(/free space/);
      expect(lines.slice(2)).to.deep.equal(['again true', 'closed']);
      expect(await readFile(join(mount, 'data', 'rowan.json'), 'utf8')).to.include('lmdb');
    } finally {
      execFileSync('umount', [mount]);
    }
  });
});
