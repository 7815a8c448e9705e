import type { Batch, Maybe, Plan, Reader, Scan, Store } from '../../src/store/contract.js';
import { chain } from '../../src/store/maybe.js';

/** What a store was asked to do so far. */
export interface StoreWork {
  /** Rows, keys and ids of index rows that it read, those that it counted one by one among them. */
  rows: number;
  /** The same of table `changes`, `master`, …, by name. */
  readonly rowsOf: Map<string, number>;
  readonly plans: Plan[];
}

/** The store, and what it does from now on. */
export function counted(inner: Store): { readonly store: Store; readonly work: StoreWork } {
  const work: StoreWork = { rows: 0, rowsOf: new Map(), plans: [] };
  return { store: watched(inner, work), work };
}

/** Bytes of an entryUUID, the suffix of every index row. */
const SUFFIX_BYTES = 16;

/** Rows that the answer of a reading call stands for. */
const ROWS: Readonly<Record<string, (answer: never) => number>> = {
  get: () => 1,
  getHead: () => 1,
  getScratchHead: () => 1,
  getColumns: () => 1,
  getCells: () => 1,
  getMany: (rows: readonly unknown[]) => rows.length,
  keysOfCells: (keys: readonly unknown[]) => keys.length,
  namesOfCells: () => 1,
  postings: (suffixes: Buffer) => suffixes.length / SUFFIX_BYTES,
  postingsMany: (lists: readonly Buffer[]) => Buffer.concat(lists).length / SUFFIX_BYTES,
  rangePostings: (suffixes: Buffer) => suffixes.length / SUFFIX_BYTES,
  // LMDB knows it without counting.
  postingCount: () => 1,
  count: (rows: number) => rows,
};

function watched<R extends Reader>(inner: R, work: StoreWork): R {
  const add = (table: string, rows: number): void => {
    work.rows += rows;
    work.rowsOf.set(table, (work.rowsOf.get(table) ?? 0) + rows);
  };
  return new Proxy(inner, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== 'function') return member;
      return (...given: unknown[]) => {
        const answer = Reflect.apply(member, target, given) as unknown;
        const table = given[0] as string;
        const rowsIn = ROWS[String(name)];
        if (rowsIn)
          return chain(answer as Maybe<never>, (rows) => {
            add(table, rowsIn(rows));
            return rows;
          });
        if (name === 'scan') return scanned(answer as Scan, (rows) => add(table, rows));
        if (name === 'snapshot') return watched(answer as Reader, work);
        if (name === 'commit') work.plans.push(given[0] as Plan);
        return answer;
      };
    },
  });
}

function scanned(scan: Scan, add: (rows: number) => void): Scan {
  return {
    next: (): Maybe<Batch | undefined> =>
      chain(scan.next(), (batch) => {
        add(batch?.scannedCount ?? 0);
        return batch;
      }),
    close: () => scan.close(),
  };
}
