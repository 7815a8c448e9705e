import { hashBytes } from '../model/hash.js';
import { UUID_BYTES } from '../model/tables.js';

/** Number of slots, a power of two. With 20 bytes per slot 5 MiB, of which unused pages take no memory. */
const SLOTS = 1 << 18;

/**
 * Ids of recently found entries by name. The table may be outdated at any time, because other clients rename and
 * delete. Callers check the place and name in the entry's row, and use the tree table if they differ. Therefore writers
 * need not update the table, and it does not store the names.
 */
export class EntryIds {
  readonly #ids = Buffer.allocUnsafeSlow(SLOTS * UUID_BYTES);
  /** Hash of the name whose id is in the slot; 0: free. A name has two slots, the first for the newest id. */
  readonly #tags = new Int32Array(SLOTS);

  /** Returns the last known id of the child of `parent` named `normRdn` (cut). */
  get(parent: Buffer, normRdn: Buffer): Buffer | undefined {
    const tag = hashName(parent, normRdn);
    let slot = firstSlot(tag);
    if (this.#tags[slot] !== tag) slot++;
    if (this.#tags[slot] !== tag) return undefined;
    return Buffer.from(this.#ids.subarray(slot * UUID_BYTES, (slot + 1) * UUID_BYTES));
  }

  set(parent: Buffer, normRdn: Buffer, id: Buffer): void {
    const tag = hashName(parent, normRdn);
    const slot = firstSlot(tag);
    const offset = slot * UUID_BYTES;
    if (this.#tags[slot] !== tag) {
      this.#ids.copyWithin(offset + UUID_BYTES, offset, offset + UUID_BYTES);
      this.#tags[slot + 1] = this.#tags[slot]!;
      this.#tags[slot] = tag;
    }
    this.#ids.set(id, offset);
  }
}

function hashName(parent: Buffer, normRdn: Buffer): number {
  return hashBytes(normRdn, 0, normRdn.length, hashBytes(parent)) | 1;
}

/** Returns the first of the two slots of a name. */
function firstSlot(tag: number): number {
  return (tag ^ (tag >>> 14)) & (SLOTS - 2);
}
