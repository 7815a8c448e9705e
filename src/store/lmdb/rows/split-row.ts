import { CELL_HEADER, cellValue, EMPTY, nextCell, qualifierLength } from '../../row.js';
import { type Edit, editRow } from '../../row-edit.js';
import type { SplitRow } from '../../stage.js';
import type { LmdbTable } from '../file/lmdb-table.js';
import { withCheck } from '../record/check.js';
import { headOf, JOIN, SEGMENT, type Segment, Segments, segmentKey } from './segments.js';

/** New segments are filled up to this size, in bytes, to leave room for later cells. */
const FILL_BYTES = (SEGMENT * 3) >> 2;

/** A split row within a write transaction: the stored segments and the changed segments. */
export class StagedSplitRow implements SplitRow {
  readonly segments: Segments;
  readonly length: number;
  /** Changed segments by key as Latin-1 text. A segment without cells is to be deleted. */
  readonly changed: ReadonlyMap<string, Segment>;

  constructor(segments: Segments, length: number, changed: ReadonlyMap<string, Segment> = new Map()) {
    this.segments = segments;
    this.length = length;
    this.changed = changed;
  }

  value(family: number, qualifier: Buffer): Buffer | undefined {
    return cellValue(this.#segmentOf(family, qualifier).cells, family, qualifier);
  }

  withEdits(edits: readonly Edit[]): StagedSplitRow | undefined {
    const changed = new Map(this.changed);
    let { length } = this;
    for (let i = 0; i < edits.length; ) {
      const { key, cells } = this.#segmentOf(edits[i]!.family, edits[i]!.qualifier);
      const end = this.segments.next(key);
      const from = i++;
      while (i < edits.length && !(end && Buffer.compare(this.#keyOf(edits[i]!), end) >= 0)) i++;
      const after = editRow(cells, edits.slice(from, i)) ?? EMPTY;
      changed.set(key.toString('latin1'), { key, cells: after });
      length += after.length - cells.length;
    }
    return length > 0 ? new StagedSplitRow(this.segments, length, changed) : undefined;
  }

  /** Returns the whole changed row. */
  packed(): Buffer {
    const parts: Buffer[] = [];
    const first = this.changed.get(this.segments.first.toString('latin1'));
    let seen = false;
    for (const segment of this.segments.from()) {
      seen ||= segment.key.length === this.segments.first.length;
      parts.push((this.changed.get(segment.key.toString('latin1')) ?? segment).cells);
    }
    return Buffer.concat(first && !seen ? [first.cells, ...parts] : parts);
  }

  #keyOf({ family, qualifier }: Edit): Buffer {
    return segmentKey(this.segments.first, family, qualifier);
  }

  #segmentOf(family: number, qualifier: Buffer): Segment {
    const found = this.segments.of(family, qualifier) ?? { key: this.segments.first, cells: EMPTY };
    return this.changed.get(found.key.toString('latin1')) ?? found;
  }
}

/** Writes the changes of a split row, inside the write transaction. */
export function writeSplitRow(table: LmdbTable, rowKey: Buffer, row: StagedSplitRow, maxKey: number): void {
  if (row.length < JOIN) {
    const packed = row.packed();
    removeSegments(table, rowKey, maxKey);
    table.rows.putSync(rowKey, table.records.writer.encodeValue(rowKey, packed));
    return;
  }
  const db = table.segments!;
  for (const { key, cells } of row.changed.values()) {
    if (cells.length === 0) db.removeSync(key);
    else putSegments(table, row.segments.first, key, cells, maxKey);
  }
  table.rows.putSync(rowKey, headOf(rowKey, row.length));
}

/** Writes the segments of a packed row that has no segments yet. The caller writes the head. */
export function splitRow(table: LmdbTable, rowKey: Buffer, row: Buffer, maxKey: number): void {
  const { first } = new Segments(table, rowKey, maxKey);
  putSegments(table, first, first, row, maxKey);
}

/** Deletes the segments of a row. */
export function removeSegments(table: LmdbTable, rowKey: Buffer, maxKey: number): void {
  for (const key of new Segments(table, rowKey, maxKey).keys()) table.segments!.removeSync(key);
}

/** Writes cells as the segment `key` and, if they are too long, as further segments named by their first cells. */
function putSegments(table: LmdbTable, first: Buffer, key: Buffer, cells: Buffer, maxKey: number): void {
  const db = table.segments!;
  if (cells.length <= SEGMENT) {
    db.putSync(key, withCheck(key, cells));
    return;
  }
  let start = 0;
  let name = key;
  for (let at = 0, before = -1; at < cells.length; ) {
    const next = nextCell(cells, at);
    if (at > start && next - start > FILL_BYTES) {
      const own = separator(first, cells, before, at);
      if (own.length <= maxKey) {
        db.putSync(name, withCheck(name, cells.subarray(start, at)));
        name = own;
        start = at;
      }
    }
    before = at;
    at = next;
  }
  db.putSync(name, withCheck(name, cells.subarray(start)));
}

/** Key of a segment that begins with the cell at `at`: only as long as needed to sort behind the cell at `before`. */
function separator(first: Buffer, cells: Buffer, before: number, at: number): Buffer {
  const length = qualifierLength(cells, at);
  const start = at + CELL_HEADER;
  let n = 0;
  if (cells[before] === cells[at]) {
    const shorter = Math.min(length, qualifierLength(cells, before));
    while (n < shorter && cells[before + CELL_HEADER + n] === cells[start + n]) n++;
    n++;
  }
  return segmentKey(first, cells[at]!, cells.subarray(start, start + Math.min(n, length)));
}
