import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { pino } from 'pino';
import { Maintenance } from '../../src/cli/maintenance.js';
import type { Modification } from '../../src/ldap/ldap-types.js';
import { Partition } from '../../src/partition/index.js';
import { makeConfig } from '../../src/server/settings/index.js';
import { ADMIN, emptyPartition, fill, personDn, testSchema } from '../server/directory.js';

function surname(value: string): Modification {
  return { operation: 'replace', attribute: { type: 'sn', values: [Buffer.from(value)] } };
}

describe('cli: maintenance', () => {
  it('completes an index that another process has added and left, though this one serves nobody', async () => {
    const partition = await emptyPartition();
    await fill(partition, 5);
    const maintenance = new Maintenance(partition, makeConfig(), pino({ level: 'silent' }), 20);
    maintenance.start();
    const other = await Partition.open(partition.store, testSchema());
    await other.addIndex('employeeNumber');
    const state = (): string | undefined =>
      partition.indexes().find((index) => index.attribute === 'employeeNumber')?.state;
    while (state() !== 'ready') await sleep(1);
    await maintenance.stop();
    await partition.close();
  });

  it('puts a uniqueness constraint in force when its conflicts are gone', async () => {
    const partition = await emptyPartition();
    await fill(partition, 5);
    const other = await Partition.open(partition.store, testSchema());
    await other.addUnique({ attributes: ['sn'] });
    await other.modify(testSchema().parseDn(personDn('p1')), [surname('same')], { dn: ADMIN.dn });
    await other.modify(testSchema().parseDn(personDn('p2')), [surname('Same')], { dn: ADMIN.dn });
    let conflicts = 0;
    await other.finishUnique({ onConflict: () => void conflicts++ });
    expect(conflicts).to.be.greaterThan(0);
    const lines: string[] = [];
    const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
    const maintenance = new Maintenance(partition, makeConfig(), log, 20);
    maintenance.start();
    for (let n = 0; n < 5; n++)
      await other.modify(testSchema().parseDn(personDn(`p${n}`)), [surname(`other ${n}`)], { dn: ADMIN.dn });
    while (!lines.some((line) => line.includes("values are unique from now on: 'sn'"))) await sleep(1);
    await maintenance.stop();
    expect(partition.uniqueConstraints().map(({ record }) => record.ready)).to.deep.equal([true]);
    await partition.close();
  });
});
