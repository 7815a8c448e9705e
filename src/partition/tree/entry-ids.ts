import { hashBytes } from '../model/descriptions.js';
import { UUID_BYTES } from '../model/tables.js';

/** Number of slots, a power of two. A slot takes 20 bytes, together 5 MiB; unused pages take no memory. */
const SLOTS = 1 << 18;

/**
 * Caches ids of recently found entries by name. An id may be outdated at any time, because other clients rename and
 * delete entries. Callers check position and name in the entry's row, and read the tree table if these differ.
 * Therefore writers need not update the cache, and it need not store the names.
 */
export class EntryIds {
  readonly #ids = Buffer.allocUnsafeSlow(SLOTS * UUID_BYTES);
  /** Hash of the name whose id is in the slot; 0: free. A name can be in two slots; the first has the newest id. */
  readonly #tags = new Int32Array(SLOTS);

  /** Returns the cached id of the child of `parent` with the name `normRdn` (cut). */
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

/** Returns the first of the two slots that a name can be in. */
function firstSlot(tag: number): number {
  return (tag ^ (tag >>> 14)) & (SLOTS - 2);
}
