import { UUID_BYTES } from './tables.js';

/** A set of entryUUIDs, some 30 bytes an id: a search keeps in it what it has looked at. */
export class IdSet {
  #ids = Buffer.alloc(64 * UUID_BYTES);
  /** Number of the id plus one, by hash; 0 is free. */
  #slots = new Int32Array(128);
  #size = 0;

  /** Whether the id `bytes[at, at + 16)` was not there yet. */
  add(bytes: Buffer, at: number): boolean {
    const mask = this.#slots.length - 1;
    for (let slot = hashOf(bytes, at) & mask; ; slot = (slot + 1) & mask) {
      const number = this.#slots[slot]!;
      if (number === 0) {
        this.#slots[slot] = ++this.#size;
        this.#keep(bytes, at);
        return true;
      }
      if (sameId(this.#ids, (number - 1) * UUID_BYTES, bytes, at)) return false;
    }
  }

  has(bytes: Buffer, at: number): boolean {
    const mask = this.#slots.length - 1;
    for (let slot = hashOf(bytes, at) & mask; ; slot = (slot + 1) & mask) {
      const number = this.#slots[slot]!;
      if (number === 0) return false;
      if (sameId(this.#ids, (number - 1) * UUID_BYTES, bytes, at)) return true;
    }
  }

  #keep(bytes: Buffer, at: number): void {
    const to = (this.#size - 1) * UUID_BYTES;
    if (to === this.#ids.length) this.#ids = Buffer.concat([this.#ids, Buffer.alloc(to)]);
    for (let i = 0; i < UUID_BYTES; i++) this.#ids[to + i] = bytes[at + i]!;
    if (this.#size * 2 > this.#slots.length) this.#grow();
  }

  #grow(): void {
    const slots = new Int32Array(this.#slots.length * 2);
    const mask = slots.length - 1;
    for (let number = 1; number <= this.#size; number++) {
      let slot = hashOf(this.#ids, (number - 1) * UUID_BYTES) & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = number;
    }
    this.#slots = slots;
  }
}

/** UUIDs of version 7 differ in the end of their time and in their random end, those of version 1 in the beginning. */
function hashOf(bytes: Buffer, at: number): number {
  const begin = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
  const low = (bytes[at + 4]! << 24) | (bytes[at + 5]! << 16) | (bytes[at + 6]! << 8) | bytes[at + 7]!;
  const end = (bytes[at + 12]! << 24) | (bytes[at + 13]! << 16) | (bytes[at + 14]! << 8) | bytes[at + 15]!;
  const mixed = Math.imul(low ^ Math.imul(begin, 0x85ebca6b), 0x9e3779b1) ^ end;
  return mixed ^ (mixed >>> 15);
}

function sameId(a: Buffer, from: number, b: Buffer, at: number): boolean {
  for (let i = UUID_BYTES - 1; i >= 0; i--) if (a[from + i] !== b[at + i]) return false;
  return true;
}
