import { hashBytes } from '../model/hash.js';
import { UUID_BYTES } from '../model/tables.js';

/**
 * A power of two. 16 bytes for the id and 4 for the tag of each: 5 MiB, of which those come into memory that are used.
 */
const SLOTS = 1 << 18;

/**
 * Ids of entries that were found by their names of late. It may be wrong at any time, as others rename and delete:
 * whoever takes an id from it looks into the row whether the entry has that place and name, and asks the tree table
 * where it has not. So nothing need be told to it, and the names themselves are not kept.
 */
export class EntryIds {
  readonly #ids = Buffer.allocUnsafeSlow(SLOTS * UUID_BYTES);
  /** Of the name whose id lies there; 0 is free. A name has two slots, the first for the one that came last. */
  readonly #tags = new Int32Array(SLOTS);

  /** The id that the entry `normRdn` (cut) right below `parent` had. */
  get(parent: Buffer, normRdn: Buffer): Buffer | undefined {
    const tag = tagOf(parent, normRdn);
    let slot = slotOf(tag);
    if (this.#tags[slot] !== tag) slot++;
    if (this.#tags[slot] !== tag) return undefined;
    return Buffer.from(this.#ids.subarray(slot * UUID_BYTES, (slot + 1) * UUID_BYTES));
  }

  set(parent: Buffer, normRdn: Buffer, id: Buffer): void {
    const tag = tagOf(parent, normRdn);
    const slot = slotOf(tag);
    const at = slot * UUID_BYTES;
    if (this.#tags[slot] !== tag) {
      this.#ids.copyWithin(at + UUID_BYTES, at, at + UUID_BYTES);
      this.#tags[slot + 1] = this.#tags[slot]!;
      this.#tags[slot] = tag;
    }
    this.#ids.set(id, at);
  }
}

/** A hash of the name, never 0. */
function tagOf(parent: Buffer, normRdn: Buffer): number {
  return hashBytes(normRdn, 0, normRdn.length, hashBytes(parent)) | 1;
}

/** The first of two. */
function slotOf(tag: number): number {
  return (tag ^ (tag >>> 14)) & (SLOTS - 2);
}
