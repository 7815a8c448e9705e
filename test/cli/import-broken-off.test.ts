import { type ChildProcess, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { RejectsFile } from '../../src/cli/import/rejects.js';
import { readLdif } from '../../src/ldif/index.js';
import { rounds } from '../rounds.js';
import { exited, MAIN, PEOPLE_SCRIPT, rowan, rowanDoes, run, Sandbox, SUFFIX, startRowan, until } from './rowan.js';

/** What tells how far the import of the file has come. */
function recordOf(sandbox: Sandbox, file: string): string {
  return `${sandbox.data}/import-${createHash('sha256').update(file).digest('hex').slice(0, 8)}.json`;
}

/** A record that is refused, and longer than a pipe holds. */
const stop = (name: string): string => `dn: cn=${name}\nno colon\ncn: ${name.repeat(200_000 / name.length)}\n\n`;

/** An import that stands still at each `stop`: it writes what it refuses to a pipe that is read slowly. */
class StoppedImport {
  readonly process: ChildProcess;
  readonly #pipe: number;
  #said = '';

  constructor(sandbox: Sandbox, path: string) {
    const pipe = sandbox.path('pipe');
    expect(spawnSync('mkfifo', [pipe]).status).to.equal(0);
    this.#pipe = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK);
    this.process = startRowan(['import', '--data', sandbox.data, '--continue', '--rejects', pipe, path]);
    this.process.once('exit', () => {
      closeSync(this.#pipe);
      rmSync(pipe);
    });
  }

  /** Lets the import go on to that `stop`. */
  comesTo(name: string): Promise<void> {
    return until(this.process, () => {
      this.#read();
      return this.#said.includes(`dn: cn=${name}`);
    });
  }

  async kill(): Promise<void> {
    this.process.kill('SIGKILL');
    expect(await exited(this.process)).to.equal('SIGKILL');
  }

  async ends(): Promise<void> {
    while (this.process.exitCode === null && this.process.signalCode === null) {
      this.#read();
      await sleep(5);
    }
  }

  #read(): void {
    const piece = Buffer.alloc(16 * 1024);
    try {
      this.#said += piece.toString('latin1', 0, readSync(this.#pipe, piece));
    } catch (error) {
      expect(error).to.include({ code: 'EAGAIN' });
    }
  }
}

/** The same import once more, to its end; what it says on standard error, and on standard output. */
async function goesOn(sandbox: Sandbox, path: string, stops: number): Promise<[string, string]> {
  const { stdout, stderr } = await rowan(['import', '--data', sandbox.data, '--continue', path]);
  expect(stderr).to.contain('an earlier import of this file was interrupted');
  expect(stderr).to.contain(`rowan: ${stops} record`);
  return [stdout, stderr];
}

describe('cli: an import that is broken off', () => {
  const sandbox = new Sandbox();
  const count = rounds(200, 12_000);

  before(() => sandbox.initSample());
  after(() => sandbox.remove());

  const unit = (name: string): string => `dn: ou=${name},${SUFFIX}\nobjectClass: organizationalUnit\nou: ${name}\n\n`;
  const units = (name: string, length = count): string[] => Array.from({ length }, (_, i) => unit(`${name}${i}`));
  const change = (operation: 'add' | 'replace', name: string, text: string): string =>
    `dn: ou=${name},${SUFFIX}\nchangetype: modify\n${operation}: description\ndescription: ${text}\n\n`;

  /** A file of these records. */
  function write(name: string, records: readonly string[]): string {
    const path = sandbox.path(name);
    writeFileSync(path, records.join(''));
    return path;
  }

  it('goes on where it ended, though another file was imported meanwhile: nothing is missing or twice', async () => {
    const records = units('killed');
    const half = count / 2;
    // The change ends the batch of the entries before it, so that those behind it are still to do.
    const before = [...records.slice(0, half), change('replace', 'killed0', 'x')];
    const path = write('killed.ldif', [...before, stop('stop'), ...records.slice(half)]);
    const first = new StoppedImport(sandbox, path);
    await first.comesTo('stop');
    await first.kill();
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: unit('other') });
    const [outcome] = await goesOn(sandbox, path, 1);
    const [loaded, existing] = [/^loaded ([\d,]+) entries/, /([\d,]+) were there already/].map((pattern) =>
      Number((pattern.exec(outcome)?.[1] ?? '0').replaceAll(',', '')),
    );
    expect(loaded).to.equal(half);
    expect(existing).to.be.at.most(half);
    expect(existsSync(recordOf(sandbox, path))).to.equal(false);
    const dns = (await rowanDoes(['export', '--data', sandbox.data])).match(/^dn: ou=killed.*$/gm);
    expect(new Set(dns).size).to.equal(count);
    expect(dns).to.have.length(count);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  });

  it('of changes, does none of them twice', async () => {
    const changed = rounds(100, 2000);
    const changes = Array.from({ length: changed }, (_, i) => change('add', 'people', `once more ${i}`));
    const [half, later] = [changed / 2, changed / 2 + 20];
    const parts = [changes.slice(0, half), stop('stop'), changes.slice(half, later), stop('end'), changes.slice(later)];
    const text = parts.flat().join('');
    const path = write('changes.ldif', [text]);
    const first = new StoppedImport(sandbox, path);
    await first.comesTo('stop');
    // An import notes at most every 200 ms how far it is; after this it does so with the next change.
    await sleep(250);
    await first.comesTo('end');
    await first.kill();
    const { done } = JSON.parse(readFileSync(recordOf(sandbox, path), 'utf8')) as { done: number };
    expect(done).to.be.at.least(changes.slice(0, half).join('').length);
    // The changes between the note and the second stop were applied, and are refused now, as the stop is.
    const applied = text.slice(done, text.indexOf('dn: cn=end')).match(/^changetype: /gm) ?? [];
    expect(applied.length).to.be.within(1, 20);
    await goesOn(sandbox, path, applied.length + 1);
    const found = await rowanDoes(['export', '--data', sandbox.data, '--filter', '(description=once more*)']);
    expect(found.match(/^description: once more/gm)).to.have.length(changed);
  });

  it('by Ctrl-C, says how far it came and how it goes on, which is true', async () => {
    // A change ends the batch of the entries before it, so that those behind it are still to do.
    const records = [...units('before', 20), change('replace', 'before0', 'x'), stop('stop'), ...units('behind', 20)];
    const path = write('interrupted.ldif', records);
    const first = new StoppedImport(sandbox, path);
    let said = '';
    first.process.stderr!.on('data', (data: Buffer) => {
      said += data.toString();
    });
    const closed = once(first.process, 'close');
    await first.comesTo('stop');
    first.process.kill('SIGINT');
    await first.ends();
    expect(await closed).to.deep.equal([null, 'SIGINT']);
    expect(said).to.match(/^rowan: interrupted after about 2[01] records; the same command goes on$/m);
    await goesOn(sandbox, path, 1);
    const text = await rowanDoes(['export', '--data', sandbox.data, '--filter', '(|(ou=before*)(ou=behind*))']);
    expect(text.match(/^dn: ou=.*$/gm)).to.have.length(40);
    expect(text.match(/^description: x$/gm)).to.have.length(1);
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
    // What LMDB's own C code prints is not ours to keep back, but ends with its line.
    return ended.stderr.replaceAll(/^(?:(?:Write error: [^\n]*?, size \d+)*|(?:import|changes): .*)\n/gm, '');
  }

  const clear = /^rowan: (?:no room left to write to|input\/output error in) \S+\/data; [^\n]*\n$/;

  it('says so in one line, of entries, and goes on with them when there is some', async () => {
    const people = rounds(400, 3000);
    const path = sandbox.path('people.ldif');
    writeFileSync(path, (await run(process.execPath, [PEOPLE_SCRIPT, String(people)])).stdout);
    expect(await importLimited(path, rounds(400, 2000))).to.match(clear);
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
