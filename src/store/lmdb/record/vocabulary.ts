import { hasBytesAt } from '../../../bytes/compare.js';
import { CELL_HEADER, cellFamily, EMPTY, nextCell, qualifierLength } from '../../row.js';
import { IN_QUALIFIER, IN_VALUE, NOWHERE, type Word, Words } from './words.js';

/** What a cell's word has around its hole. */
interface Pattern {
  readonly number: number;
  readonly before: Buffer;
  readonly behind: Buffer;
}

/**
 * What cells are told apart by before their bytes are looked at: the qualifier. Of a qualifier with a `=`, what it
 * begins with, to the `=`; the rest of it is the cell's subject, and its value belongs to the name. Else the value is
 * the subject.
 */
export interface Name {
  readonly family: number;
  readonly fixed: Buffer;
  readonly headed: boolean;
  /** Of a name that ends with `=`. */
  readonly value: Buffer;
  /** Those with the most bytes first. */
  readonly patterns: Pattern[];
  /** Words without a hole, by the hash of their subject. */
  readonly cells: Map<number, number>;
  /** The one met last. */
  last: number;
  /** Another name of the same hash. */
  readonly chain: Name | undefined;
  /** The one that followed last time. */
  next: Name | undefined;
  readonly hash: number;
}

const EQUALS = 0x3d;
const FNV_START = 0x811c9dc5 | 0;
const FNV_PRIME = 0x01000193;

export function hashOf(hash: number, bytes: Buffer, from: number, to: number): number {
  let h = hash;
  for (let i = from; i < to; i++) h = Math.imul(h ^ bytes[i]!, FNV_PRIME);
  return h;
}

/** A cell of a packed row, its name and its subject told by offsets. */
export class CellAt {
  row: Buffer = EMPTY;
  at = 0;
  /** Where the name, the qualifier and the cell end. */
  fixed = 0;
  value = 0;
  end = 0;
  headed = false;
  /** The subject. */
  from = 0;
  to = 0;

  set(row: Buffer, at: number): void {
    this.row = row;
    this.at = at;
    this.value = at + CELL_HEADER + qualifierLength(row, at);
    this.end = nextCell(row, at);
    this.headed = false;
    this.from = this.value;
    this.to = this.end;
    this.fixed = this.value;
  }

  /** Looks for the end of the name. */
  part(): void {
    let i = this.at + CELL_HEADER;
    while (i < this.value && this.row[i] !== EQUALS) i++;
    if (i === this.value) return;
    this.headed = true;
    this.fixed = i + 1;
    this.from = i + 1;
    this.to = this.value;
  }

  /** Takes it that the name ends where this one does; false where it is another. */
  is({ family, fixed, headed, value }: Name): boolean {
    const { row, at } = this;
    const n = fixed.length;
    const start = at + CELL_HEADER;
    if (row[at] !== family || (headed ? this.value < start + n : this.value !== start + n)) return false;
    if (!hasBytesAt(row, start, fixed)) return false;
    if (!headed) return true;
    if (this.end - this.value !== value.length || !hasBytesAt(row, this.value, value)) return false;
    this.headed = true;
    this.fixed = start + n;
    this.from = this.fixed;
    this.to = this.value;
    return true;
  }
}

/** The words of one table, found by cells. */
export class Vocabulary {
  readonly words = new Words();
  /** Words without a hole. */
  wholeCells = 0;
  readonly #names = new Map<number, Name>();
  readonly #cell = new CellAt();

  /** The name of a cell, which is then parted; undefined where no word has it. `before`: that of the cell before. */
  nameOf(cell: CellAt, before: Name | undefined): Name | undefined {
    const guess = before?.next;
    if (guess && cell.is(guess)) return guess;
    cell.part();
    const found = this.#named(cell);
    if (before && found) before.next = found;
    return found;
  }

  #named(cell: CellAt): Name | undefined {
    let name = this.#names.get(nameHash(cell));
    while (name && !(name.headed === cell.headed && cell.is(name))) name = name.chain;
    return name;
  }

  /** The word without a hole that is this cell; 0 where there is none. */
  wholeCell(name: Name, { row, at, from, to, end }: CellAt): number {
    if (name.cells.size === 0) return 0;
    const { list } = this.words;
    if (name.last !== 0 && isCell(list[name.last - 1]!, row, at, end)) return name.last;
    const number = name.cells.get(hashOf(FNV_START, row, from, to));
    if (number === undefined || !isCell(list[number - 1]!, row, at, end)) return 0;
    name.last = number;
    return number;
  }

  clear(): void {
    this.words.clear();
    this.wholeCells = 0;
    this.#names.clear();
  }

  add(word: Word): number {
    const number = this.words.add(word);
    const cell = this.#cell;
    cell.set(word.cell, 0);
    cell.part();
    const name = this.#named(cell) ?? this.#newName(cell);
    if (word.hole === NOWHERE) {
      this.wholeCells++;
      name.cells.set(hashOf(FNV_START, word.cell, cell.from, cell.to), number);
    } else {
      const before = word.cell.subarray(cell.from, word.at);
      const behind = word.cell.subarray(word.at, cell.to);
      name.patterns.push({ number, before, behind });
      name.patterns.sort((a, b) => b.before.length + b.behind.length - a.before.length - a.behind.length);
    }
    return number;
  }

  #newName(cell: CellAt): Name {
    const { row, at, headed } = cell;
    const hash = nameHash(cell);
    const name: Name = {
      family: cellFamily(row, at),
      fixed: Buffer.from(row.subarray(at + CELL_HEADER, cell.fixed)),
      headed,
      value: headed ? Buffer.from(row.subarray(cell.value, cell.end)) : EMPTY,
      patterns: [],
      cells: new Map(),
      last: 0,
      chain: this.#names.get(hash),
      next: undefined,
      hash,
    };
    this.#names.set(hash, name);
    return name;
  }
}

function isCell({ cell }: Word, row: Buffer, at: number, end: number): boolean {
  return cell.length === end - at && hasBytesAt(row, at, cell);
}

/** Whether the subject has the pattern's bytes at its ends. */
export function fits({ before, behind }: Pattern, { row, from, to }: CellAt): boolean {
  const start = from + before.length;
  const end = to - behind.length;
  return start <= end && hasBytesAt(row, from, before) && hasBytesAt(row, end, behind);
}

export function nameHash({ row, at, fixed, headed, value, end }: CellAt): number {
  const hash = hashOf(Math.imul(FNV_START ^ row[at]!, FNV_PRIME), row, at + CELL_HEADER, fixed);
  return headed ? hashOf(hash, row, value, end) : hash;
}

/** The word of a cell with a hole `[from, to)`, or with none. */
export function wordOf({ row, at, end, value }: CellAt, hole: Word['hole'], from: number, to: number): Word {
  if (hole === NOWHERE) return { hole, at: end - at, cell: Buffer.from(row.subarray(at, end)) };
  const cell = Buffer.concat([row.subarray(at, from), row.subarray(to, end)]);
  const gone = to - from;
  if (hole === IN_QUALIFIER) cell.writeUInt16BE(value - at - CELL_HEADER - gone, 1);
  if (hole === IN_VALUE) cell.writeUInt32BE(end - value - gone, 3);
  return { hole, at: from - at, cell };
}
