import { CELL_HEADER, cellValue, EMPTY, nextCell, qualifierLength } from '../../row.js';
import { type Edit, editRow } from '../../row-edit.js';
import type { SplitRow } from '../../stage.js';
import type { LmdbTable } from '../file/lmdb-table.js';
import { withChecksum } from '../record/checksum.js';
import { JOIN_BYTES, SEGMENT_BYTES, type Segment, Segments, segmentKey, splitRowHead } from './segments.js';

/** New segments are filled up to this size, in bytes, to leave room for later cells. */
const FILL_BYTES = (SEGMENT_BYTES * 3) >> 2;

/** A split row within a write transaction: the stored segments and the changed segments. */
export class StagedSplitRow implements SplitRow {
  readonly segments: Segments;
  readonly length: number;
  /** Changed segments by key as Latin-1 text. A segment without cells is to be deleted. */
  readonly changedSegments: ReadonlyMap<string, Segment>;

  constructor(segments: Segments, length: number, changedSegments: ReadonlyMap<string, Segment> = new Map()) {
    this.segments = segments;
    this.length = length;
    this.changedSegments = changedSegments;
  }

  value(family: number, qualifier: Buffer): Buffer | undefined {
    return cellValue(this.#segmentWith(family, qualifier).cells, family, qualifier);
  }

  withEdits(edits: readonly Edit[]): StagedSplitRow | undefined {
    const changedSegments = new Map(this.changedSegments);
    let { length } = this;
    for (let i = 0; i < edits.length; ) {
      const { key, cells } = this.#segmentWith(edits[i]!.family, edits[i]!.qualifier);
      const endKey = this.segments.nextKey(key);
      const firstEdit = i++;
      while (i < edits.length && !(endKey && Buffer.compare(this.#segmentKeyOf(edits[i]!), endKey) >= 0)) i++;
      const newCells = editRow(cells, edits.slice(firstEdit, i)) ?? EMPTY;
      changedSegments.set(key.toString('latin1'), { key, cells: newCells });
      length += newCells.length - cells.length;
    }
    return length > 0 ? new StagedSplitRow(this.segments, length, changedSegments) : undefined;
  }

  /** Returns the whole changed row. */
  toPackedRow(): Buffer {
    const cellRuns: Buffer[] = [];
    const changedFirst = this.changedSegments.get(this.segments.firstKey.toString('latin1'));
    let isFirstStored = false;
    for (const segment of this.segments.segments()) {
      isFirstStored ||= segment.key.length === this.segments.firstKey.length;
      cellRuns.push((this.changedSegments.get(segment.key.toString('latin1')) ?? segment).cells);
    }
    return Buffer.concat(changedFirst && !isFirstStored ? [changedFirst.cells, ...cellRuns] : cellRuns);
  }

  #segmentKeyOf({ family, qualifier }: Edit): Buffer {
    return segmentKey(this.segments.firstKey, family, qualifier);
  }

  #segmentWith(family: number, qualifier: Buffer): Segment {
    const storedSegment = this.segments.segmentWith(family, qualifier) ?? { key: this.segments.firstKey, cells: EMPTY };
    return this.changedSegments.get(storedSegment.key.toString('latin1')) ?? storedSegment;
  }
}

/** Writes the changes of a split row, inside the write transaction. */
export function writeSplitRow(table: LmdbTable, rowKey: Buffer, row: StagedSplitRow, maxKey: number): void {
  if (row.length < JOIN_BYTES) {
    const packedRow = row.toPackedRow();
    removeSegments(table, rowKey, maxKey);
    table.rows.putSync(rowKey, table.records.writer.encodeValue(rowKey, packedRow));
    return;
  }
  const db = table.segments!;
  for (const { key, cells } of row.changedSegments.values()) {
    if (cells.length === 0) db.removeSync(key);
    else putSegments(table, row.segments.firstKey, key, cells, maxKey);
  }
  table.rows.putSync(rowKey, splitRowHead(rowKey, row.length));
}

/** Writes the segments of a packed row that has no segments yet. The caller writes the head. */
export function splitRow(table: LmdbTable, rowKey: Buffer, row: Buffer, maxKey: number): void {
  const { firstKey } = new Segments(table, rowKey, maxKey);
  putSegments(table, firstKey, firstKey, row, maxKey);
}

export function removeSegments(table: LmdbTable, rowKey: Buffer, maxKey: number): void {
  for (const key of new Segments(table, rowKey, maxKey).keys()) table.segments!.removeSync(key);
}

/** Writes cells as the segment `key` and, if they are too long, as further segments with keys of their first cells. */
function putSegments(table: LmdbTable, firstKey: Buffer, key: Buffer, cells: Buffer, maxKey: number): void {
  const db = table.segments!;
  if (cells.length <= SEGMENT_BYTES) {
    db.putSync(key, withChecksum(key, cells));
    return;
  }
  let start = 0;
  let segmentKey = key;
  for (let offset = 0, previousAt = -1; offset < cells.length; ) {
    const nextAt = nextCell(cells, offset);
    if (offset > start && nextAt - start > FILL_BYTES) {
      const nextKey = separatorKey(firstKey, cells, previousAt, offset);
      if (nextKey.length <= maxKey) {
        db.putSync(segmentKey, withChecksum(segmentKey, cells.subarray(start, offset)));
        segmentKey = nextKey;
        start = offset;
      }
    }
    previousAt = offset;
    offset = nextAt;
  }
  db.putSync(segmentKey, withChecksum(segmentKey, cells.subarray(start)));
}

/** The shortest key for a segment that begins with the cell at `offset`, behind the cell at `previousAt`. */
function separatorKey(firstKey: Buffer, cells: Buffer, previousAt: number, offset: number): Buffer {
  const length = qualifierLength(cells, offset);
  const start = offset + CELL_HEADER;
  let keyLength = 0;
  if (cells[previousAt] === cells[offset]) {
    const shorter = Math.min(length, qualifierLength(cells, previousAt));
    while (keyLength < shorter && cells[previousAt + CELL_HEADER + keyLength] === cells[start + keyLength]) keyLength++;
    keyLength++;
  }
  return segmentKey(firstKey, cells[offset]!, cells.subarray(start, start + Math.min(keyLength, length)));
}
