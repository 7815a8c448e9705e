import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { type Random, seeded } from '../partition/fixture.js';
import { rounds } from '../rounds.js';
import { rowan, rowanDoes, Sandbox } from './rowan.js';

const PAGE = 8192;

/** Changes some bytes where pages tell how they hang together. */
function damage(file: Buffer, random: Random): void {
  for (let i = 0; i < 3; i++) {
    const page = 2 + random.int(file.length / PAGE - 2);
    const at = random.pick([0, 18, 20, 22, 24, 26, 28]);
    file.writeUInt16LE(random.int(0x10000), page * PAGE + at);
  }
}

describe('cli: damaged pages', function () {
  this.timeout(600_000);
  const sandbox = new Sandbox();
  let path: string;
  let sound: Buffer;

  before(async () => {
    await sandbox.initSample();
    path = join(sandbox.data, 'data.mdb');
    sound = readFileSync(path);
  });
  after(() => sandbox.remove());

  function writeDamaged(): void {
    const file = Buffer.from(sound);
    // Every leaf of some rows is said to have one row less.
    for (let page = 2; page < file.length / PAGE; page++) {
      const at = page * PAGE;
      if (file.readUInt16LE(at + 18) === 2 && file.readUInt16LE(at + 20) > 4) {
        file.writeUInt16LE(file.readUInt16LE(at + 20) - 2, at + 20);
      }
    }
    writeFileSync(path, file);
  }

  it('are told of by check, refused by repair and export, and read when that is asked for', async () => {
    writeDamaged();
    const check = await rowan(['check', '--data', sandbox.data]);
    expect(check.code).to.equal(1);
    expect(check.stdout)
      .to.match(/^structure (?:row|table|LMDB's) .* damaged: /m)
      .and.to.contain('restore a backup');
    const marker = join(sandbox.data, 'rowan-damaged.json');
    expect(readFileSync(marker, 'utf8')).to.contain('damaged: ');
    const repair = await rowan(['repair', '--data', sandbox.data]);
    expect(repair.code).to.equal(1);
    expect(repair.stderr)
      .to.match(/^rowan: .*damaged: /)
      .and.to.contain('restore a backup');
    const output = join(sandbox.folder, 'out.ldif');
    const refused = await rowan(['export', '--data', sandbox.data, '--output', output]);
    expect(refused.code).to.equal(1);
    expect(refused.stderr).to.contain('--even-if-damaged');
    expect(existsSync(output)).to.equal(false);
    writeFileSync(path, sound);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.contain('written to again');
    expect(existsSync(marker)).to.equal(false);
    expect(await rowanDoes(['export', '--data', sandbox.data, '--even-if-damaged'])).to.contain('dn: ');
  });

  it('of any kind end check with its exit code, and not by a signal', async () => {
    await seeded(async (random) => {
      for (let i = 0; i < rounds(6, 40); i++) {
        const data = join(sandbox.folder, 'damaged');
        cpSync(sandbox.data, data, { recursive: true });
        const file = Buffer.from(sound);
        damage(file, random);
        writeFileSync(join(data, 'data.mdb'), file);
        const { code, stdout, stderr } = await rowan(['check', '--data', data]);
        expect(code, stdout + stderr).to.be.within(0, 1);
        expect(stdout, stderr).to.match(code === 0 ? /no breach found/ : /breaches found/);
        rmSync(data, { recursive: true });
      }
    });
  });
});
