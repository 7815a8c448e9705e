import { writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { Importer } from '../../src/cli/import/importer.js';
import { RejectsFile } from '../../src/cli/import/rejects.js';
import { openInput, RecordSource } from '../../src/cli/import/source.js';
import { formatTimeLeft } from '../../src/cli/progress.js';
import { Partition, readSource } from '../../src/partition/index.js';
import { Schema } from '../../src/schema/index.js';
import { hashPolicyOf } from '../../src/server/passwords/hash-policy.js';
import { makeConfig } from '../../src/server/settings/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { needs } from '../require.js';
import { exited, heard, MAIN, PEOPLE, PEOPLE_SCRIPT, run, Sandbox, SUFFIX, startRowan } from './rowan.js';

describe('cli: the progress of an import', () => {
  let sandbox: Sandbox;
  beforeEach(async () => {
    sandbox = new Sandbox();
    await sandbox.init();
  });
  afterEach(() => sandbox.remove());

  async function people(count: number): Promise<string> {
    const path = sandbox.path('people.ldif');
    writeFileSync(path, (await run(process.execPath, [PEOPLE_SCRIPT, String(count)])).stdout);
    return path;
  }

  it('is a bar at a terminal, redrawn on one line', async function () {
    needs(this, 'script');
    const words = [process.execPath, MAIN, 'import', '--data', sandbox.data, await people(3000)];
    const command = words.map((word) => `'${word}'`).join(' ');
    const { code, stdout } = await run('script', ['-qec', command, '/dev/null']);
    expect(code, stdout).to.equal(0);
    const [bar, outcome] = stdout.split('\r\n') as [string, string];
    expect(bar).to.match(/import \[-+\] {2}\| 0 entries \| 0\/s.*import \[=+\] 100 % \| 3,002 entries \| [\d,]+\/s/);
    expect(bar.split('\x1b[1G').length).to.be.greaterThan(2);
    expect(outcome).to.match(/^loaded 3,002 entries in /);
  });

  it('is no bar and no control characters elsewhere', async () => {
    const { code, stderr } = await run(process.execPath, [
      ...[MAIN, 'import', '--data', sandbox.data],
      await people(300),
    ]);
    expect(code).to.equal(0);
    expect(stderr).to.match(/^(?:import: [\d,]+ entries, [\d,]+\/s, \d+ %(?:, [\d,]+ (?:s|min) left)?\n)*$/);
  });

  it('tells how long the rest takes, by the pace since the first share that it knows', () => {
    const first = { share: 0.25, atMs: 1000 };
    expect(formatTimeLeft(first, 0.25, 2000)).to.deep.equal([]);
    expect(formatTimeLeft(first, 0.5, 2000)).to.deep.equal(['2 s left']);
    expect(formatTimeLeft(first, 0.75, 2001)).to.deep.equal(['1 s left']);
    expect(formatTimeLeft({ share: 0, atMs: 0 }, 0.01, 36_000)).to.deep.equal(['60 min left']);
    expect(formatTimeLeft(first, 1, 3000)).to.deep.equal([]);
  });

  it('tells the share of the records that are loaded, not of what is read of the file', async () => {
    const path = sandbox.path('units.ldif');
    const unit = (n: number): string => `dn: ou=u${n},${SUFFIX}\nobjectClass: organizationalUnit\nou: u${n}\n\n`;
    const suffix = `dn: ${SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: x\n\n`;
    // More than two batches of the loader.
    const text = suffix + Array.from({ length: 4500 }, (_, i) => unit(i)).join('');
    writeFileSync(path, text);
    const starts = [...text.matchAll(/^dn: /gm)].map(({ index }) => index);
    const store = await openLmdbStore(sandbox.data);
    const partition = await Partition.open(store, Schema.of((await readSource(store))!));
    const told: [number, number][] = [];
    const rejects = new RejectsFile(sandbox.path('rejects'), false);
    const source = new RecordSource(openInput(path).chunks, {});
    await new Importer(partition, source, rejects, undefined, {
      policy: hashPolicyOf(makeConfig()),
      continue: false,
      resume: undefined,
      onProgress: (records, _phase, done) => told.push([records, done]),
    }).run();
    await partition.close();
    expect(told.length).to.be.greaterThan(2);
    expect(told.map(([records, done]) => [records, starts.indexOf(done) + 1])).to.deep.equal(
      told.map(([records]) => [records, records]),
    );
  });

  it('is a plain line from time to time when it takes long', async () => {
    const child = startRowan(['import', '--data', sandbox.data, '-']);
    const head = (await run(process.execPath, [PEOPLE_SCRIPT, '1'])).stdout;
    child.stdin!.write(head);
    const change = `dn: uid=user.0,${PEOPLE}\nchangetype: modify\nreplace: description\ndescription: again\n-\n\n`;
    const feed = setInterval(() => child.stdin!.write(change), 50);
    const said = await heard(child, '/s\n');
    clearInterval(feed);
    child.stdin!.end();
    expect(await exited(child)).to.equal(0);
    const lines = said.split('\n');
    expect(lines.some((line) => /^changes: \d+ records, \d+\/s$/.test(line))).to.equal(true);
    expect(said).to.match(/^[\x20-\x7e\n]*$/);
  });
});
