import { expect } from 'chai';
import { indexTable, MASTER_TABLE, TREE_TABLE } from '../../src/partition/model/tables.js';
import type { TableSpec } from '../../src/store/contract.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import { JOURNAL_TABLE } from '../../src/store/hbase/journal/journal-tables.js';
import { internalHandle, tableHandle } from '../../src/store/hbase/schema/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { change, type Fixture, type Random, seeded, testSchema } from '../partition/fixture.js';
import { Ledger, openOver, prepare } from '../partition/kill.js';
import { COUNTER } from '../partition/kill-model.js';
import { rounds, soakTest } from '../rounds.js';
import { Load, patiently } from './load.js';
import { borrowTables, returnTables } from './recycled.js';
import { type HBaseServer, hbase } from './server.js';
import { swept } from './swept.js';
import { amongStill, type Still, standStill, Watcher } from './watcher.js';

const KILLS = 3;
/** Between two operations of a writer: the regions that come and go are to have the machine. */
const PAUSE_MS = 100;
/** Acknowledged before and after each fault. */
const OPERATIONS = 10;
/** Each search of a reader answered so many times: it did search; or one of them was begun after the fault. */
const BEFORE = 1;
const AFTER = 2;

/** How long an operation may take, ms. As long as Rowan lets it by itself. */
const USUAL = 30_000;
/**
 * Shorter than the start of an HBase: who waits no longer is told `unavailable`, and asks again all the while it comes
 * up.
 */
const HASTY = 1000;
/** However slow the machine is: nobody has a reason to say `unavailable`. */
const PATIENT = 600_000;

/** Of front ends that are to be given up soon, ms, and of those that are not to be. */
const SHORT_LEASE = 10_000;
const LONG_LEASE = 60_000;

/** Half of the keys that are drawn at random lie above, and a quarter. */
const MIDDLE = Buffer.from([0x80]);
const HIGH = Buffer.from([0xc0]);
const FIRST = Buffer.alloc(1);

describe('HBase under two front ends that write and others that search throughout', function () {
  this.timeout(300_000 * KILLS);
  let server: HBaseServer;
  let settings: HBaseSettings;
  let still: Still;
  const ledger = new Ledger();
  let readers: Fixture[] = [];
  let fronts: Fixture[] = [];

  before(async function () {
    server = await hbase(this);
    settings = await borrowTables(this);
    await prepare(await openHBaseStore(settings));
    fronts = [await open(USUAL, SHORT_LEASE)];
    still = await standStill(fronts[0]!);
    await fronts[0]!.close();
  });
  afterEach(() => Promise.all([...fronts, ...readers].map((front) => front.close())));
  after(() => returnTables(settings));

  const open = (operationTimeoutMs: number, leaseMs: number): Promise<Fixture> =>
    patiently(async () => openOver(await openHBaseStore({ ...settings, operationTimeoutMs }, { leaseMs })));

  async function openFronts(deadline: number, leaseMs: number): Promise<void> {
    fronts = await Promise.all([open(deadline, leaseMs), open(deadline, leaseMs)]);
  }

  /** Those at work, and a way to see that each of them gets on. */
  class Work {
    readonly load: Load;
    readonly watchers: readonly Watcher[];

    constructor(random: Random) {
      this.load = new Load(fronts, random, PAUSE_MS);
      this.watchers = readers.map((reader) => new Watcher(reader, still));
    }

    async getsOn(searches: number): Promise<void> {
      await Promise.all([this.load.more(OPERATIONS), ...this.watchers.map((watcher) => watcher.more(searches))]);
    }

    /** Nothing acknowledged is lost, nothing is half done, and nobody has seen what was not. Closes the fronts. */
    async expectKept(): Promise<void> {
      const heard = await this.load.stop();
      // Closed, they have written the counters that they still summed up.
      await Promise.all(fronts.map((front) => front.close()));
      const [reader] = readers;
      // One that was given up meanwhile has no row in the journal; now it has again.
      for (const one of readers) await comesThrough(one);
      await swept(reader!.store as HBaseStore, settings, readers.length);
      for (const watcher of this.watchers) await watcher.stop();
      await reader!.expectClean();
      await ledger.settle(reader!, heard);
      for (const watcher of this.watchers) watcher.expectKnown(ledger.states);
    }
  }

  const comesThrough = (front: Fixture): Promise<void> =>
    patiently(() => front.modify(COUNTER, change('replace', 'l', 'here')));

  soakTest(
    `killed with -9 and started again ${KILLS} times: service resumes by itself, and nothing is lost, half done or wrongly seen`,
    () =>
      seeded(async (random) => {
        readers = [await open(USUAL, SHORT_LEASE), await open(HASTY, SHORT_LEASE)];
        for (let n = 0; n < KILLS; n++) {
          await openFronts(USUAL, SHORT_LEASE);
          const work = new Work(random);
          await work.getsOn(BEFORE);
          expect(work.load.acknowledged, 'before the kill').to.be.at.least(OPERATIONS);
          const refused = work.watchers[1]!.unavailable;
          await server.kill();
          await server.restart();
          expect(work.watchers[1]!.unavailable, 'searches while there was no HBase').to.be.greaterThan(refused);
          await work.getsOn(AFTER);
          await Promise.all(fronts.map(comesThrough));
          await work.expectKept();
        }
      }),
  );

  it('with regions split, merged and moved under load: nobody notices', () =>
    seeded(async (random) => {
      readers = [await open(PATIENT, LONG_LEASE)];
      await openFronts(PATIENT, LONG_LEASE);
      const tableOf = (spec: TableSpec): string => tableHandle(settings, spec).name;
      const [master, tree] = [tableOf(MASTER_TABLE), tableOf(TREE_TABLE)];
      const names = tableOf(indexTable(testSchema().attribute('cn')!.oid));
      const journal = internalHandle(settings, JOURNAL_TABLE).name;
      const among = await amongStill(readers[0]!);
      const split = (table: string, key: Buffer) => server.withRegions(table, (regions) => regions.split(key));
      const move = (table: string, key: Buffer) => server.withRegions(table, (regions) => regions.move(key));
      const merge = (table: string, key: Buffer) => server.withRegions(table, (regions) => regions.merge(key));
      const faults = [
        () => [split(tree, among), split(master, MIDDLE)],
        () => [move(tree, among), move(journal, FIRST)],
        // A daughter goes, and the parent that it came from is still there.
        () => [merge(master, FIRST), merge(tree, FIRST)],
        () => [move(master, MIDDLE), move(names, FIRST), split(master, HIGH)],
      ];
      const work = new Work(random);
      await work.getsOn(BEFORE);
      for (const fault of faults.slice(0, rounds(3, faults.length))) {
        await Promise.all(fault());
        await work.getsOn(AFTER);
      }
      await work.expectKept();
      expect(work.load.unavailable, 'writers that were told unavailable').to.equal(0);
      expect(work.watchers[0]!.unavailable, 'searches that were told unavailable').to.equal(0);
    }));
});
