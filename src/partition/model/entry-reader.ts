import { sameRun } from '../../bytes/compare.js';
import type { RowLayout } from '../../store/contract.js';
import { CELL_HEADER, EMPTY, nextCell, qualifierLength, valueLength, valueStart } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { DescriptionTable, INDEX_BYTES, type StoredDescription } from './descriptions.js';
import { MASTER } from './tables.js';

const ATTRIBUTES = MASTER.upAttributes;

/**
 * Locates the attributes and values of a packed master row by offsets. One reader serves many rows without allocating,
 * and its contents are valid until the next `open` or `read`.
 */
export class EntryReader {
  readonly #table: DescriptionTable;
  readonly #layout: RowLayout | undefined;
  row: Buffer = EMPTY;
  count = 0;
  readonly stored: StoredDescription[] = [];
  /** Number of the first value by attribute. Attribute `i` has values `[firsts[i], firsts[i + 1])`. */
  firsts = new Int32Array(64);
  /** Value `v` is `row[starts[v], ends[v])`. For a large value this range holds the pointer. */
  starts = new Int32Array(128);
  ends = new Int32Array(128);
  #at = 0;
  #values = 0;
  /** Length of the qualifier of the last value read. */
  #qualifier = 0;
  /** Descriptions by the numbers in `RowLayout.names`. */
  readonly #byName: (StoredDescription | undefined)[] = [];
  #numbering: object | undefined;

  constructor(table: DescriptionTable) {
    this.#table = table;
    this.#layout = table.rowLayout;
  }

  read(row: Buffer): this {
    const layout = this.#layout;
    if (layout?.row === row) return this.#readByLayout(row, layout);
    this.open(row);
    this.readMore(0x7fffffff);
    return this;
  }

  /** Starts a row, for `readMore`. */
  open(row: Buffer): void {
    let at = 0;
    while (at < row.length && row[at]! < ATTRIBUTES) at = nextCell(row, at);
    this.row = row;
    this.#at = at;
    this.#values = 0;
    this.count = 0;
  }

  /** Reads up to `most` values. Returns false at the end of the row. */
  readMore(most: number): boolean {
    const { row } = this;
    const { length } = row;
    let { starts, ends } = this;
    let at = this.#at;
    let values = this.#values;
    let name = values === 0 ? -1 : starts[values - 1]! - this.#qualifier;
    let named = this.#qualifier;
    for (let left = most; left > 0 && at < length && row[at] === ATTRIBUTES; left--) {
      const qualifier = qualifierLength(row, at);
      const start = at + CELL_HEADER + qualifier;
      const end = start + valueLength(row, at);
      if (end > length) throw new StoreError('corrupt', `packed row of ${length} bytes is cut at offset ${at}`);
      if (name < 0 || qualifier !== named || !sameRun(row, name, row, at + CELL_HEADER, named - INDEX_BYTES)) {
        this.#addAttribute(values, this.#next(at + CELL_HEADER, start - INDEX_BYTES));
        name = at + CELL_HEADER;
        named = qualifier;
      }
      if (values === starts.length) {
        starts = this.starts = doubled(starts);
        ends = this.ends = doubled(ends);
      }
      starts[values] = start;
      ends[values++] = end;
      at = end;
    }
    this.#at = at;
    this.#values = values;
    this.#qualifier = named;
    this.firsts[this.count] = values;
    return at < length && row[at] === ATTRIBUTES;
  }

  /** As `read`, with the offsets of `layout`: neither walks the cells nor compares their names. */
  #readByLayout(row: Buffer, { count: cells, names, begins, numbering }: RowLayout): this {
    if (numbering !== this.#numbering) {
      this.#numbering = numbering;
      this.#byName.length = 0;
    }
    while (this.starts.length < cells) {
      this.starts = doubled(this.starts);
      this.ends = doubled(this.ends);
    }
    const { starts, ends } = this;
    const byName = this.#byName;
    this.row = row;
    this.count = 0;
    let cell = 0;
    while (cell < cells && row[begins[cell]!]! < ATTRIBUTES) cell++;
    let values = 0;
    let last: StoredDescription | undefined;
    for (; cell < cells; cell++) {
      const at = begins[cell]!;
      if (row[at] !== ATTRIBUTES) break;
      const start = valueStart(row, at);
      const name = names[cell]!;
      const found = byName[name] ?? this.#nameOf(name, row, at + CELL_HEADER, start - INDEX_BYTES);
      if (found !== last && !isSame(found, last)) {
        this.#addAttribute(values, found);
        last = found;
      }
      starts[values] = start;
      ends[values++] = cell + 1 < cells ? begins[cell + 1]! : row.length;
    }
    this.firsts[this.count] = values;
    return this;
  }

  /** Returns the description of a number in `RowLayout.names`. Number 0 is no name and is not cached. */
  #nameOf(name: number, row: Buffer, start: number, end: number): StoredDescription {
    const found = this.#table.intern(row, start, end);
    if (name > 0) this.#byName[name] = found;
    return found;
  }

  /** Returns the description in `row[start, end)`, given that it follows the last attribute. */
  #next(start: number, end: number): StoredDescription {
    return this.#table.internNext(this.count > 0 ? this.stored[this.count - 1] : undefined, this.row, start, end);
  }

  /** Starts an attribute whose first value is `value`. */
  #addAttribute(value: number, stored: StoredDescription): void {
    const { count } = this;
    this.stored[count] = stored;
    if (count + 2 > this.firsts.length) this.firsts = doubled(this.firsts);
    this.firsts[count] = value;
    this.count = count + 1;
  }

  /** Qualifier of value `v` of attribute `i` (description and value index), as a view. */
  qualifier(i: number, v: number): Buffer {
    const start = this.starts[v]!;
    return this.row.subarray(start - this.stored[i]!.text.length - INDEX_BYTES, start);
  }

  value(v: number): Buffer {
    return this.row.subarray(this.starts[v], this.ends[v]);
  }
}

/** Compares two descriptions that the full table does not keep and so creates anew for each cell. */
function isSame(found: StoredDescription, last: StoredDescription | undefined): boolean {
  return found.number >= DescriptionTable.MAX && last !== undefined && last.text.equals(found.text);
}

function doubled(numbers: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(numbers.length * 2);
  larger.set(numbers);
  return larger;
}
