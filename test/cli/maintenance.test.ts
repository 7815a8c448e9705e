import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { pino } from 'pino';
import { Maintenance } from '../../src/cli/maintenance.js';
import { Partition } from '../../src/partition/index.js';
import { makeConfig } from '../../src/server/settings/index.js';
import { ADMIN, emptyPartition, fill, personDn, testSchema } from '../server/directory.js';

describe('cli: maintenance', () => {
  it('completes an index that another process has added and left, though this one serves nobody', async () => {
    const partition = await emptyPartition();
    await fill(partition, 5);
    let cleared = false;
    const log = pino(
      { level: 'debug' },
      {
        write() {
          cleared = true;
        },
      },
    );
    const maintenance = new Maintenance(partition, makeConfig(), log, { indexes: 20, history: 3_600_000 });
    maintenance.start();
    // Clearing old history looks at the indexes, too; from here on it sleeps for an hour.
    while (!cleared) await sleep(1);
    const other = await Partition.open(partition.store, testSchema());
    await other.addIndex('employeeNumber');
    const state = (): string | undefined =>
      partition.indexes().find((index) => index.attribute === 'employeeNumber')?.state;
    while (state() !== 'ready') await sleep(1);
    await maintenance.stop();
    await partition.close();
  });

  for (const [days, kept] of [
    [0, 0],
    [1, 1],
  ] as const) {
    it(`keeps deleted entries and change records as long as history says: ${days} days`, async () => {
      const partition = await emptyPartition();
      await fill(partition, 2);
      await partition.delete(testSchema().parseDn(personDn('p0')), { dn: ADMIN.dn });
      await sleep(5);
      const lines: string[] = [];
      const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
      const config = makeConfig({ 'history.deletedDays': days, 'history.changesDays': days });
      const maintenance = new Maintenance(partition, config, log);
      maintenance.start();
      while (!lines.some((line) => line.includes('old history cleared'))) await sleep(1);
      await maintenance.stop();
      let found = 0;
      for await (const { dn } of partition.deletedEntries()) if (dn === personDn('p0')) found++;
      expect(found).to.equal(kept);
      // The last change record stays, so that numbers go on from it.
      const changes = await partition.store.count('changes', {}, 100);
      expect(changes).to.equal(kept === 0 ? 1 : 5);
      await partition.close();
    });
  }
});
