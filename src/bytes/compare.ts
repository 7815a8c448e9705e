/**
 * Byte comparisons. Most operands have a few bytes: there a loop costs less than a call into the runtime, and a loop
 * may read shared memory.
 */

/** Longest operand, in bytes, that is compared in a loop. Longer operands go to `Buffer.compare`. */
const MAX_LOOP_BYTES = 64;

/** Whether `a` equals `b[bStart, bEnd)`. */
export function sameBytes(a: Uint8Array, b: Buffer, bStart = 0, bEnd = b.length): boolean {
  const n = a.length;
  if (n !== bEnd - bStart) return false;
  if (n > MAX_LOOP_BYTES) return b.compare(a, 0, n, bStart, bEnd) === 0;
  for (let i = 0; i < n; i++) if (a[i] !== b[bStart + i]) return false;
  return true;
}

/** Whether `length` bytes of `a` at `aStart` and `b` at `bStart` agree. Compares from the end: prefixes often agree. */
export function sameRun(a: Uint8Array, aStart: number, b: Uint8Array, bStart: number, length: number): boolean {
  for (let i = length - 1; i >= 0; i--) if (a[aStart + i] !== b[bStart + i]) return false;
  return true;
}

/** Whether `bytes` holds `expected` at `offset`. Compares from the end, like `sameRun`. */
export function hasBytesAt(bytes: Uint8Array, offset: number, expected: Uint8Array): boolean {
  for (let i = expected.length - 1; i >= 0; i--) if (bytes[offset + i] !== expected[i]) return false;
  return true;
}

/** Whether `bytes[start, stop)` begins with `prefix`. */
export function startsWith(bytes: Uint8Array, prefix: Uint8Array, start = 0, stop = bytes.length): boolean {
  const n = prefix.length;
  if (stop - start < n) return false;
  for (let i = n - 1; i >= 0; i--) if (bytes[start + i] !== prefix[i]) return false;
  return true;
}

/** Order of `a[aStart, aEnd)` and `b`: < 0, 0 or > 0. Called once per cell, so it has four parameters only. */
export function compareRun(a: Uint8Array, aStart: number, aEnd: number, b: Uint8Array): number {
  const n = aEnd - aStart;
  const m = b.length;
  const shorter = Math.min(n, m);
  for (let i = 0; i < shorter; i++) {
    const d = a[aStart + i]! - b[i]!;
    if (d !== 0) return d;
  }
  return n - m;
}

/** Order of `a[aStart, aEnd)` and `b[bStart, bEnd)`: < 0, 0 or > 0. */
export function compareRuns(
  a: Uint8Array,
  aStart: number,
  aEnd: number,
  b: Uint8Array,
  bStart = 0,
  bEnd = b.length,
): number {
  const shorter = Math.min(aEnd - aStart, bEnd - bStart);
  for (let i = 0; i < shorter; i++) {
    const d = a[aStart + i]! - b[bStart + i]!;
    if (d !== 0) return d;
  }
  return aEnd - aStart - (bEnd - bStart);
}

/** Index of the first element of `sorted` that is not less than `bytes`; `sorted.length` if every element is less. */
export function lowerBound(sorted: readonly Buffer[], bytes: Buffer): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (Buffer.compare(sorted[middle]!, bytes) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
