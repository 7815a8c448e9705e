import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Plan, TableSpec } from '../../src/store/contract.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { bytes, cell, errorOf } from '../store/suite/fixture.js';
import { patiently } from './load.js';
import { freshPrefix, hbase } from './server.js';

const TABLE: TableSpec = { name: 'rows', families: [{ name: 'f' }] };
const OPERATION_MS = 2000;
const PLAN: Plan = { steps: [{ table: TABLE.name, key: bytes('row'), put: [cell(0, 'q', 'v')] }], decisive: 0 };

describe('a row that another writer holds for longer than an operation may take', () => {
  let settings: HBaseSettings;
  let holder: HBaseStore;
  let hold: Promise<void> | undefined;
  let isHeld: (() => void) | undefined;

  before(async function () {
    settings = (await hbase(this)).settings(freshPrefix());
    const failpoint = async (name: string): Promise<void> => {
      if (name !== 'lock after' || !hold) return;
      isHeld?.();
      await hold;
    };
    holder = await openHBaseStore(settings, { failpoint });
    await holder.createTable(TABLE);
  });
  after(() => holder?.close());

  async function beside(patient: boolean): Promise<{ error: { code?: string; message: string } | undefined }> {
    let letGo: (() => void) | undefined;
    hold = new Promise((resolve) => {
      letGo = resolve;
    });
    const held = new Promise<void>((resolve) => {
      isHeld = resolve;
    });
    const holding = holder.commit(PLAN);
    await held;
    const hasty = { ...settings, operationTimeoutMs: OPERATION_MS };
    const other = await patiently(() => openHBaseStore(hasty, { patient }));
    try {
      const writing = errorOf(other.commit(PLAN));
      // The patient one is to find the row held for longer than that.
      await (patient ? sleep(1.5 * OPERATION_MS) : writing);
      letGo?.();
      return { error: await writing };
    } finally {
      letGo?.();
      hold = undefined;
      await holding;
      await other.close();
    }
  }

  it('is waited for by a command', async () => {
    expect((await beside(true)).error).to.equal(undefined);
  });

  it('is told to the clients of a server, with what to do', async () => {
    const { error } = await beside(false);
    expect(error?.code).to.equal('unavailable');
    expect(error?.message).to.contain('one that died, until the others give it up: try again');
  });
});
