/**
 * A process of its own for the LMDB tests: `node lmdb-child.js MODE FOLDER`. Says what happens, a line each, on stdout.
 *
 * - `write`: creates table `w` and commits plans from eight writers without end: `n` for each that was acknowledged.
 *   With a failpoint behind FOLDER it says its name when it comes there, and stops (SIGSTOP).
 * - `open`: opens and closes, as user nobody where it runs as root: `ok`, or the error as JSON. `read` does it
 *   read-only.
 * - `fill`: commits rows of 64 KiB until it fails; then reads, commits a small row when room was made, and closes.
 * - `table`: creates table `other` with the row `k`.
 * - `tables`: creates and drops table `other` again and again, until its standard input ends.
 */
import { existsSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Store } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { StoreError } from '../../src/store/store-error.js';

const [mode, folder, point] = process.argv.slice(2) as [string, string, string?];
const FAMILIES = [{ name: 'a' }];
const say = (line: string) => process.stdout.write(line + '\n');

function put(store: Store, table: string, key: string, value: Buffer): Promise<void> {
  const cell = { family: 0, qualifier: Buffer.from('q'), value };
  return store.commit({ steps: [{ table, key: Buffer.from(key), put: [cell] }], decisive: 0 });
}

async function write(): Promise<void> {
  const failpoint = (name: string): void => {
    if (name !== point) return;
    say(name);
    process.kill(process.pid, 'SIGSTOP');
  };
  const store = await openLmdbStore(folder, { failpoint });
  await store.createTable({ name: 'w', families: FAMILIES });
  await store.createTable({ name: 'log', families: FAMILIES, rising: true });
  const start = Date.now();
  let next = 0;
  const writer = async (): Promise<void> => {
    for (;;) {
      const name = `${start}.${next++}`;
      const key = Buffer.from(name);
      const put = [{ family: 0, qualifier: Buffer.from('q'), value: Buffer.alloc(700, name) }];
      const count = [{ family: 0, qualifier: Buffer.from('n'), by: 1n }];
      const steps = [
        { table: 'w', key, put },
        { table: 'w', key: Buffer.from('count'), add: count },
        { table: 'log', append: put },
      ];
      await store.commit({ steps, decisive: 0 });
      say(name);
    }
  };
  await Promise.all(Array.from({ length: 8 }, writer));
}

async function open(readOnly: boolean): Promise<void> {
  if (process.getuid!() === 0) {
    process.setgid!(65534);
    process.setuid!(65534);
  }
  const store = await openLmdbStore(folder, { readOnly });
  await store.tables();
  await store.close();
  say('ok');
}

async function fill(): Promise<void> {
  const store = await openLmdbStore(folder);
  await store.createTable({ name: 'f', families: FAMILIES });
  let done = 0;
  try {
    for (; ; done++) await put(store, 'f', `row ${done}`, Buffer.alloc(64 * 1024, done));
  } catch (error) {
    report(error);
  }
  say(`rows ${done} ${await store.count('f', {}, 1_000_000)}`);
  const room = join(folder, '..', 'room');
  if (existsSync(room)) {
    unlinkSync(room);
    await put(store, 'f', 'again', Buffer.alloc(10));
    say(`again ${(await store.get('f', Buffer.from('again'))) !== undefined}`);
  }
  await store.close();
  say('closed');
}

async function table(): Promise<void> {
  const store = await openLmdbStore(folder);
  await store.createTable({ name: 'other', families: FAMILIES });
  await put(store, 'other', 'k', Buffer.from('from another process'));
  await store.close();
  say('ok');
}

async function tables(): Promise<void> {
  const store = await openLmdbStore(folder);
  let isOver = false;
  process.stdin.resume().once('end', () => {
    isOver = true;
  });
  for (let count = 0; !isOver; count++) {
    await store.createTable({ name: 'other', families: FAMILIES });
    await store.dropTable('other');
    if (count === 0) say('begun');
    await new Promise(setImmediate);
  }
  await store.close();
}

function report(error: unknown): void {
  if (!(error instanceof StoreError)) throw error;
  say(JSON.stringify({ code: error.code, message: error.message, applied: error.applied }));
}

const modes: Record<string, () => Promise<void>> = {
  write,
  open: () => open(false),
  read: () => open(true),
  fill,
  table,
  tables,
};
try {
  await modes[mode]!();
} catch (error) {
  report(error);
}
