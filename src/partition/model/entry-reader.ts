import { sameRun } from '../../bytes/compare.js';
import type { RowLayout } from '../../store/contract.js';
import { CELL_HEADER, EMPTY, nextCell, qualifierLength, valueLength, valueStart } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { DescriptionTable, INDEX_BYTES, type StoredDescription } from './descriptions.js';
import { MASTER } from './tables.js';

const ATTRIBUTES = MASTER.upAttributes;

/**
 * Finds the attributes and values in a packed master row and records their offsets. One reader serves many rows without
 * allocating. Its contents are valid until the next `startRow` or `read`.
 */
export class EntryReader {
  readonly #table: DescriptionTable;
  readonly #layout: RowLayout | undefined;
  row: Buffer = EMPTY;
  attributeCount = 0;
  readonly descriptions: StoredDescription[] = [];
  /** Number of each attribute's first value. Attribute `i` has values `[firstValues[i], firstValues[i + 1])`. */
  firstValues = new Int32Array(64);
  /** Value `v` is `row[valueStarts[v], valueEnds[v])`; the pointer for a large value. */
  valueStarts = new Int32Array(128);
  valueEnds = new Int32Array(128);
  #offset = 0;
  #valueCount = 0;
  /** Length of the qualifier of the last value read. */
  #qualifierLength = 0;
  /** Descriptions by the numbers that `RowLayout.names` gives to them. */
  readonly #descriptionsByNumber: (StoredDescription | undefined)[] = [];
  #numbering: object | undefined;

  constructor(table: DescriptionTable) {
    this.#table = table;
    this.#layout = table.rowLayout;
  }

  read(row: Buffer): this {
    const layout = this.#layout;
    if (layout?.row === row) return this.#readByLayout(row, layout);
    this.startRow(row);
    this.readValues(0x7fffffff);
    return this;
  }

  /** Sets the row that `readValues` reads. */
  startRow(row: Buffer): void {
    let offset = 0;
    while (offset < row.length && row[offset]! < ATTRIBUTES) offset = nextCell(row, offset);
    this.row = row;
    this.#offset = offset;
    this.#valueCount = 0;
    this.attributeCount = 0;
  }

  /** Reads up to `maxValues` more values. Returns false at the end of the row. */
  readValues(maxValues: number): boolean {
    const { row } = this;
    const { length } = row;
    let { valueStarts, valueEnds } = this;
    let offset = this.#offset;
    let valueCount = this.#valueCount;
    let nameStart = valueCount === 0 ? -1 : valueStarts[valueCount - 1]! - this.#qualifierLength;
    let lastSize = this.#qualifierLength;
    for (let remaining = maxValues; remaining > 0 && offset < length && row[offset] === ATTRIBUTES; remaining--) {
      const size = qualifierLength(row, offset);
      const start = offset + CELL_HEADER + size;
      const end = start + valueLength(row, offset);
      if (end > length) throw new StoreError('corrupt', `packed row of ${length} bytes is cut at offset ${offset}`);
      if (
        nameStart < 0 ||
        size !== lastSize ||
        !sameRun(row, nameStart, row, offset + CELL_HEADER, lastSize - INDEX_BYTES)
      ) {
        this.#addAttribute(valueCount, this.#nextDescription(offset + CELL_HEADER, start - INDEX_BYTES));
        nameStart = offset + CELL_HEADER;
        lastSize = size;
      }
      if (valueCount === valueStarts.length) {
        valueStarts = this.valueStarts = doubleLength(valueStarts);
        valueEnds = this.valueEnds = doubleLength(valueEnds);
      }
      valueStarts[valueCount] = start;
      valueEnds[valueCount++] = end;
      offset = end;
    }
    this.#offset = offset;
    this.#valueCount = valueCount;
    this.#qualifierLength = lastSize;
    this.firstValues[this.attributeCount] = valueCount;
    return offset < length && row[offset] === ATTRIBUTES;
  }

  /** Like `read`, but uses the offsets in `layout` instead of walking the cells and comparing their names. */
  #readByLayout(row: Buffer, { cellCount, nameNumbers, cellStarts, numbering }: RowLayout): this {
    if (numbering !== this.#numbering) {
      this.#numbering = numbering;
      this.#descriptionsByNumber.length = 0;
    }
    while (this.valueStarts.length < cellCount) {
      this.valueStarts = doubleLength(this.valueStarts);
      this.valueEnds = doubleLength(this.valueEnds);
    }
    const { valueStarts, valueEnds } = this;
    const byNumber = this.#descriptionsByNumber;
    this.row = row;
    this.attributeCount = 0;
    let cellIndex = 0;
    while (cellIndex < cellCount && row[cellStarts[cellIndex]!]! < ATTRIBUTES) cellIndex++;
    let valueCount = 0;
    let lastDescription: StoredDescription | undefined;
    for (; cellIndex < cellCount; cellIndex++) {
      const offset = cellStarts[cellIndex]!;
      if (row[offset] !== ATTRIBUTES) break;
      const start = valueStart(row, offset);
      const number = nameNumbers[cellIndex]!;
      const description = byNumber[number] ?? this.#describe(number, row, offset + CELL_HEADER, start - INDEX_BYTES);
      if (description !== lastDescription && !isSameText(description, lastDescription)) {
        this.#addAttribute(valueCount, description);
        lastDescription = description;
      }
      valueStarts[valueCount] = start;
      valueEnds[valueCount++] = cellIndex + 1 < cellCount ? cellStarts[cellIndex + 1]! : row.length;
    }
    this.firstValues[this.attributeCount] = valueCount;
    return this;
  }

  /** Returns the description by its number in `RowLayout.names`. Number 0 is for all others and not cached. */
  #describe(nameNumber: number, row: Buffer, start: number, end: number): StoredDescription {
    const description = this.#table.intern(row, start, end);
    if (nameNumber > 0) this.#descriptionsByNumber[nameNumber] = description;
    return description;
  }

  /** Returns the description in `row[start, end)`. It probably follows the last attribute, as in the previous row. */
  #nextDescription(start: number, end: number): StoredDescription {
    return this.#table.internNext(
      this.attributeCount > 0 ? this.descriptions[this.attributeCount - 1] : undefined,
      this.row,
      start,
      end,
    );
  }

  /** Starts an attribute. `firstValue`: the number of its first value. */
  #addAttribute(firstValue: number, description: StoredDescription): void {
    const { attributeCount } = this;
    this.descriptions[attributeCount] = description;
    if (attributeCount + 2 > this.firstValues.length) this.firstValues = doubleLength(this.firstValues);
    this.firstValues[attributeCount] = firstValue;
    this.attributeCount = attributeCount + 1;
  }

  /** Returns the qualifier of value `v` of attribute `i` (description and value index) as a view. */
  qualifier(i: number, v: number): Buffer {
    const start = this.valueStarts[v]!;
    return this.row.subarray(start - this.descriptions[i]!.bytes.length - INDEX_BYTES, start);
  }

  value(v: number): Buffer {
    return this.row.subarray(this.valueStarts[v], this.valueEnds[v]);
  }
}

/** Compares two descriptions by text. When the table is full, equal descriptions may be different objects. */
function isSameText(description: StoredDescription, last: StoredDescription | undefined): boolean {
  return description.number >= DescriptionTable.MAX && last !== undefined && last.bytes.equals(description.bytes);
}

function doubleLength(numbers: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(numbers.length * 2);
  larger.set(numbers);
  return larger;
}
