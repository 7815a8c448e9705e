import type {
  Batch,
  Cell,
  KeyRange,
  LoadRow,
  Reader,
  RowStep,
  Scan,
  ScanOptions,
  Store,
  TableSpec,
} from '../../../src/store/contract.js';
import { packRow } from '../../../src/store/row.js';
import { StoreError, type StoreErrorCode } from '../../../src/store/store-error.js';
import type { Opened } from '../suite.js';

/** The families of `people`, by number. */
export const A = 0;
export const B = 1;
export const LARGE = 2;

export const PEOPLE: TableSpec = {
  name: 'suite_people',
  families: [{ name: 'a' }, { name: 'b' }, { name: 'large', separate: true }],
};
export const INDEX: TableSpec = { name: 'suite_index', families: [{ name: 'i' }], suffixBytes: 4 };
export const LOG: TableSpec = { name: 'suite_log', families: [{ name: 'c' }], rising: true };

/** One store for the whole suite; tests keep apart by the prefixes of their keys. */
export class Fixture {
  #opened: Opened | undefined;
  readonly #factory: () => Promise<Opened>;

  constructor(factory: () => Promise<Opened>) {
    this.#factory = factory;
  }

  get store(): Store {
    return this.#opened!.store;
  }

  /** Rounds of a random test: a third where each call goes to a server, as it does where there are no snapshots. */
  rounds(count: number): number {
    return this.store.supports.snapshot ? count : count / 3;
  }

  async open(): Promise<void> {
    this.#opened = await this.#factory();
    for (const spec of [PEOPLE, INDEX, LOG]) {
      await this.store.dropTable(spec.name);
      await this.store.createTable(spec);
    }
  }

  async close(): Promise<void> {
    await this.#opened?.cleanup();
  }

  commit(...steps: (RowStep | { table: string; append: Cell[] })[]): Promise<void> {
    return this.store.commit({ steps, decisive: 0 });
  }

  /** Bulk-loads rows into one table. */
  ingest(table: string, rows: Iterable<LoadRow>, options: { absent?: boolean; append?: boolean } = {}): Promise<void> {
    return this.store.ingest([{ table, rows, ...options }], { steps: [], decisive: 0 });
  }

  /** Puts rows of `people`, each given as `family:qualifier` → value. */
  async put(rows: Record<string, Record<string, string>>): Promise<void> {
    await this.commit(
      ...Object.entries(rows).map(([key, cells]) => ({ table: PEOPLE.name, key: bytes(key), put: cellsOf(cells) })),
    );
  }
}

/** Latin-1, so that any byte can be written. */
export function bytes(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

export function cell(family: number, qualifier: string, value: string): Cell {
  return { family, qualifier: bytes(qualifier), value: bytes(value) };
}

/** `{'0:name': 'value'}` as cells. */
export function cellsOf(cells: Record<string, string>): Cell[] {
  return Object.entries(cells).map(([name, value]) => cell(Number(name[0]), name.slice(2), value));
}

export function row(cells: Record<string, string>): Buffer {
  return packRow(cellsOf(cells));
}

export async function batches(scan: Scan): Promise<Batch[]> {
  const found: Batch[] = [];
  for (;;) {
    const batch = await scan.next();
    if (!batch) return found;
    found.push(batch);
  }
}

/** Keys (latin-1) and rows of a whole scan. */
export async function scanAll(
  reader: Reader,
  table: string,
  range: KeyRange,
  options?: ScanOptions,
): Promise<{ keys: string[]; rows: (Buffer | undefined)[] }> {
  const found = await batches(reader.scan(table, range, options));
  return {
    keys: found.flatMap((batch) => batch.keys.map((key) => key.toString('latin1'))),
    rows: found.flatMap((batch) => [...batch.rows]),
  };
}

/** The range of all keys that start with `prefix`. */
export function under(prefix: string): KeyRange {
  return { from: bytes(prefix), to: bytes(prefix + '\xff') };
}

/** The code of the StoreError that the promise rejects with. */
export async function codeOf(promise: Promise<unknown>): Promise<StoreErrorCode | 'none'> {
  return (await errorOf(promise))?.code ?? 'none';
}

export async function errorOf(promise: Promise<unknown>): Promise<StoreError | undefined> {
  try {
    await promise;
    return undefined;
  } catch (error) {
    if (error instanceof StoreError) return error;
    throw error;
  }
}

/** The same for a call that may throw at once. */
export function codeOfCall(call: () => unknown): Promise<StoreErrorCode | 'none'> {
  return codeOf((async () => call())());
}

/** Numbers from a seed that a failing test prints; `ROWAN_SEED` repeats it. */
export function random(): { seed: number; next(below: number): number } {
  const seed = Number(process.env.ROWAN_SEED ?? Math.floor(Math.random() * 0x7fffffff));
  let state = seed;
  return {
    seed,
    next(below) {
      state = (state + 0x9e3779b9) | 0;
      let z = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
      z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
      return Math.floor((((z ^ (z >>> 15)) >>> 0) / 0x100000000) * below);
    },
  };
}
