import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { RejectsFile } from '../../src/cli/import/rejects.js';
import { readLdif } from '../../src/ldif/index.js';
import { rounds } from '../rounds.js';
import {
  exited,
  MAIN,
  PEOPLE,
  PEOPLE_SCRIPT,
  rowan,
  rowanDoes,
  run,
  Sandbox,
  SUFFIX,
  startRowan,
  until,
} from './rowan.js';

/** What tells how far the import of the file has come. */
function recordOf(sandbox: Sandbox, file: string): string {
  return `${sandbox.data}/import-${createHash('sha256').update(file).digest('hex').slice(0, 8)}.json`;
}

describe('cli: an import that is killed', () => {
  const sandbox = new Sandbox();
  const count = rounds(4000, 12_000);

  before(() => sandbox.init());
  after(() => sandbox.remove());

  it('goes on where it ended, and nothing is missing or twice', async () => {
    const path = sandbox.path('people.ldif');
    const made = await run(process.execPath, [PEOPLE_SCRIPT, String(count)]);
    writeFileSync(path, made.stdout);
    const first = startRowan(['import', '--data', sandbox.data, path]);
    const record = recordOf(sandbox, path);
    await until(first, () => existsSync(record));
    await sleep(rounds(30, 100));
    first.kill('SIGKILL');
    expect(await exited(first)).to.equal('SIGKILL');
    const again = await rowan(['import', '--data', sandbox.data, path]);
    expect(again.code, again.stderr).to.equal(0);
    expect(again.stderr).to.contain('an earlier import of this file was interrupted');
    const [loaded, existing] = [/^loaded ([\d,]+) entries/, /([\d,]+) were there already/].map((pattern) =>
      Number((pattern.exec(again.stdout)?.[1] ?? '0').replaceAll(',', '')),
    );
    expect(loaded! + existing!).to.equal(count + 2);
    expect(existsSync(record)).to.equal(false);
    const dns = (await rowanDoes(['export', '--data', sandbox.data])).match(/^dn: uid=.*$/gm);
    expect(new Set(dns).size).to.equal(count);
    expect(dns).to.have.length(count);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  });

  it('goes on though another file was imported meanwhile', async () => {
    const [path, other] = [sandbox.path('units.ldif'), sandbox.path('other.ldif')];
    const unit = (i: number): string => `dn: ou=u${i},${SUFFIX}\nobjectClass: organizationalUnit\nou: u${i}\n\n`;
    writeFileSync(path, Array.from({ length: count }, (_, i) => unit(i)).join(''));
    writeFileSync(other, unit(count));
    const first = startRowan(['import', '--data', sandbox.data, path]);
    await until(first, () => existsSync(recordOf(sandbox, path)));
    first.kill('SIGKILL');
    expect(await exited(first)).to.equal('SIGKILL');
    await rowanDoes(['import', '--data', sandbox.data, other]);
    const again = await rowan(['import', '--data', sandbox.data, path]);
    expect(again.code, again.stderr).to.equal(0);
    expect(again.stderr).to.contain('an earlier import of this file was interrupted');
  });

  it('of changes, does none of them twice', async () => {
    const changed = rounds(800, 2000);
    const change = (i: number): string =>
      `dn: uid=user.${i},${PEOPLE}\nchangetype: modify\nadd: description\ndescription: once more\n\n`;
    const path = sandbox.path('changes.ldif');
    writeFileSync(path, Array.from({ length: changed }, (_, i) => change(i)).join(''));
    const first = startRowan(['import', '--data', sandbox.data, path]);
    const record = recordOf(sandbox, path);
    await until(
      first,
      () => existsSync(record) && (JSON.parse(readFileSync(record, 'utf8')) as { done: number }).done > 0,
    );
    first.kill('SIGKILL');
    expect(await exited(first)).to.equal('SIGKILL');
    const again = await rowan(['import', '--data', sandbox.data, '--continue', path]);
    // Those that were applied after the last note of how far it was are refused now.
    expect(again.stderr.replaceAll(/^(?:import|changes): .*\n/gm, '')).to.match(
      /^(?:rowan: \d+ records? refused: see .*\n)?$/,
    );
    const found = await rowanDoes(['export', '--data', sandbox.data, '--filter', '(description=once more)']);
    expect(found.match(/^description: once more$/gm)).to.have.length(changed);
  });
});

describe('cli: rejects of an import that was killed', () => {
  const sandbox = new Sandbox();
  after(() => sandbox.remove());

  it('are read one by one, although the last of them lacks its end', async () => {
    const path = sandbox.path('people.ldif.rejects');
    const records = ['dn: uid=a\ncn: a\n', 'dn: uid=b\ncn: b\n'];
    for (const [i, text] of records.entries()) {
      const rejects = new RejectsFile(path, i > 0);
      rejects.write({ line: i + 1, text: Buffer.from(text) }, 'because');
      rejects.close();
      if (i === 0) truncateSync(path, statSync(path).size - 3);
    }
    const found: string[] = [];
    for await (const read of readLdif([readFileSync(path)]))
      for (const record of read) found.push(record.kind === 'content' ? record.dn : record.kind);
    expect(found).to.deep.equal(['uid=a', 'uid=b']);
  });
});

describe('cli: an import that is interrupted', () => {
  const sandbox = new Sandbox();

  before(() => sandbox.init());
  after(() => sandbox.remove());

  it('by Ctrl-C, says how far it came and how it goes on, which is true', async () => {
    const path = sandbox.path('people.ldif');
    const made = await run(process.execPath, [PEOPLE_SCRIPT, '4000']);
    writeFileSync(path, made.stdout);
    const args = ['import', '--data', sandbox.data, path];
    const first = startRowan(args);
    let said = '';
    first.stderr!.on('data', (data: Buffer) => {
      said += data.toString();
    });
    const closed = once(first, 'close');
    await until(first, () => existsSync(recordOf(sandbox, path)));
    first.kill('SIGINT');
    expect(await closed).to.deep.equal([null, 'SIGINT']);
    expect(said).to.match(/^rowan: interrupted after about [\d,]+ records?; the same command goes on$/m);
    const again = await rowan(args);
    expect(again.stderr).to.contain('an earlier import of this file was interrupted');
    const dns = (await rowanDoes(['export', '--data', sandbox.data])).match(/^dn: uid=.*$/gm);
    expect(dns).to.have.length(4000);
  });
});

describe('cli: an import that has no room', () => {
  let sandbox: Sandbox;
  beforeEach(async () => {
    sandbox = new Sandbox();
    await sandbox.init();
  });
  afterEach(() => sandbox.remove());

  /** With files that may not grow beyond so many KiB. */
  async function importLimited(path: string, kib: number): Promise<string> {
    const words = [process.execPath, MAIN, 'import', '--data', sandbox.data, path];
    const ended = await run('sh', ['-c', `ulimit -f ${kib * 2}; exec "$0" "$@"`, ...words]);
    expect(ended.code, ended.stderr).to.equal(1);
    // What LMDB's own C code prints is not ours to keep back.
    return ended.stderr.replaceAll(/Write error: [^\n]*?, size \d+/g, '').replaceAll(/^(?:import|changes): .*\n/gm, '');
  }

  const clear = /^rowan: (?:no room left to write to|input\/output error in) \S+\/data; [^\n]*\n$/;

  it('says so in one line, of entries, and goes on with them when there is some', async () => {
    const people = rounds(1000, 3000);
    const path = sandbox.path('people.ldif');
    writeFileSync(path, (await run(process.execPath, [PEOPLE_SCRIPT, String(people)])).stdout);
    expect(await importLimited(path, rounds(700, 2000))).to.match(clear);
    await rowanDoes(['import', '--data', sandbox.data, path]);
    expect((await rowanDoes(['export', '--data', sandbox.data])).match(/^dn: uid=/gm)).to.have.length(people);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  });

  it('says so in one line, of changes, and refuses none of them for it', async () => {
    const path = sandbox.path('changes.ldif');
    const more = `description: ${'x'.repeat(9000)}\n`;
    const suffix = `dn: ${SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: x\n\n`;
    const change = (i: number): string =>
      `dn: cn=p${i},${SUFFIX}\nchangetype: add\nobjectClass: person\ncn: p${i}\nsn: x\n${more}\n`;
    writeFileSync(path, suffix + Array.from({ length: 300 }, (_, i) => change(i)).join(''));
    expect(await importLimited(path, 1500)).to.match(clear);
    expect(existsSync(`${path}.rejects`)).to.equal(false);
    await rowan(['import', '--data', sandbox.data, '--continue', path]);
    expect((await rowanDoes(['export', '--data', sandbox.data])).match(/^dn: cn=p/gm)).to.have.length(300);
  });
});
