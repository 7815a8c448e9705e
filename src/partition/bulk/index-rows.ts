import { type PackedRows, RowPacker } from '../../store/load.js';
import { putBytes } from '../../store/row.js';
import { eachGram, type NormalizedValue } from '../model/implied.js';
import type { Index } from '../model/index-set.js';
import { EQUALITY, GRAM, PRESENCE_PREFIX, UUID_BYTES } from '../model/tables.js';

const NO_VALUES: readonly NormalizedValue[] = [];

/** Collects the rows that a batch adds to one index. Consecutive entries with the same values share them. */
export class IndexRows {
  readonly #index: Index;
  readonly #packer = new RowPacker();
  readonly #presentIds = new IdList();
  /** Normal forms of the last entry. `#repeatedIds`: following entries with the same array (see `Normalizer`). */
  #lastValues: readonly NormalizedValue[] = NO_VALUES;
  readonly #repeatedIds = new IdList();

  constructor(index: Index) {
    this.#index = index;
  }

  add(values: readonly NormalizedValue[], id: Buffer): void {
    if (this.#index.hasPresence) this.#presentIds.add(id);
    if (values === this.#lastValues) {
      this.#repeatedIds.add(id);
      return;
    }
    this.#packRepeated();
    this.#lastValues = values;
    this.#packRows(values, id);
  }

  #packRepeated(): void {
    if (this.#repeatedIds.count === 0) return;
    this.#packRows(this.#lastValues, this.#repeatedIds.view());
    this.#repeatedIds.clear();
  }

  #packRows(values: readonly NormalizedValue[], ids: Buffer): void {
    const packer = this.#packer;
    for (let k = 0; k < values.length; k++) {
      const { cutValue: cut } = values[k]!;
      packIndexRow(packer, EQUALITY, cut, 0, cut.length, ids);
    }
    if (this.#index.hasSubstrings) eachGram(values, (norm, i) => packIndexRow(packer, GRAM, norm, i, i + 3, ids));
  }

  /** Returns all rows. No more entries may be added after that. */
  rows(): PackedRows {
    const packer = this.#packer;
    this.#packRepeated();
    if (this.#presentIds.count > 0) {
      packer.begin();
      packer.write(PRESENCE_PREFIX);
      packer.endKey();
      packer.write(this.#presentIds.view());
      packer.endRow();
      packer.end();
    }
    return packer.rows();
  }
}

/** Packs the index row for the bytes `norm[start, end)`: kind of row, the bytes, `\0`, entryUUID. */
function packIndexRow(packer: RowPacker, kind: number, norm: Buffer, start: number, end: number, ids: Buffer): void {
  packer.begin(end - start + 2 + ids.length);
  const { bytes } = packer;
  let { at: offset } = packer;
  bytes[offset++] = kind;
  for (let i = start; i < end; i++) bytes[offset++] = norm[i]!;
  bytes[offset++] = 0;
  packer.at = offset;
  packer.endKey();
  packer.at = putBytes(bytes, offset, ids);
  packer.endRow();
  packer.end();
}

const INITIAL_IDS = 64;

class IdList {
  count = 0;
  #bytes = Buffer.allocUnsafeSlow(INITIAL_IDS * UUID_BYTES);

  add(id: Buffer): void {
    const offset = this.count * UUID_BYTES;
    if (offset === this.#bytes.length) this.#bytes = Buffer.concat([this.#bytes], offset * 2);
    const bytes = this.#bytes;
    for (let i = 0; i < UUID_BYTES; i++) bytes[offset + i] = id[i]!;
    this.count++;
  }

  /** Returns all ids as a view, which is valid until ids are added. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.count * UUID_BYTES);
  }

  clear(): void {
    this.count = 0;
  }
}
