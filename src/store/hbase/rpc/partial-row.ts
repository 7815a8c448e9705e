import { CellCursor, type TableCodec } from './cells.js';
import type { RowBatch } from './rpc-types.js';

/** Parts of one row that is too large for one answer. */
export class PartialRow {
  readonly #table: TableCodec;
  #key: Buffer | undefined;
  #blocks: Buffer[] = [];
  #count = 0;

  constructor(table: TableCodec) {
    this.#table = table;
  }

  get open(): boolean {
    return this.#key !== undefined;
  }

  add(key: Buffer, cells: CellCursor, count: number): void {
    const from = cells.at;
    for (let i = 0; i < count; i++) cells.skip();
    this.#key = key;
    this.#blocks.push(cells.block.subarray(from, cells.at));
    this.#count += count;
  }

  /** Ends the row when another begins. */
  endBefore(key: Buffer, batch: RowBatch, keysOnly: boolean): void {
    if (this.#key && !this.#key.equals(key)) this.end(batch, keysOnly);
  }

  end(batch: RowBatch, keysOnly: boolean): void {
    if (!this.#key) return;
    batch.keys.push(this.#key);
    if (!keysOnly) batch.rows.push(this.#table.pack(new CellCursor(Buffer.concat(this.#blocks)), this.#count)!);
    this.#key = undefined;
    this.#blocks = [];
    this.#count = 0;
  }
}
