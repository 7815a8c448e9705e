import { sameRun } from '../../../bytes/compare.js';
import { UUID_BYTES } from '../../model/tables.js';

/** A set of entryUUIDs that takes about 30 bytes per id. Searches use sets to examine each entry once. */
export class IdSet {
  #ids = Buffer.alloc(64 * UUID_BYTES);
  /** Hash table. A slot has a position in `#ids`, plus one; 0: free. */
  #slots = new Int32Array(128);
  #size = 0;

  /** Adds the id `bytes[offset, offset + 16)`. Returns false if the set has it. */
  add(bytes: Buffer, i: number): boolean {
    const mask = this.#slots.length - 1;
    for (let slot = hashId(bytes, i) & mask; ; slot = (slot + 1) & mask) {
      const number = this.#slots[slot]!;
      if (number === 0) {
        this.#slots[slot] = ++this.#size;
        this.#append(bytes, i);
        return true;
      }
      if (sameRun(this.#ids, (number - 1) * UUID_BYTES, bytes, i, UUID_BYTES)) return false;
    }
  }

  has(bytes: Buffer, i: number): boolean {
    const mask = this.#slots.length - 1;
    for (let slot = hashId(bytes, i) & mask; ; slot = (slot + 1) & mask) {
      const number = this.#slots[slot]!;
      if (number === 0) return false;
      if (sameRun(this.#ids, (number - 1) * UUID_BYTES, bytes, i, UUID_BYTES)) return true;
    }
  }

  #append(bytes: Buffer, offset: number): void {
    const target = (this.#size - 1) * UUID_BYTES;
    if (target === this.#ids.length) this.#ids = Buffer.concat([this.#ids, Buffer.alloc(target)]);
    for (let i = 0; i < UUID_BYTES; i++) this.#ids[target + i] = bytes[offset + i]!;
    if (this.#size * 2 > this.#slots.length) this.#grow();
  }

  #grow(): void {
    const slots = new Int32Array(this.#slots.length * 2);
    const mask = slots.length - 1;
    for (let number = 1; number <= this.#size; number++) {
      let slot = hashId(this.#ids, (number - 1) * UUID_BYTES) & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = number;
    }
    this.#slots = slots;
  }
}

/** UUIDs of version 7 differ in the last bytes of the time and at the end, UUIDs of version 1 in the first bytes. */
function hashId(bytes: Buffer, i: number): number {
  const firstWord = (bytes[i]! << 24) | (bytes[i + 1]! << 16) | (bytes[i + 2]! << 8) | bytes[i + 3]!;
  const secondWord = (bytes[i + 4]! << 24) | (bytes[i + 5]! << 16) | (bytes[i + 6]! << 8) | bytes[i + 7]!;
  const lastWord = (bytes[i + 12]! << 24) | (bytes[i + 13]! << 16) | (bytes[i + 14]! << 8) | bytes[i + 15]!;
  const hash = Math.imul(secondWord ^ Math.imul(firstWord, 0x85ebca6b), 0x9e3779b1) ^ lastWord;
  return hash ^ (hash >>> 15);
}

/** The most ids in the list `a` of `commonIds`. */
export const MAX_COMPARED = 2048;

/** Hash table. A slot has the offset of an id, plus one; 0: free. Set to 0 after each use. */
const slots = new Int32Array(2 * MAX_COMPARED);
const WORDS = UUID_BYTES / 4;

/** Returns the ids in `b` that are also in `a`, in the order of `b`. */
export function commonIds(a: Buffer, b: Buffer): Buffer {
  const x = toWords(a);
  const y = toWords(b);
  const mask = slots.length - 1;
  for (let i = 0; i < x.length; i += WORDS) {
    let slot = hashAt(x, i) & mask;
    while (slots[slot] !== 0) slot = (slot + 1) & mask;
    slots[slot] = i + 1;
  }
  const commonOffsets: number[] = [];
  for (let j = 0; j < y.length; j += WORDS) {
    let slot = hashAt(y, j) & mask;
    while (slots[slot] !== 0 && !isSameAt(x, slots[slot]! - 1, y, j)) slot = (slot + 1) & mask;
    if (slots[slot] !== 0) commonOffsets.push(j * 4);
  }
  slots.fill(0);
  const ids = Buffer.allocUnsafe(commonOffsets.length * UUID_BYTES);
  let target = 0;
  for (const offset of commonOffsets) for (let k = 0; k < UUID_BYTES; k++) ids[target++] = b[offset + k]!;
  return ids;
}

/** Returns the ids as 32-bit words in the byte order of the machine, as a view if possible. */
function toWords(ids: Buffer): Int32Array {
  const alignedIds = ids.byteOffset % 4 === 0 ? ids : new Uint8Array(ids);
  return new Int32Array(alignedIds.buffer, alignedIds.byteOffset, ids.length / 4);
}

/** Hashes all 16 bytes, because ids may differ in any of them. */
function hashAt(ids: Int32Array, i: number): number {
  const firstHalf = Math.imul(ids[i]! ^ Math.imul(ids[i + 1]!, 0x85ebca6b), 0x9e3779b1);
  const hash = firstHalf ^ ids[i + 2]! ^ Math.imul(ids[i + 3]!, 0xc2b2ae35);
  return hash ^ (hash >>> 15);
}

function isSameAt(x: Int32Array, i: number, y: Int32Array, j: number): boolean {
  return x[i + 3] === y[j + 3] && x[i + 2] === y[j + 2] && x[i + 1] === y[j + 1] && x[i] === y[j];
}
