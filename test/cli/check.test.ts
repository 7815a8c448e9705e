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

  /** Is loaded into the process that reads alone; `what` is done when it is about to read. */
  function inReader(what: string): Readonly<Record<string, string>> {
    const path = join(sandbox.folder, 'reader.mjs');
    writeFileSync(
      path,
      `if (process.env.READER_OF_ROWAN_CHECK) {
         const timer = setInterval(() => {
           if (process.listenerCount('disconnect') === 0) return;
           clearInterval(timer);
           ${what}
         }, 1);
       }`,
    );
    return { NODE_OPTIONS: `--import=${pathToFileURL(path).href}` };
  }

  it('says so when the process that reads crashes, and does not send for itself', async () => {
    const ended = await rowan(['check', '--data', sandbox.data], {
      env: inReader(`process.kill(process.pid, 'SIGSEGV');`),
    });
    expect(ended.code).to.equal(1);
    expect(ended.stderr).to.match(
      /^rowan: the process that reads the directory was ended by SIGSEGV .*restore a backup/,
    );
    expect(ended.stdout + ended.stderr).not.to.contain('rowan check');
  });

  it('ends with the process that waits for it', async () => {
    const env =
      inReader(`console.log(process.pid); setInterval(() => undefined, 1000); process.on('SIGTERM', () => undefined);
      // Deaf for a while, as one that reads is.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);`);
    const child = startRowan(['check', '--data', sandbox.data], { env });
    const pid = await new Promise<number>((resolve) =>
      child.stdout!.once('data', (data: Buffer) => resolve(Number(String(data).trim()))),
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
