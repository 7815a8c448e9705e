import { type PackedRows, RowPacker } from '../../store/load.js';
import { putBytes } from '../../store/put.js';
import { eachGram, type NormalizedValue } from '../model/implied.js';
import type { Index } from '../model/index-set.js';
import { EQUALITY, GRAM, PRESENCE_PREFIX, UUID_BYTES } from '../model/tables.js';

const NO_FORMS: readonly NormalizedValue[] = [];

/** Collects the rows of a batch in one index. Consecutive entries with the same forms share rows. */
export class IndexRows {
  readonly #index: Index;
  readonly #packer = new RowPacker();
  readonly #present = new IdList();
  /** Forms of the last entry. `#repeated` holds the ids of following entries with the same forms: see `FormMaker`. */
  #forms: readonly NormalizedValue[] = NO_FORMS;
  readonly #repeated = new IdList();

  constructor(index: Index) {
    this.#index = index;
  }

  add(forms: readonly NormalizedValue[], id: Buffer): void {
    if (this.#index.hasPresence) this.#present.add(id);
    if (forms === this.#forms) {
      this.#repeated.add(id);
      return;
    }
    this.#postRepeated();
    this.#forms = forms;
    this.#post(forms, id);
  }

  #postRepeated(): void {
    if (this.#repeated.count === 0) return;
    this.#post(this.#forms, this.#repeated.view());
    this.#repeated.clear();
  }

  #post(forms: readonly NormalizedValue[], ids: Buffer): void {
    const packer = this.#packer;
    for (let k = 0; k < forms.length; k++) {
      const { cutValue: cut } = forms[k]!;
      post(packer, EQUALITY, cut, 0, cut.length, ids);
    }
    if (this.#index.hasSubstrings) eachGram(forms, (norm, at) => post(packer, GRAM, norm, at, at + 3, ids));
  }

  /** Returns all rows. No more entries may be added after that. */
  rows(): PackedRows {
    const packer = this.#packer;
    this.#postRepeated();
    if (this.#present.count > 0) {
      packer.begin();
      packer.write(PRESENCE_PREFIX);
      packer.endKey();
      packer.write(this.#present.view());
      packer.endRow();
      packer.end();
    }
    return packer.rows();
  }
}

/** Packs the index row of `norm[from, to)`: kind, form, `\0`. */
function post(packer: RowPacker, kind: number, norm: Buffer, from: number, to: number, ids: Buffer): void {
  packer.begin(to - from + 2 + ids.length);
  const { bytes } = packer;
  let { at } = packer;
  bytes[at++] = kind;
  for (let i = from; i < to; i++) bytes[at++] = norm[i]!;
  bytes[at++] = 0;
  packer.at = at;
  packer.endKey();
  packer.at = putBytes(bytes, at, ids);
  packer.endRow();
  packer.end();
}

const FIRST_IDS = 64;

class IdList {
  count = 0;
  #bytes = Buffer.allocUnsafeSlow(FIRST_IDS * UUID_BYTES);

  add(id: Buffer): void {
    const at = this.count * UUID_BYTES;
    if (at === this.#bytes.length) this.#bytes = Buffer.concat([this.#bytes], at * 2);
    const bytes = this.#bytes;
    for (let i = 0; i < UUID_BYTES; i++) bytes[at + i] = id[i]!;
    this.count++;
  }

  /** Returns a view that is valid until the next change. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.count * UUID_BYTES);
  }

  clear(): void {
    this.count = 0;
  }
}
