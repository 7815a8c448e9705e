import type { AttributeType } from '../schema/types.js';
import type { LoadRow } from '../store/contract.js';
import { CELL_HEADER } from '../store/row.js';
import type { ImpliedSink } from './implied.js';
import type { Index } from './indexes.js';
import { cutMark, PRESENCE_PREFIX, Q, TREE } from './tables.js';

/**
 * Collects what the entries of a bulk batch imply: packs each tree row cell by cell, and gathers index rows by prefix.
 * It makes no object a cell: a hundred thousand entries have some five million of them.
 */
export class BulkRows implements ImpliedSink {
  #scratch = Buffer.allocUnsafe(16 * 1024);
  #at = 0;
  /** Offset of each cell in `scratch`, and one more for the end; `order` their numbers, sorted. */
  #starts = new Int32Array(256);
  #order = new Int32Array(256);
  #count = 0;
  #id: Buffer = Buffer.alloc(0);
  readonly #postings = new Map<Index, Postings>();

  /** Begins the tree row of the entry `id`. */
  begin(id: Buffer): void {
    this.#id = id;
    this.#at = 0;
    this.#count = 0;
    this.#cell(TREE.treeInfo, Q.id, undefined, id.length);
    this.#scratch.set(id, this.#at);
    this.#at += id.length;
  }

  /** The packed tree row. Cells come nearly sorted; an insertion puts the few others in their place. */
  end(): Buffer {
    const count = this.#count;
    const starts = this.#starts;
    const order = this.#order;
    starts[count] = this.#at;
    let moved = false;
    for (let i = 0; i < count; i++) {
      let at = i;
      for (; at > 0 && this.#compare(starts[order[at - 1]!]!, starts[i]!) > 0; at--) order[at] = order[at - 1]!;
      order[at] = i;
      moved ||= at < i;
    }
    if (!moved) return Buffer.from(this.#scratch.subarray(0, this.#at));
    const row = Buffer.allocUnsafe(this.#at);
    let to = 0;
    for (let i = 0; i < count; ) {
      const first = order[i]!;
      let last = first;
      while (++i < count && order[i] === last + 1) last++;
      to += this.#scratch.copy(row, to, starts[first]!, starts[last + 1]!);
    }
    return row;
  }

  /** Family, then qualifier, of the cells at two offsets. */
  #compare(a: number, b: number): number {
    const s = this.#scratch;
    if (s[a] !== s[b]) return s[a]! - s[b]!;
    const n = (s[a + 1]! << 8) | s[a + 2]!;
    const m = (s[b + 1]! << 8) | s[b + 2]!;
    const shorter = Math.min(n, m);
    for (let i = CELL_HEADER; i < CELL_HEADER + shorter; i++) if (s[a + i] !== s[b + i]) return s[a + i]! - s[b + i]!;
    return n - m;
  }

  /** Header and qualifier of a cell: `name`, or `name` `=` `norm`. The value follows. */
  #cell(family: number, name: Buffer, norm: Buffer | undefined, valueLength: number): void {
    const qualifier = name.length + (norm ? 1 + norm.length : 0);
    const end = this.#at + CELL_HEADER + qualifier + valueLength;
    if (end > this.#scratch.length) this.#grow(end);
    const s = this.#scratch;
    let at = this.#at;
    if (this.#count + 1 >= this.#starts.length) this.#growCells();
    this.#starts[this.#count++] = at;
    s[at] = family;
    s[at + 1] = qualifier >>> 8;
    s[at + 2] = qualifier;
    s[at + 3] = 0;
    s[at + 4] = 0;
    s[at + 5] = 0;
    s[at + 6] = valueLength;
    at += CELL_HEADER;
    for (let i = 0; i < name.length; i++) s[at++] = name[i]!;
    if (norm) {
      s[at++] = 0x3d;
      for (let i = 0; i < norm.length; i++) s[at++] = norm[i]!;
    }
    this.#at = at;
  }

  #grow(length: number): void {
    const larger = Buffer.allocUnsafe(length * 2);
    this.#scratch.copy(larger, 0, 0, this.#at);
    this.#scratch = larger;
  }

  #growCells(): void {
    const starts = new Int32Array(this.#starts.length * 2);
    starts.set(this.#starts);
    this.#starts = starts;
    this.#order = new Int32Array(starts.length);
  }

  presence(oid: Buffer): void {
    this.#cell(TREE.normAttributes, oid, undefined, 0);
  }

  norm(oid: Buffer, norm: Buffer, position: number): void {
    this.#cell(TREE.normAttributes, oid, norm, 4);
    this.#at = this.#scratch.writeUInt32BE(position, this.#at);
  }

  cut(type: AttributeType): void {
    this.#cell(TREE.normAttributes, cutMark(type.oid), undefined, 0);
  }

  indexPresence(index: Index): void {
    this.#postingsOf(index).presence.push(this.#id);
  }

  indexNorm(index: Index, norm: Buffer): void {
    this.#post(index, EQUALITY + norm.toString('latin1'));
  }

  indexGram(index: Index, norm: Buffer, at: number): void {
    this.#post(index, GRAM + norm.toString('latin1', at, at + 3));
  }

  #post(index: Index, value: string): void {
    const { values } = this.#postingsOf(index);
    const ids = values.get(value);
    if (ids === undefined) values.set(value, this.#id);
    else if (Array.isArray(ids)) ids.push(this.#id);
    else values.set(value, [ids, this.#id]);
  }

  #postingsOf(index: Index): Postings {
    let postings = this.#postings.get(index);
    if (!postings) {
      postings = { presence: [], values: new Map() };
      this.#postings.set(index, postings);
    }
    return postings;
  }

  /** Rows of every index table, in key order. */
  *indexTables(): Generator<{ table: string; rows: LoadRow[] }> {
    for (const [index, { presence, values }] of this.#postings) {
      const rows: LoadRow[] = presence.length > 0 ? [{ key: PRESENCE_PREFIX, row: suffixes(presence) }] : [];
      for (const value of [...values.keys()].sort()) {
        rows.push({ key: Buffer.from(`${value}\0`, 'latin1'), row: suffixes(values.get(value)!) });
      }
      yield { table: index.table, rows };
    }
  }
}

/** The entries of a batch that have a value, or any, of an indexed attribute. */
interface Postings {
  readonly presence: Buffer[];
  /** By index key as Latin-1 text, whose order is that of the bytes, without the zero byte at its end. Most have one entry. */
  readonly values: Map<string, Buffer | Buffer[]>;
}

const EQUALITY = '=';
const GRAM = '~';

function suffixes(ids: Buffer | Buffer[]): Buffer {
  return Array.isArray(ids) ? Buffer.concat(ids.sort(Buffer.compare)) : ids;
}
