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

describe('cli: an import that is killed', () => {
  const sandbox = new Sandbox();
  const count = rounds(1500, 12_000);

  before(() => sandbox.init());
  after(() => sandbox.remove());

  /** A file of these records, with a stop in the midst of them. */
  function write(name: string, records: readonly string[]): string {
    const path = sandbox.path(name);
    const half = records.length / 2;
    writeFileSync(path, [...records.slice(0, half), stop('stop'), ...records.slice(half)].join(''));
    return path;
  }

  it('goes on where it ended, and nothing is missing or twice', async () => {
    const { stdout: people } = await run(process.execPath, [PEOPLE_SCRIPT, String(count)]);
    const path = write('people.ldif', people.split(/(?<=\n\n)/));
    const first = new StoppedImport(sandbox, path);
    await first.comesTo('stop');
    await first.kill();
    const [outcome] = await goesOn(sandbox, path, 1);
    const [loaded, existing] = [/^loaded ([\d,]+) entries/, /([\d,]+) were there already/].map((pattern) =>
      Number((pattern.exec(outcome)?.[1] ?? '0').replaceAll(',', '')),
    );
    expect(loaded! + existing!).to.equal(count + 2);
    expect(existsSync(recordOf(sandbox, path))).to.equal(false);
    const dns = (await rowanDoes(['export', '--data', sandbox.data])).match(/^dn: uid=.*$/gm);
    expect(new Set(dns).size).to.equal(count);
    expect(dns).to.have.length(count);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  });

  it('goes on though another file was imported meanwhile', async () => {
    const unit = (i: number): string => `dn: ou=u${i},${SUFFIX}\nobjectClass: organizationalUnit\nou: u${i}\n\n`;
    const path = write(
      'units.ldif',
      Array.from({ length: 10 }, (_, i) => unit(i)),
    );
    const first = new StoppedImport(sandbox, path);
    await first.comesTo('stop');
    await first.kill();
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: unit(10) });
    await goesOn(sandbox, path, 1);
  });

  it('of changes, does none of them twice', async () => {
    const changed = rounds(300, 2000);
    const changes = Array.from(
      { length: changed },
      (_, i) =>
        `dn: uid=user.${i % count},${PEOPLE}\nchangetype: modify\nadd: description\ndescription: once more ${i}\n\n`,
    );
    const path = sandbox.path('changes.ldif');
    const [half, later] = [changed / 2, changed / 2 + 20];
    const parts = [changes.slice(0, half), stop('stop'), changes.slice(half, later), stop('end'), changes.slice(later)];
    const text = parts.flat().join('');
    writeFileSync(path, text);
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
    // More than a batch of the loader: a refusal is told when the batch of the records before it is loaded.
    const { stdout: people } = await run(process.execPath, [PEOPLE_SCRIPT, '5000']);
    const records = people.split(/(?<=\n\n)/);
    writeFileSync(path, [...records.slice(0, 100), stop('stop'), ...records.slice(100)].join(''));
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
    expect(said).to.match(/^rowan: interrupted after about [\d,]+ records?; the same command goes on$/m);
    await goesOn(sandbox, path, 1);
    const dns = (await rowanDoes(['export', '--data', sandbox.data])).match(/^dn: uid=.*$/gm);
    expect(dns).to.have.length(5000);
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
