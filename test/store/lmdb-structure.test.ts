import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { open, type RootDatabase } from 'lmdb';
import type { Store } from '../../src/store/contract.js';
import { checkDataFile } from '../../src/store/lmdb/file/data-file.js';
import { findDamagedPages, openLmdbStore } from '../../src/store/lmdb/index.js';
import { StoreError } from '../../src/store/store-error.js';
import { type Random, seeded } from '../partition/fixture.js';
import { rounds } from '../rounds.js';
import { bytes, cell, codeOf } from './suite/fixture.js';

const PAGE = 8192;
const HEADER = 24;
const BINARY = { encoding: 'binary', keyEncoding: 'binary' } as const;

const ROWS = { name: 'rows', families: [{ name: 'a' }, { name: 'b', separate: true }] };
const LISTS = { name: 'lists', families: [{ name: 'i' }], suffixBytes: 4 };
const DROPPED = { name: 'dropped', families: [{ name: 'a' }] };

/** Rows with keys so long that few of them make a deep tree. */
async function addDeep(store: Store, count: number): Promise<void> {
  const key = (i: number) => Buffer.from(`${String((i * 7919) % 10_007).padStart(6, '0')}${'k'.repeat(1500)}`);
  const steps = Array.from({ length: count }, (_, i) => ({ table: 'rows', key: key(i), put: [cell(0, 'q', `v${i}`)] }));
  await store.commit({ steps, decisive: 0 });
}

async function addLarge(store: Store): Promise<void> {
  const put = [cell(0, 'long', 'l'.repeat(3 * PAGE)), cell(1, 'separate', 's'.repeat(5 * PAGE))];
  for (let i = 0; i < 4; i++) {
    await store.commit({ steps: [{ table: 'rows', key: bytes(`large ${i}`), put }], decisive: 0 });
  }
  const many = Array.from({ length: 3000 }, (_, i) => cell(0, `member ${i}`, `value of ${i}`));
  await store.commit({ steps: [{ table: 'rows', key: bytes('many cells'), put: many }], decisive: 0 });
}

async function addLists(store: Store): Promise<void> {
  for (const prefix of ['=a', '=ab', '=b']) {
    const steps = Array.from({ length: 6000 }, (_, i) => {
      const key = Buffer.alloc(prefix.length + 4);
      key.write(prefix);
      key.writeUInt32BE((i * 7919) % 100_003, prefix.length);
      return { table: 'lists', key, put: [cell(0, '', '')] };
    });
    await store.commit({ steps, decisive: 0 });
  }
}

async function removeSome(store: Store): Promise<void> {
  for (const key of ['large 0', 'large 2']) {
    await store.commit({ steps: [{ table: 'rows', key: bytes(key), deleteRow: true }], decisive: 0 });
  }
  await store.createTable(DROPPED);
  for (let i = 0; i < 20; i++) {
    const step = { table: 'dropped', key: bytes(`${i}`), put: [cell(0, 'q', 'x'.repeat(1000))] };
    await store.commit({ steps: [step], decisive: 0 });
  }
  await store.dropTable('dropped');
}

async function withRoot<T>(folder: string, work: (root: RootDatabase<Buffer, Buffer>) => T): Promise<T> {
  const root = open<Buffer, Buffer>({ path: folder, noSubdir: false, maxDbs: 50, pageSize: PAGE, ...BINARY });
  try {
    return work(root);
  } finally {
    await root.close();
  }
}

/** Changes the bytes of a file, or gives other bytes. */
type Damage = (file: Buffer, random: Random) => Buffer | undefined;

const pageOf = (file: Buffer, page: number): Buffer => file.subarray(page * PAGE, (page + 1) * PAGE);
const anyPage = (file: Buffer, random: Random): number => 2 + random.int(file.length / PAGE - 2);

/** A page that calls itself what it is, and is a branch or a leaf. */
function treePage(file: Buffer, random: Random, kinds: readonly number[] = [1, 2]): Buffer {
  for (;;) {
    const number = anyPage(file, random);
    const page = pageOf(file, number);
    if (kinds.includes(page.readUInt16LE(18)) && page.readUInt32LE(0) === number && page.readUInt16LE(20) > 0)
      return page;
  }
}

function anyNode(page: Buffer, random: Random): number {
  return HEADER + page.readUInt16LE(HEADER + 2 * random.int(page.readUInt16LE(20) / 2));
}

const DAMAGES: Readonly<Record<string, Damage>> = {
  'header fields': (file, random) => {
    const page = treePage(file, random, [1, 2, 4]);
    page[random.int(HEADER)]! ^= 1 << random.int(8);
    return undefined;
  },
  'bounds of the free room': (file, random) => {
    const at = 20 + 2 * random.int(2);
    const page = treePage(file, random);
    page.writeUInt16LE((page.readUInt16LE(at) + 2 * (random.int(9) - 4)) & 0xffff, at);
    return undefined;
  },
  'offsets of nodes': (file, random) => {
    const page = treePage(file, random);
    const at = HEADER + 2 * random.int(page.readUInt16LE(20) / 2);
    page.writeUInt16LE(random.chance(0.5) ? random.int(0x10000) : page.readUInt16LE(at) ^ (1 << random.int(16)), at);
    return undefined;
  },
  'headers of nodes': (file, random) => {
    const page = treePage(file, random);
    page[anyNode(page, random) + random.int(8)]! ^= 1 << random.int(8);
    return undefined;
  },
  'page numbers in branches': (file, random) => {
    const page = treePage(file, random, [1]);
    const number = random.chance(0.5) ? random.int(file.length / PAGE) : random.int(2 ** 31);
    page.writeUInt32LE(number, anyNode(page, random));
    return undefined;
  },
  'swapped pages': (file, random) => {
    const [a, b] = [treePage(file, random, [1, 2, 4]), treePage(file, random, [1, 2, 4])];
    // Half of them with the numbers that belong there.
    const from = random.chance(0.5) ? 0 : 8;
    const copy = Buffer.from(a);
    b.copy(a, from, from);
    copy.copy(b, from, from);
    return undefined;
  },
  'duplicated pages': (file, random) => {
    const from = random.chance(0.5) ? 0 : 8;
    treePage(file, random).copy(treePage(file, random), from, from);
    return undefined;
  },
  'zeroed pages': (file, random) => {
    const page = pageOf(file, anyPage(file, random));
    page.fill(0, random.chance(0.5) ? 0 : 512 * random.int(16));
    return undefined;
  },
  'a file cut short': (file, random) => file.subarray(0, random.int(file.length)),
  'meta pages': (file, random) => {
    file[random.int(2) * PAGE + random.int(168)]! ^= 1 << random.int(8);
    return undefined;
  },
  'records of databases': (file, random) => {
    for (;;) {
      const page = treePage(file, random, [2]);
      const node = anyNode(page, random);
      if (page.readUInt16LE(node + 4) !== 2) continue;
      const at = node + 8 + page.readUInt16LE(node + 6) + random.int(48);
      if (at < PAGE) page[at]! ^= 1 << random.int(8);
      return undefined;
    }
  },
  anything: (file, random) => {
    for (let i = 0; i <= random.int(4); i++) file[2 * PAGE + random.int(file.length - 2 * PAGE)]! ^= 1 << random.int(8);
    return undefined;
  },
};

/** Changes all leaves that have some rows, but for those of the catalog and of LMDB's list of databases. */
function changeLeaves(file: Buffer, change: (page: Buffer) => void): void {
  for (let number = 2; number < file.length / PAGE; number++) {
    const page = pageOf(file, number);
    if (
      page.readUInt16LE(18) === 2 &&
      page.readUInt32LE(0) === number &&
      page.readUInt16LE(20) > 4 &&
      !page.includes('nextId') &&
      !page.includes('catalog')
    )
      change(page);
  }
}

describe('lmdb: structure', function () {
  this.timeout(600_000);
  let folder: string;
  let store: Store | undefined;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-structure-'));
    store = await openLmdbStore(folder);
  });
  afterEach(async () => {
    await store?.close();
    store = undefined;
    rmSync(folder, { recursive: true });
  });

  async function fill(): Promise<void> {
    for (const spec of [ROWS, LISTS]) await store!.createTable(spec);
    await addDeep(store!, 120);
    await addLarge(store!);
    await addLists(store!);
    await removeSome(store!);
  }

  /** Fills the folder and returns its data file, which no process has open. */
  async function fillAndClose(): Promise<Buffer> {
    await fill();
    await store!.close();
    store = undefined;
    return readFileSync(join(folder, 'data.mdb'));
  }

  it('of a sound file has nothing to find: empty, deep, large values, long lists, after deletes and a drop', async () => {
    expect(await findDamagedPages(folder)).to.deep.equal([]);
    for (const spec of [ROWS, LISTS]) await store!.createTable(spec);
    for (const more of [(s: Store) => addDeep(s, 400), addLarge, addLists, removeSome]) {
      await more(store!);
      let seen: readonly number[] = [];
      const findings = await findDamagedPages(folder, (...rows) => {
        seen = rows;
      });
      expect(findings).to.deep.equal([]);
      expect(seen[0]).to.be.within(1, seen[1]!);
    }
  });

  it('of a file without its last pages is sound where they are free, and else the file is cut short', async () => {
    await fillAndClose();
    const path = join(folder, 'data.mdb');
    await withRoot(folder, (root) => {
      const db = root.openDB<Buffer, Buffer>('t1', BINARY);
      root.transactionSync(() => {
        db.putSync(bytes('for a moment'), Buffer.alloc(100 * PAGE));
        db.putSync(bytes('for good'), Buffer.alloc(9 * PAGE));
        db.removeSync(bytes('for a moment'));
        db.removeSync(bytes('for good'));
      });
    });
    const file = readFileSync(path);
    const [first, second] = [0, 1].map((page) => file.readUInt32LE(page * PAGE + 144));
    expect(file.length / PAGE).to.be.lessThan(Math.max(first!, second!) + 1);
    let shortest = file.length / PAGE;
    for (let pages = shortest - 1; pages > 1; pages -= pages === shortest ? 1 : 10) {
      truncateSync(path, pages * PAGE);
      const error: unknown = await checkDataFile(path).catch((reason: unknown) => reason);
      if (error === undefined) expect(shortest--).to.equal(pages + 1);
      else expect(error).to.have.property('message').that.contains('it should have');
    }
    writeFileSync(path, file.subarray(0, shortest * PAGE));
    expect(await findDamagedPages(folder)).to.deep.equal([]);
    store = await openLmdbStore(folder);
    await addDeep(store, 500);
    expect(await findDamagedPages(folder)).to.deep.equal([]);
  });

  it('is read while a writer goes on', async () => {
    await fill();
    let ended = false;
    let commits = 0;
    const writing = (async () => {
      for (; !ended; commits++) {
        const key = Buffer.from(`w${commits % 20}`.padEnd(1000, 'w'));
        const put = [cell(0, 'q', 'x'.repeat((commits % 5) * PAGE))];
        await store!.commit({ steps: [{ table: 'rows', key, deleteRow: true }], decisive: 0 });
        await store!.commit({ steps: [{ table: 'rows', key, put }], decisive: 0 });
      }
    })();
    for (let i = 0; i < 4; i++) expect(await findDamagedPages(folder)).to.deep.equal([]);
    ended = true;
    await writing;
    expect(commits).to.be.greaterThan(0);
  });

  it('names tables whose pages have lost rows, and holds writes', async () => {
    const sound = await fillAndClose();
    const path = join(folder, 'data.mdb');
    const file = Buffer.from(sound);
    changeLeaves(file, (page) => page.writeUInt16LE(page.readUInt16LE(20) - 2, 20));
    writeFileSync(path, file);
    const findings = await findDamagedPages(folder);
    expect(findings.join('\n')).to.match(
      /table rows \(t1\) is damaged: it has \d+ rows, and LMDB's record of it tells/,
    );
    writeFileSync(path, sound);
    store = await openLmdbStore(folder);
    const put = store.commit({ steps: [{ table: 'rows', key: bytes('k'), put: [cell(0, 'q', 'v')] }], decisive: 0 });
    expect(await codeOf(put)).to.equal('held');
  });

  it('that crashes LMDB is a finding, which names the table', async () => {
    const file = await fillAndClose();
    changeLeaves(file, (page) => page.writeUInt32LE(0x7fff0000, HEADER + page.readUInt16LE(HEADER)));
    writeFileSync(join(folder, 'data.mdb'), file);
    const findings = await findDamagedPages(folder);
    expect(findings.join('\n')).to.match(/^table rows \(t1\)(?: behind row [0-9a-f]+)?: .* crashed \(SIG[A-Z]+\)/m);
  });

  it('of a file lacks a database of a table where its name is another', async () => {
    const file = await fillAndClose();
    // In each state of the list of databases that is in the file.
    for (let at = file.indexOf('t1:1\0'); at >= 0; at = file.indexOf('t1:1\0', at + 1)) file.write('5', at + 3);
    writeFileSync(join(folder, 'data.mdb'), file);
    expect(await findDamagedPages(folder)).to.deep.equal([
      "LMDB's list of databases is damaged: database t1:1 is not in it",
    ]);
  });

  it('with any damage ends the reading with findings, and lets the process live that asked', async () => {
    const sound = await fillAndClose();
    let found = 0;
    await seeded(async (random) => {
      for (let i = 0; i < rounds(1, 30); i++) {
        for (const [kind, damage] of Object.entries(DAMAGES)) {
          const file = Buffer.from(sound);
          writeFileSync(join(folder, 'data.mdb'), damage(file, random) ?? file);
          const findings = await findDamagedPages(folder).catch((error: unknown) => {
            expect(error, kind).to.be.instanceOf(StoreError);
            expect((error as StoreError).code, `${kind}: ${error}`).to.be.oneOf(['corrupt', 'format']);
            return [String(error)];
          });
          if (findings.length > 0) found++;
        }
      }
    });
    expect(found).to.be.greaterThan(0);
  });
});
