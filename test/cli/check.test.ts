import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { MASTER_TABLE } from '../../src/partition/model/tables.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { exited, rowan, rowanDoes, Sandbox, startRowan } from './rowan.js';

describe('cli: check', () => {
  const sandbox = new Sandbox();

  before(() => sandbox.initSample());
  after(() => sandbox.remove());

  /** `what` is done first in the process that reads the pages. */
  function inReader(what: string): Readonly<Record<string, string>> {
    const path = join(sandbox.folder, 'inside-reader.mjs');
    writeFileSync(path, `if (process.argv[1]?.endsWith('/reader.js')) { ${what} }`);
    return { NODE_OPTIONS: `--import=${pathToFileURL(path).href}` };
  }

  it('says so when the process that reads crashes, and holds writes', async () => {
    const env = inReader(`process.kill(process.pid, 'SIGSEGV');`);
    const ended = await rowan(['check', '--data', sandbox.data], { env });
    expect(ended.code).to.equal(1);
    expect(ended.stdout)
      .to.match(/^structure .*: the process that read it crashed \(SIGSEGV\)/)
      .and.to.match(/^breaches found: 1; .*restore a backup/m);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.contain('written to again');
  });

  it('finds no damage when somebody else ends the process that reads', async () => {
    const env = inReader(`process.kill(process.pid, 'SIGTERM');`);
    const ended = await rowan(['check', '--data', sandbox.data], { env });
    expect([ended.code, ended.stdout]).to.deep.equal([1, '']);
    expect(ended.stderr).to.contain('was ended by SIGTERM');
    expect(existsSync(join(sandbox.data, 'rowan-damaged.json'))).to.equal(false);
  });

  it('ends with the process that waits for it', async () => {
    const env = inReader(`console.error(process.pid); setInterval(() => undefined, 1000);
      process.on('SIGTERM', () => undefined);
      process.disconnect = () => undefined;`);
    const child = startRowan(['check', '--data', sandbox.data], { env });
    const pid = await new Promise<number>((resolve) =>
      child.stderr!.once('data', (data: Buffer) => resolve(Number(String(data).trim()))),
    );
    child.kill('SIGKILL');
    await exited(child);
    const alive = (): boolean => existsSync(`/proc/${pid}`);
    while (alive()) await new Promise((resolve) => setTimeout(resolve, 20));
  });

  it('names what is lost, and lets writes go on once nothing is', async () => {
    const uuid = /entryUUID: (.*)/.exec(
      await rowanDoes(['export', '--data', sandbox.data, '--filter', '(uid=ada)']),
    )![1]!;
    const id = Buffer.from(uuid.replaceAll('-', ''), 'hex');
    const store = await openLmdbStore(sandbox.data);
    await store.commit({ steps: [{ table: MASTER_TABLE.name, key: id, deleteRow: true }], decisive: 0 });
    store.holdWrites!('row of a test is damaged');
    await store.close();
    const found = await rowan(['check', '--data', sandbox.data]);
    expect(found.code).to.equal(1);
    expect(found.stdout).to.contain('=ada').and.to.contain(id.toString('hex'));
    const refused = await rowan(['index', 'add', '--data', sandbox.data, 'l']);
    expect(refused.code).to.equal(1);
    expect(refused.stderr).to.contain('row of a test is damaged').and.to.contain('rowan-damaged.json');
    await rowanDoes(['repair', '--data', sandbox.data]);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.match(/^no breach found: .*written to again\n$/);
    expect(existsSync(join(sandbox.data, 'rowan-damaged.json'))).to.equal(false);
    await rowanDoes(['index', 'add', '--data', sandbox.data, 'l']);
  });
});
