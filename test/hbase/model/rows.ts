import type { CellName, Guard, KeyRange, TableSpec } from '../../../src/store/contract.js';
import type { RowClient, TableLookup } from '../../../src/store/hbase/cluster.js';
import { INTERNAL_TABLES, MAX_TIME } from '../../../src/store/hbase/journal/journal-tables.js';
import type { ReadOptions, RowMutation, TableHandle } from '../../../src/store/hbase/rpc/rpc-types.js';
import { internalHandle, tableHandle } from '../../../src/store/hbase/schema/index.js';
import { hbaseSettings } from '../../../src/store/hbase/settings.js';
import { compareCells, counterBytes, packRow } from '../../../src/store/row.js';
import { guardHolds } from '../../../src/store/row-edit.js';
import { StoreError } from '../../../src/store/store-error.js';
import type { World } from './world.js';

const SETTINGS = hbaseSettings({ url: 'hbase://nowhere:1/m', regions: 1 });

/** A cell as HBase keeps it: the newest put, and the newest deletion, by their timestamps. */
interface Kept extends CellName {
  value: Buffer;
  put: bigint;
  gone: bigint;
}

class Row {
  readonly cells = new Map<string, Kept>();
  /** Cells up to then are gone. */
  gone = -1n;
}

/** Families whose cells go by the order of arrival, not by timestamps. */
type Ordered = (family: number) => boolean;

class Table {
  readonly rows = new Map<string, Row>();
  readonly ordered: Ordered;

  constructor(ordered: Ordered) {
    this.ordered = ordered;
  }

  visible(key: Buffer, { families, columns }: ReadOptions = {}): Buffer | undefined {
    const row = this.rows.get(key.toString('latin1'));
    const found = [...(row?.cells.values() ?? [])].filter((cell) => {
      if (cell.put <= cell.gone || cell.put <= row!.gone) return false;
      if (!families && !columns) return true;
      return families?.includes(cell.family) || columns?.some((name) => compareCells(name, cell) === 0);
    });
    if (found.length === 0) return undefined;
    return packRow(found.sort(compareCells));
  }

  value(key: Buffer, name: CellName): Buffer | undefined {
    const row = this.rows.get(key.toString('latin1'));
    const cell = row?.cells.get(nameOf(name));
    return row && cell && cell.put > cell.gone && cell.put > row.gone ? cell.value : undefined;
  }

  mutate({ key, guards = [], put = [], delete: gone = [], deleteRow, timestamp }: RowMutation): boolean {
    if (guards.length > 1 && !this.visible(key)) return false;
    // The absence of a cell, asked for alone, is also that it has nothing in it: a limit of HBase.
    const value = (name: CellName): Buffer | undefined => {
      const found = this.value(key, name);
      return found?.length === 0 && guards.length === 1 ? undefined : found;
    };
    if (
      !guards.every((guard: Guard) => guardHolds(guard, guard.op === 'absent' ? value(guard) : this.value(key, guard)))
    )
      return false;
    const id = key.toString('latin1');
    const row = this.rows.get(id) ?? new Row();
    this.rows.set(id, row);
    if (deleteRow) {
      // Cells of ordered families have the timestamp FOREVER.
      for (const [name, { family }] of row.cells)
        if (this.ordered(family) && timestamp! > MAX_TIME) row.cells.delete(name);
      if (timestamp! - 1n > row.gone && !this.ordered(0)) row.gone = timestamp! - 1n;
    }
    for (const name of gone) {
      if (put.some((cell) => compareCells(cell, name) === 0)) continue;
      if (this.ordered(name.family)) row.cells.delete(nameOf(name));
      else {
        const cell = this.#cell(row, name);
        if (timestamp! > cell.gone) cell.gone = timestamp!;
      }
    }
    for (const { value, ...name } of put) {
      const cell = this.#cell(row, name);
      if (!this.ordered(name.family) && timestamp !== undefined && timestamp < cell.put) continue;
      cell.value = value;
      cell.put = this.ordered(name.family) ? 1n : (timestamp ?? cell.put + 1n);
    }
    if (row.cells.size === 0 && row.gone < 0n) this.rows.delete(id);
    return true;
  }

  #cell(row: Row, { family, qualifier }: CellName): Kept {
    const name = nameOf({ family, qualifier });
    let cell = row.cells.get(name);
    if (!cell) {
      cell = { family, qualifier, value: Buffer.alloc(0), put: -1n, gone: -1n };
      row.cells.set(name, cell);
    }
    return cell;
  }

  keys({ from, to }: KeyRange): Buffer[] {
    const keys = [...this.rows.keys()].map((id) => Buffer.from(id, 'latin1')).sort(Buffer.compare);
    return keys.filter((key) => (!from || key.compare(from) >= 0) && (!to || key.compare(to) < 0));
  }

  text(): string {
    const rows = [...this.rows].sort(([a], [b]) => (a < b ? -1 : 1));
    return rows
      .map(([id, row]) => `${id} ${row.gone} ${[...row.cells.values()].map(cellText).sort().join()}`)
      .join('\n');
  }
}

function nameOf({ family, qualifier }: CellName): string {
  return `${family}:${qualifier.toString('latin1')}`;
}

function cellText({ family, qualifier, value, put, gone }: Kept): string {
  return `${family}:${qualifier.toString('hex')}=${value.toString('hex')}@${put}/${gone}`;
}

/**
 * HBase as the journal sees it: rows that change one at a time, cells with timestamps. Every row that is read or
 * changed is a request of its own, as they go to servers of their own.
 */
export class ModelRows {
  readonly #tables = new Map<string, Table>();
  readonly tables: TableLookup;

  constructor(specs: readonly TableSpec[]) {
    this.tables = {
      internal: (table) => internalHandle(SETTINGS, table),
      handle: (spec) => tableHandle(SETTINGS, spec),
      find: (name) => Promise.resolve(specs.find((spec) => spec.name === name)),
      list: () => Promise.resolve([...specs]),
    };
    for (const table of INTERNAL_TABLES)
      this.#tables.set(
        internalHandle(SETTINGS, table).name,
        new Table((family) => table.families[family]!.isOrdered === true),
      );
    for (const spec of specs)
      this.#tables.set(tableHandle(SETTINGS, spec).name, new Table((family) => family === spec.families.length));
  }

  table({ name }: TableHandle): Table {
    return this.#tables.get(name)!;
  }

  text(): string {
    return [...this.#tables].map(([name, table]) => `${name}\n${table.text()}`).join('\n');
  }

  /** For one front end. */
  for(world: Pick<World, 'request'>, front: number): RowClient {
    const read = <T>(what: string, work: () => T, show: (answer: T) => string): Promise<T> =>
      world.request(front, `read ${what}`, work, show);
    const change = (table: TableHandle, mutation: RowMutation): Promise<boolean> => {
      let tries = 0;
      // Done once more where the answer was lost: what may not be, or whose guard fails then, has an unknown outcome.
      const work = (): boolean => {
        const isAgain = tries++ > 0;
        if (isAgain && !mutation.isRepeatable) throw lost();
        const done = this.table(table).mutate(mutation);
        if (isAgain && !done && !mutation.isFalseWhenUnknown) throw lost();
        return done;
      };
      return world.request(front, mutationText(table, mutation), work, String);
    };
    const get: RowClient['get'] = (table, key, options) =>
      read(`${table.name} ${key.toString('latin1')}`, () => this.table(table).visible(key, options), hex);
    const refused = (): never => {
      throw new TypeError('the model has no such request');
    };
    return {
      get,
      getMany: (table, keys, options) => Promise.all(keys.map((key) => get(table, key, options))),
      mutate: change,
      async putMany(table, mutations) {
        await Promise.all(mutations.map((mutation) => change(table, { ...mutation, isRepeatable: true })));
      },
      increment: (table, key, adds) =>
        world.request(
          front,
          `add ${table.name} ${adds.map(({ by }) => by).join()}`,
          () =>
            adds.map(({ by, ...name }) => {
              const value = (this.table(table).value(key, name)?.readBigInt64BE() ?? 0n) + by;
              this.table(table).mutate({ key, put: [{ ...name, value: counterBytes(value) }] });
              return value;
            }),
          String,
        ),
      scan: (table, range, options) => {
        let over = false;
        return {
          next: async () => {
            if (over) return undefined;
            over = true;
            return read(
              `scan ${table.name}`,
              () => {
                const keys = this.table(table).keys(range);
                const rows = keys.map((key) => this.table(table).visible(key, options));
                const found = keys.filter((_, i) => rows[i]);
                const there = rows.filter((row) => row !== undefined);
                return { keys: found, rows: there, scanned: found.length, until: 'end' as const };
              },
              ({ keys, rows }) => [...keys, ...rows].map(hex).join(),
            );
          },
          close: () => undefined,
        };
      },
      lookup: refused,
      putRows: refused,
    };
  }
}

export function lost(): StoreError {
  return new StoreError('unavailable', 'lost', { applied: 'unknown' });
}

function hex(row: Buffer | undefined): string {
  return row ? row.toString('hex') : '-';
}

function mutationText({ name }: TableHandle, { key, guards = [], put = [], ...rest }: RowMutation): string {
  const cells = put.map((cell) => `${nameOf(cell)}=${cell.value.toString('hex')}`).join();
  const conditions = guards
    .map((guard) => `${guard.op} ${guard.op === 'equals' ? guard.value.toString('hex') : ''}`)
    .join();
  const gone = rest.deleteRow ? 'row' : (rest.delete ?? []).map(nameOf).join();
  return `change ${name} ${key.toString('latin1')} if ${conditions} put ${cells} delete ${gone} at ${rest.timestamp ?? ''}`;
}
