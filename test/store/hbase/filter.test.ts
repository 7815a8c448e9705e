import { expect } from 'chai';
import type { Cell, QualifierMatch, StoreFilter, TableSpec } from '../../../src/store/contract.js';
import { translate } from '../../../src/store/hbase/filter/translate.js';
import { HBaseClient } from '../../../src/store/hbase/rpc/client.js';
import type { TableHandle } from '../../../src/store/hbase/rpc/rpc-types.js';
import { TableRegistry } from '../../../src/store/hbase/schema/index.js';
import { packRow } from '../../../src/store/row.js';
import { compileFilter } from '../../../src/store/row-filter.js';
import { freshPrefix, hbase } from '../../hbase/server.js';
import { soakTest } from '../../rounds.js';
import { random } from '../suite/fixture.js';

const DATA = [0, 1];
const SPEC: TableSpec = { name: 'rows', families: [{ name: 'a' }, { name: 'b' }] };
const ROWS = 300;
const PEOPLE = 100_000;
const TOGETHER = 5000;
const FILTERS = 400;

/** Bytes that mean something to expressions, to Java's text or to its end. */
const LETTERS = Buffer.from([0x61, 0x62, 0x41, 0x5c, 0x2e, 0x2a, 0x28, 0x22, 0x0a, 0x00, 0x80, 0xc3, 0xff]);

class Source {
  readonly #next: (below: number) => number;

  constructor(next: (below: number) => number) {
    this.#next = next;
  }

  bytes(longest: number): Buffer {
    return Buffer.from(Array.from({ length: this.#next(longest + 1) }, () => LETTERS[this.#next(LETTERS.length)]!));
  }

  #some<T>(most: number, make: () => T): T[] {
    return Array.from({ length: this.#next(most + 1) }, make);
  }

  cells(): Cell[] {
    const cells = this.#some(6, () => ({ family: this.#next(2), qualifier: this.bytes(4), value: this.bytes(1) }));
    return cells.length > 0 ? cells : [{ family: 1, qualifier: Buffer.from('a'), value: Buffer.alloc(0) }];
  }

  #match(): QualifierMatch {
    switch (this.#next(3)) {
      case 0:
        return { prefix: this.bytes(2) };
      case 1: {
        const [from, to] = [this.bytes(3), this.bytes(3)].sort(Buffer.compare) as [Buffer, Buffer];
        return { from, to };
      }
      default:
        return {
          prefix: this.bytes(1),
          initial: this.#next(2) ? this.bytes(1) : undefined,
          any: this.#some(2, () => this.bytes(2)),
          final: this.#next(2) ? this.bytes(2) : undefined,
        };
    }
  }

  /** Filters over the second family alone are what the tree table sees. */
  filter(depth: number, families: number): StoreFilter {
    const family = families === 1 ? 1 : this.#next(2);
    switch (this.#next(depth > 0 ? 7 : 4)) {
      case 0:
        return { op: 'hasColumn', family, qualifier: this.bytes(2) };
      case 1:
        return { op: 'columnEquals', family, qualifier: this.bytes(1), value: this.bytes(1) };
      case 2:
      case 3:
        return { op: 'anyColumn', family, match: this.#match() };
      case 4:
        return { op: 'not', of: this.filter(depth - 1, families) };
      case 5:
        return { op: 'and', of: this.#some(3, () => this.filter(depth - 1, families)) };
      default:
        return { op: 'or', of: this.#some(3, () => this.filter(depth - 1, families)) };
    }
  }
}

function shown(filter: StoreFilter): string {
  return JSON.stringify(filter, (_name, value: unknown) =>
    typeof value === 'object' && value !== null && 'type' in value && value.type === 'Buffer'
      ? Buffer.from((value as unknown as { data: number[] }).data).toString('latin1')
      : value,
  );
}

describe('filters in the region servers', () => {
  let client: HBaseClient;
  let registry: TableRegistry;

  before(async function () {
    const server = await hbase(this);
    const settings = server.settings(freshPrefix());
    client = new HBaseClient(settings);
    registry = new TableRegistry(client, settings);
    await registry.ensure([]);
  });
  after(() => client?.close());

  async function tableOf(name: string, rows: ReadonlyMap<string, readonly Cell[]>): Promise<TableHandle> {
    const spec = { ...SPEC, name };
    await registry.create(spec, async () => 1n);
    const table = registry.handle(spec);
    await putAll(table, [...rows]);
    return table;
  }

  function putAll(table: TableHandle, rows: readonly (readonly [string, readonly Cell[]])[]): Promise<void> {
    return client.putMany(
      table,
      rows.map(([key, put]) => ({ key: Buffer.from(key), put })),
    );
  }

  /** Keys and rows that a filter brings over the wire. */
  async function ask(table: TableHandle, filter: StoreFilter) {
    const asked = translate(filter, { familyNames: table.families, rowFamilies: DATA });
    const found = new Map<string, Buffer>();
    if (asked.matchesNone) return { asked, found };
    const { families, columns, filter: encoded } = asked;
    const scan = client.scan(table, {}, { families, filter: encoded, ...(columns && { families: [], columns }) });
    for (let batch = await scan.next(); batch; batch = await scan.next()) {
      for (const [i, key] of batch.keys.entries()) found.set(key.toString(), batch.rows[i]!);
    }
    return { asked, found };
  }

  it('never leave out a row, and are exact where they say so', async function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    const source = new Source(next);
    const rows = new Map<string, Cell[]>();
    for (let i = 0; i < ROWS; i++) rows.set(`r${String(i).padStart(4, '0')}`, source.cells());
    const packed = new Map([...rows].map(([key, cells]) => [key, packRow(cells)]));
    const table = await tableOf('random', rows);
    let exact = 0;
    for (let i = 0; i < FILTERS; i++) {
      const filter = source.filter(3, next(2));
      const test = compileFilter(filter);
      const right = [...packed].filter(([, row]) => test(row)).map(([key]) => key);
      const { asked, found } = await ask(table, filter);
      const what = `${shown(filter)} (filter ${i}, seed ${seed})`;
      if (asked.isExact) {
        exact++;
        expect([...found.keys()], what).to.deep.equal(right);
      } else expect([...found.keys()], what).to.include.members(right);
      if (asked.hasWholeRows)
        for (const key of right) expect(found.get(key)!.equals(packed.get(key)!), what).to.equal(true);
    }
    expect(exact).to.be.above(FILTERS / 2);
  });

  /** One of 100,000 rows of five cells; ten of them differ from the others in what each test below asks for. */
  function person(i: number): readonly [string, Cell[]] {
    const odd = i % 10_000 === 7;
    const number = String(odd ? 99_900_000 + i : i).padStart(8, '0');
    const names = [
      ...['id', 'cn', `cn=${odd ? 'x\\.*"\0\xff' : 'common'} person ${i}`, `number=${number}`],
      odd ? 'title=chief' : 'title=clerk',
      ...(odd ? ['mail'] : ['phone']),
    ];
    const cells = names.map((name) => ({
      family: name === 'id' ? 0 : 1,
      qualifier: Buffer.from(name, 'latin1'),
      value: Buffer.alloc(4),
    }));
    return [`person${String(i).padStart(5, '0')}`, cells];
  }

  /** Makes a table of them; gives what is in it. */
  async function people(): Promise<{ table: TableHandle; rows: Map<string, Buffer> }> {
    const rows = new Map<string, Buffer>();
    const table = await tableOf('people', new Map());
    for (let from = 0; from < PEOPLE; from += TOGETHER) {
      const some = Array.from({ length: TOGETHER }, (_, i) => person(from + i));
      for (const [key, cells] of some) rows.set(key, packRow(cells));
      await putAll(table, some);
    }
    return { table, rows };
  }

  soakTest('let only what matches come over the wire', async () => {
    const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');
    const has = (name: string): StoreFilter => ({ op: 'hasColumn', family: 1, qualifier: bytes(name) });
    const any = (match: QualifierMatch): StoreFilter => ({ op: 'anyColumn', family: 1, match });
    const not = (of: StoreFilter): StoreFilter => ({ op: 'not', of });
    const pattern = any({ prefix: bytes('cn='), any: [bytes('.*"'), bytes('\0\xff')], final: bytes('7') });
    const range = any({ from: bytes('number=999'), to: bytes('number>') });
    // Ten rows of six cells, or the one cell of each that matches.
    const cases: [string, StoreFilter, number][] = [
      ['presence', has('mail'), 60],
      ['equality', has('title=chief'), 60],
      ['and', { op: 'and', of: [has('title=chief'), has('cn'), not(has('phone'))] }, 60],
      ['or', { op: 'or', of: [has('cn=common person 1'), has('title=chief'), has('mail')] }, 66],
      ['not', not(has('phone')), 60],
      ['not of any', not(any({ prefix: bytes('title=cl') })), 60],
      ['not of a pattern', not(any({ prefix: bytes('cn='), any: [bytes('mm')] })), 60],
      ['initial substring', any({ prefix: bytes('cn=x') }), 10],
      ['substrings', pattern, 10],
      ['range', range, 10],
      ['and of a substring and an equality', { op: 'and', of: [pattern, has('cn')] }, 10],
      ['or of substring and range', { op: 'or', of: [pattern, range] }, 20],
    ];
    const { table, rows } = await people();
    for (const [name, filter, cells] of cases) {
      const test = compileFilter(filter);
      const right = [...rows].filter(([, row]) => test(row)).map(([key]) => key);
      const before = client.statistics.cellsReceived;
      const { found } = await ask(table, filter);
      expect([...found.keys()], name).to.deep.equal(right);
      expect(client.statistics.cellsReceived - before, `${name}: cells`).to.equal(cells);
    }
  });
});
