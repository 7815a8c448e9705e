import { UUID_BYTES } from '../../model/tables.js';

/**
 * The ids of all entries and of their parents. Entries are numbered in the order of their ids. Takes 36 bytes per
 * entry, or 36 MB for a million entries.
 */
export class IdTable {
  #ids = Buffer.alloc(1024 * UUID_BYTES);
  #parents = Buffer.alloc(1024 * UUID_BYTES);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Adds an entry, whose id must be greater than all earlier ones. Returns its number. */
  append(id: Buffer, parentId: Buffer): number {
    const offset = this.#length * UUID_BYTES;
    if (offset === this.#ids.length) {
      this.#ids = Buffer.concat([this.#ids, Buffer.alloc(offset)]);
      this.#parents = Buffer.concat([this.#parents, Buffer.alloc(offset)]);
    }
    this.#ids.set(id, offset);
    this.#parents.set(parentId, offset);
    return this.#length++;
  }

  idOfNumber(number: number): Buffer {
    return this.#ids.subarray(number * UUID_BYTES, (number + 1) * UUID_BYTES);
  }

  parentIdOfNumber(number: number): Buffer {
    return this.#parents.subarray(number * UUID_BYTES, (number + 1) * UUID_BYTES);
  }

  /** Returns the number of the entry with this id; -1 if there is none. */
  numberOfId(id: Buffer): number {
    let low = 0;
    let high = this.#length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const offset = middle * UUID_BYTES;
      const order = this.#ids.compare(id, 0, UUID_BYTES, offset, offset + UUID_BYTES);
      if (order === 0) return middle;
      if (order < 0) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }
}
