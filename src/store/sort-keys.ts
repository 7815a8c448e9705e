/** Byte strings in one buffer: key `i` is `bytes[starts[i], ends[i])`. */
export interface KeyList {
  readonly bytes: Uint8Array;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  readonly count: number;
}

/** Up to this many keys are sorted by insertion. */
const FEW = 12;
/**
 * Number of key bytes that are packed into one number, as digits in base 257. Digit 0 stands for the end of the key.
 */
const STEP = 4;
const BASE = 257;
/** The packed number is multiplied by this, to add the key's position, which keeps equal keys in order. */
const POSITIONS = 2 ** 20;

/** Returns the indexes of the keys in byte order. The sort is stable. At most 2^20 keys. */
export function sortKeys(keys: KeyList): Uint32Array {
  if (keys.count > POSITIONS) throw new RangeError(`${keys.count} keys to sort; ${POSITIONS} are the most`);
  const order = new Uint32Array(keys.count);
  for (let i = 0; i < order.length; i++) order[i] = i;
  new Sorter(keys, order).sort(0, order.length, 0);
  return order;
}

class Sorter {
  readonly #keys: KeyList;
  readonly #order: Uint32Array;
  readonly #numbers: Float64Array;
  readonly #before: Uint32Array;

  constructor(keys: KeyList, order: Uint32Array) {
    this.#keys = keys;
    this.#order = order;
    this.#numbers = new Float64Array(order.length);
    this.#before = new Uint32Array(order.length);
  }

  /** Sorts `order[from, to)`, whose keys agree in their first `depth` bytes. */
  sort(from: number, to: number, depth: number): void {
    if (to - from <= FEW) {
      this.#insertion(from, to, depth);
      return;
    }
    const common = this.#common(from, to, depth);
    if (common < 0) return;
    // The loop reads all numbers before the recursive calls reuse the memory.
    const numbers = this.#numbered(from, to, common);
    const order = this.#order;
    const before = this.#before;
    const ends: number[] = [];
    let last = -1;
    for (let i = from; i < to; i++) {
      const number = numbers[i - from]!;
      const digits = Math.floor(number / POSITIONS);
      order[i] = before[number - digits * POSITIONS]!;
      if (digits !== last) ends.push(i);
      last = digits;
    }
    ends.push(to);
    for (let i = 1; i < ends.length; i++) {
      if (ends[i]! - ends[i - 1]! > 1) this.sort(ends[i - 1]!, ends[i]!, common + STEP);
    }
  }

  #numbered(from: number, to: number, depth: number): Float64Array {
    const { bytes, starts, ends } = this.#keys;
    const numbers = this.#numbers.subarray(0, to - from);
    for (let i = from; i < to; i++) {
      const key = this.#order[i]!;
      const at = starts[key]! + depth;
      const end = ends[key]!;
      let number = 0;
      for (let k = at; k < at + STEP; k++) number = number * BASE + (k < end ? bytes[k]! + 1 : 0);
      this.#before[i - from] = key;
      numbers[i - from] = number * POSITIONS + (i - from);
    }
    return numbers.sort();
  }

  /** Length of the common prefix of `order[from, to)`; -1 when all keys are equal. */
  #common(from: number, to: number, depth: number): number {
    const { bytes, starts, ends } = this.#keys;
    const first = this.#order[from]!;
    const start = starts[first]!;
    const length = ends[first]! - start;
    let common = length;
    let equal = true;
    for (let i = from + 1; i < to; i++) {
      const key = this.#order[i]!;
      const other = starts[key]!;
      const shorter = Math.min(common, ends[key]! - other);
      let at = Math.min(depth, shorter);
      while (at < shorter && bytes[start + at] === bytes[other + at]) at++;
      common = at;
      equal &&= at === length && ends[key]! - other === length;
    }
    return equal ? -1 : common;
  }

  #insertion(from: number, to: number, depth: number): void {
    const order = this.#order;
    for (let i = from + 1; i < to; i++) {
      const key = order[i]!;
      let at = i;
      for (; at > from && this.#compare(order[at - 1]!, key, depth) > 0; at--) order[at] = order[at - 1]!;
      order[at] = key;
    }
  }

  #compare(a: number, b: number, depth: number): number {
    const { bytes, starts, ends } = this.#keys;
    let p = starts[a]! + depth;
    let q = starts[b]! + depth;
    const end = ends[a]!;
    const stop = ends[b]!;
    while (p < end && q < stop) {
      const d = bytes[p++]! - bytes[q++]!;
      if (d !== 0) return d;
    }
    return end - p - (stop - q);
  }
}
