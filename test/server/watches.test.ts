import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { FinishedOperation } from '../../src/server/observation/observation.js';
import { OperationLines, Watches } from '../../src/server/watch/watches.js';
import { PEOPLE, type Running, SUFFIX, start, testSchema } from './directory.js';
import { RawClient } from './raw-client.js';

describe('server: watches of operations', () => {
  let running: Running;
  afterEach(() => running?.stop());

  it('a watch observes from its first question until its questions stop', async () => {
    running = await start();
    const { services } = running.server;
    const watches = new Watches(services, 1);
    expect(services.observation.isActive).to.equal(false);
    expect(watches.lines('one', {})).to.deep.equal({ lines: [], droppedCount: 0 });
    expect(watches.top('one').clients).to.deep.equal([]);
    expect(services.observation.isActive).to.equal(true);
    while (services.observation.isActive) await sleep(1);
  });

  it('two watchers get the same operations, each once', async () => {
    running = await start();
    const watches = new Watches(running.server.services);
    const take = (name: string): number => watches.lines(name, { op: 'search' }).lines.length;
    expect([take('one'), take('other')]).to.deep.equal([0, 0]);
    const client = await RawClient.open(running.port);
    await client.search('');
    await client.search('');
    expect([take('one'), take('one'), take('other')]).to.deep.equal([2, 0, 2]);
    client.close();
  });

  it('lines that find no room are counted', () => {
    const operation = {
      op: 'delete',
      endedAt: 1,
      waitMs: 0,
      workMs: 0,
      boundAs: '',
      result: { code: 0, message: '', matchedDN: '' },
      description: () => ({ target: PEOPLE }),
    };
    const lines = new OperationLines({ base: SUFFIX }, testSchema(), undefined);
    for (let n = 0; n < 10_003; n++) lines.onOperation(operation as unknown as FinishedOperation);
    const taken = lines.take();
    expect([taken.lines.length, taken.droppedCount]).to.deep.equal([10_000, 3]);
    expect(lines.take()).to.deep.equal({ lines: [], droppedCount: 0 });
  });
});
