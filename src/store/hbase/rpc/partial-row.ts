import { CellCursor, type TableCodec } from './cells.js';
import type { RowBatch } from './rpc-types.js';

/** Collects the cells of a row that is too large for one answer, so that several answers contain some of its cells. */
export class PartialRow {
  readonly #table: TableCodec;
  #key: Buffer | undefined;
  #blocks: Buffer[] = [];
  #cellCount = 0;

  constructor(table: TableCodec) {
    this.#table = table;
  }

  get isOpen(): boolean {
    return this.#key !== undefined;
  }

  add(key: Buffer, cells: CellCursor, cellCount: number): void {
    const startOffset = cells.offset;
    for (let i = 0; i < cellCount; i++) cells.skip();
    this.#key = key;
    this.#blocks.push(cells.block.subarray(startOffset, cells.offset));
    this.#cellCount += cellCount;
  }

  /** Finishes the collected row if `key` belongs to another row. */
  finishBefore(key: Buffer, batch: RowBatch, keysOnly: boolean): void {
    if (this.#key && !this.#key.equals(key)) this.finish(batch, keysOnly);
  }

  finish(batch: RowBatch, keysOnly: boolean): void {
    if (!this.#key) return;
    batch.keys.push(this.#key);
    if (!keysOnly) batch.rows.push(this.#table.pack(new CellCursor(Buffer.concat(this.#blocks)), this.#cellCount)!);
    this.#key = undefined;
    this.#blocks = [];
    this.#cellCount = 0;
  }
}
