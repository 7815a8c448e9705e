/** Byte strings in one buffer: key `i` is `bytes[starts[i], ends[i])`. */
export interface KeyList {
  readonly bytes: Uint8Array;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  readonly count: number;
}

/** Up to this many keys are sorted by insertion. */
const MAX_INSERTION_SORT = 12;
/**
 * Number of key bytes that are packed into one number, as digits in base 257. Digit 0 stands for the end of the key.
 */
const DIGITS = 4;
const BASE = 257;
/** Factor for the packed number, to which the key's position is then added. The position keeps equal keys in order. */
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
  readonly #previousOrder: Uint32Array;

  constructor(keys: KeyList, order: Uint32Array) {
    this.#keys = keys;
    this.#order = order;
    this.#numbers = new Float64Array(order.length);
    this.#previousOrder = new Uint32Array(order.length);
  }

  /** Sorts `order[firstIndex, endIndex)`, whose keys agree in their first `depth` bytes. */
  sort(firstIndex: number, endIndex: number, depth: number): void {
    if (endIndex - firstIndex <= MAX_INSERTION_SORT) {
      this.#sortByInsertion(firstIndex, endIndex, depth);
      return;
    }
    const commonLength = this.#commonLength(firstIndex, endIndex, depth);
    if (commonLength < 0) return;
    // The loop reads all numbers before the recursive calls reuse the memory.
    const numbers = this.#packNumbers(firstIndex, endIndex, commonLength);
    const order = this.#order;
    const previousOrder = this.#previousOrder;
    const groupStarts: number[] = [];
    let lastDigits = -1;
    for (let i = firstIndex; i < endIndex; i++) {
      const number = numbers[i - firstIndex]!;
      const digits = Math.floor(number / POSITIONS);
      order[i] = previousOrder[number - digits * POSITIONS]!;
      if (digits !== lastDigits) groupStarts.push(i);
      lastDigits = digits;
    }
    groupStarts.push(endIndex);
    for (let i = 1; i < groupStarts.length; i++) {
      if (groupStarts[i]! - groupStarts[i - 1]! > 1)
        this.sort(groupStarts[i - 1]!, groupStarts[i]!, commonLength + DIGITS);
    }
  }

  /** Returns sorted numbers: `DIGITS` bytes of each key from `depth` on, and the key's position in `#previousOrder`. */
  #packNumbers(firstIndex: number, endIndex: number, depth: number): Float64Array {
    const { bytes, starts, ends } = this.#keys;
    const numbers = this.#numbers.subarray(0, endIndex - firstIndex);
    for (let i = firstIndex; i < endIndex; i++) {
      const key = this.#order[i]!;
      const offset = starts[key]! + depth;
      const end = ends[key]!;
      let number = 0;
      for (let k = offset; k < offset + DIGITS; k++) number = number * BASE + (k < end ? bytes[k]! + 1 : 0);
      this.#previousOrder[i - firstIndex] = key;
      numbers[i - firstIndex] = number * POSITIONS + (i - firstIndex);
    }
    return numbers.sort();
  }

  /** Length of the common prefix of `order[firstIndex, endIndex)`; -1 when all keys are equal. */
  #commonLength(firstIndex: number, endIndex: number, depth: number): number {
    const { bytes, starts, ends } = this.#keys;
    const firstKey = this.#order[firstIndex]!;
    const start = starts[firstKey]!;
    const length = ends[firstKey]! - start;
    let commonLength = length;
    let areEqual = true;
    for (let i = firstIndex + 1; i < endIndex; i++) {
      const key = this.#order[i]!;
      const otherStart = starts[key]!;
      const shorter = Math.min(commonLength, ends[key]! - otherStart);
      let offset = Math.min(depth, shorter);
      while (offset < shorter && bytes[start + offset] === bytes[otherStart + offset]) offset++;
      commonLength = offset;
      areEqual &&= offset === length && ends[key]! - otherStart === length;
    }
    return areEqual ? -1 : commonLength;
  }

  #sortByInsertion(firstIndex: number, endIndex: number, depth: number): void {
    const order = this.#order;
    for (let i = firstIndex + 1; i < endIndex; i++) {
      const key = order[i]!;
      let offset = i;
      for (; offset > firstIndex && this.#compare(order[offset - 1]!, key, depth) > 0; offset--)
        order[offset] = order[offset - 1]!;
      order[offset] = key;
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
