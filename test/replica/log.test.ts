import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { trimChanges } from '../../src/partition/feed/history.js';
import { META_TABLE } from '../../src/partition/model/tables.js';
import { Applier } from '../../src/replica/applier.js';
import { gapAfter, grant, lastEntry, readHistory, refusalOf } from '../../src/replica/history.js';
import { copyMessages, sendChanges, sendTouched, tablesOf } from '../../src/replica/sender.js';
import { decodeMessage, encodeMessage } from '../../src/replica/wire.js';
import type { Cell, LoadRow, PlanStep, Store, TableSpec } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { LOG_TABLE } from '../../src/store/log.js';
import { batchesOf, keysOf } from '../../src/store/maybe.js';
import { counterBytes, MARK, packRow, unpackRow } from '../../src/store/row.js';
import { ENGINES, openStore, type Random, seeded } from '../partition/fixture.js';
import { rounds } from '../rounds.js';

const ROWS: TableSpec = { name: 'rows', families: [{ name: 'a' }, { name: 'b' }, { name: 'big', separate: true }] };
const INDEX: TableSpec = { name: 'words', families: [{ name: 'mark' }], suffixBytes: 2 };
const APPENDED: TableSpec = { name: 'changes', families: [{ name: 'change' }], rising: true };

const bytes = (text: string): Buffer => Buffer.from(text);

function cellsOf(random: Random, families: number): Cell[] {
  return Array.from({ length: 1 + random.int(4) }, () => ({
    family: random.int(families),
    qualifier: bytes(`q${random.int(6)}`),
    // Some rows are so long that LMDB keeps them in segments.
    value: Buffer.alloc(random.int(20) === 0 ? 9000 : random.int(30), 97 + random.int(26)),
  }));
}

function stepOf(random: Random): PlanStep {
  const key = bytes(`k${random.int(12)}`);
  switch (random.int(8)) {
    case 0:
      return { table: 'rows', key, deleteRow: true };
    case 1:
      return { table: 'rows', key, deleteRow: true, put: cellsOf(random, 3) };
    case 2:
      return { table: 'rows', key, delete: cellsOf(random, 3) };
    case 3:
      return { table: 'rows', key, add: [{ family: 0, qualifier: bytes('count'), by: 3n }] };
    case 4:
      return { table: 'words', key: bytes(`w${random.int(3)}${10 + random.int(40)}`), put: [MARK] };
    case 5:
      return { table: 'words', key: bytes(`w${random.int(3)}${10 + random.int(40)}`), deleteRow: true };
    case 6:
      return { table: 'changes', append: [{ family: 0, qualifier: bytes('n'), value: bytes(`${random.int(1000)}`) }] };
    default:
      return { table: 'rows', key, put: cellsOf(random, 3) };
  }
}

async function change(store: Store, random: Random): Promise<void> {
  if (random.int(6) > 0) {
    const steps = Array.from({ length: 1 + random.int(5) }, () => stepOf(random));
    await store.commit({ steps, decisive: 0 });
    return;
  }
  const keys = [...new Set(Array.from({ length: 3 }, () => `k${random.int(12)}`))].sort();
  const rows: LoadRow[] = keys.map((key) => ({ key: bytes(key), row: packRow(cellsOf(random, 2)) }));
  const words = [{ key: bytes(`w${random.int(3)}`), row: bytes(['11', '22', '33'].slice(random.int(3)).join('')) }];
  const appended = [{ key: bytes(''), row: packRow([{ family: 0, qualifier: bytes('n'), value: bytes('loaded') }]) }];
  const loads = [
    { table: 'rows', rows },
    { table: 'words', rows: words },
    { table: 'changes', rows: appended, append: true },
  ];
  await store.ingest(loads, { steps: [stepOf(random)], decisive: 0 });
}

async function lastNumber(store: Store, table: string): Promise<bigint> {
  const [key] = await keysOf(store.scan(table, {}, { reverse: true, limit: 1, keysOnly: true }));
  return key!.readBigUInt64BE();
}

/** All rows and separate cells of all tables but those that one side alone may have. */
async function contents(store: Store): Promise<string[]> {
  const lines: string[] = [];
  for (const { name, families } of await store.tables()) {
    for await (const { keys, rows } of batchesOf(store.scan(name, {})))
      for (const [i, key] of keys.entries()) {
        const cells = unpackRow(rows[i]!).map(
          (cell) => `${cell.family}:${cell.qualifier}=${cell.value.toString('hex')}`,
        );
        lines.push(`${name} ${key.toString('hex')} ${cells.join(' ')}`);
      }
    for (const [family, { separate }] of families.entries()) {
      if (!separate) continue;
      for (const key of await store.keysOfCells(name, family, 1000)) {
        const cells = await store.getCells(name, key, family, Buffer.alloc(0));
        lines.push(`${name} ${key.toString('hex')} separate ${cells?.toString('hex')}`);
      }
    }
  }
  return lines.sort();
}

for (const engine of ENGINES.filter((name) => name !== 'delayed')) {
  describe(`replica: the log of ${engine}`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'rowan-log-'));
    after(() => rmSync(folder, { recursive: true, force: true }));

    it('brings a copy that was made meanwhile to the same rows, and on from there', () =>
      seeded(async (random) => {
        const { store: source, folder: sourceFolder } = await openStore(engine);
        const target = await openLmdbStore(join(folder, `target-${engine}`), { create: true });
        for (const spec of [META_TABLE, ROWS, INDEX, APPENDED]) await source.createTable(spec);
        for (let i = 0; i < 40; i++) await change(source, random);
        await source.createTable(LOG_TABLE);
        await source.commit({ steps: [stepOf(random), { table: 'changes', append: [MARK] }], decisive: 0 });
        const start = await source.settled(LOG_TABLE.name);
        const applier = new Applier(target);
        const specs = await tablesOf(source);
        await applier.apply({ kind: 'tables', specs });
        for await (const message of copyMessages(source, specs, undefined)) {
          await applier.apply(decodeMessage(encodeMessage(message)));
          await change(source, random);
        }
        await applier.flush();
        let position = start;
        for (let round = 0; round < (engine === 'hbase' ? rounds(5, 60) : rounds(12, 400)); round++) {
          for (let i = random.int(12); i >= 0; i--) await change(source, random);
          if (round === 5) await source.createTable({ ...INDEX, name: 'new' });
          if (round === 8) await source.dropTable('new');
          const controller = new AbortController();
          // The last change of a round is seen before the stream ends.
          const last = await lastNumber(source, LOG_TABLE.name);
          const stream = new Applier(target);
          for await (const bytesOfMessage of sendChanges(source, position, controller.signal)) {
            const message = decodeMessage(bytesOfMessage);
            const isEnd = await stream.apply(message);
            if (isEnd && 'position' in message) position = message.position;
            if (position >= last) controller.abort();
          }
          expect(`${await lastNumber(target, LOG_TABLE.name)}`).to.equal(`${last}`);
          const [ours, theirs] = [await contents(target), await contents(source)];
          // The log of the copy begins where the copy began.
          const isLater = (line: string): boolean =>
            !line.startsWith('replica_log ') || BigInt(`0x${line.split(' ')[1]}`) > start;
          expect(ours.filter(isLater).join('\n')).to.equal(theirs.filter(isLater).join('\n'));
        }
        expect((await tablesOf(target)).map(({ name }) => name)).to.deep.equal(['changes', 'meta', 'rows', 'words']);
        const entries = await keysOf(source.scan(LOG_TABLE.name, {}, { keysOnly: true }));
        const [far, near] = [entries.at(-4)!.readBigUInt64BE(), entries.at(-2)!.readBigUInt64BE()];
        await trimChanges(source, Date.now() + 1000, undefined, LOG_TABLE.name);
        expect(await gapAfter(source, near)).to.equal(undefined);
        expect(await gapAfter(source, far)).to.include({ reason: 'behind' });
        await target.commit({ steps: [{ table: 'changes', append: [MARK] }], decisive: 0 });
        const own = await lastNumber(target, 'changes');
        expect(Number(own - (await lastNumber(source, 'changes')))).to.equal(1);
        for (const { name } of [META_TABLE, ROWS, INDEX, APPENDED, LOG_TABLE]) await source.dropTable(name);
        if (sourceFolder) rmSync(sourceFolder, { recursive: true, force: true });
        await Promise.all([source.close(), target.close()]);
      }));
  });
}

describe('replica: the log', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rowan-log-'));
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('leaves out the rows of a table that is dropped while they are sent', async () => {
    const store = await openLmdbStore(folder, { create: true });
    for (const spec of [LOG_TABLE, ROWS]) await store.createTable(spec);
    expect(await lastEntry(store)).to.equal(0n);
    const put = [{ family: 0, qualifier: bytes('q'), value: Buffer.alloc(9000) }];
    const steps = Array.from({ length: 80 }, (_, i) => ({ table: 'rows', key: bytes(`k${i}`), put }));
    await store.commit({ steps, decisive: 0 });
    const entry = (await store.get(LOG_TABLE.name, counterBytes(1n)))!;
    const kinds: string[] = [];
    for await (const message of sendTouched(store, [entry])) {
      const { kind } = decodeMessage(message);
      kinds.push(kind);
      if (kind === 'touched') await store.dropTable('rows');
    }
    expect(kinds).to.deep.equal(['tables', 'touched']);
    await store.dropTable(LOG_TABLE.name);
    expect(await lastEntry(store)).to.equal(0n);
    await store.close();
  });

  it('is not sent to a replica that is ahead: what it has differs when this server is promoted', async () => {
    const store = await openLmdbStore(join(folder, 'ahead'), { create: true });
    await store.createTable(META_TABLE);
    await grant(store, 'one', bytes('hash'));
    const { terms } = await readHistory(store);
    const position = await lastEntry(store);
    expect(await refusalOf(store, { terms, position })).to.equal(undefined);
    expect(await refusalOf(store, { terms, position: position + 1n })).to.include({ reason: 'stale' });
    await store.close();
  });
});
