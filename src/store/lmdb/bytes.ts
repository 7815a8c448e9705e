/**
 * `getBinaryFast` and decoders get LMDB's shared read buffer: one large Buffer whose `length` is set to the value's
 * size at each read. Its elements are the truth, its methods are not (they see the real length).
 */
interface SharedBytes extends Buffer {
  isGlobal?: boolean;
  maxLength?: number;
}

let shared: Buffer | undefined;
let plain: Buffer = Buffer.alloc(0);

/** A plain Buffer over the same memory, from its start; longer than the value. Good until the next read. */
export function viewOf(bytes: Buffer): Buffer {
  if (bytes === shared) return plain;
  const { isGlobal, maxLength } = bytes as SharedBytes;
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, isGlobal ? maxLength! : bytes.byteLength);
  if (isGlobal) {
    shared = bytes;
    plain = view;
  }
  return view;
}

/** Copies up to a quarter of a slab share one: an allocation costs more than the copy. */
const SLAB = 32 * 1024;

let slab = Buffer.allocUnsafeSlow(SLAB).buffer;
let used = 0;

/** A Buffer of the caller's own; its bytes are anything. */
export function allocate(length: number): Buffer {
  if (length > SLAB >> 2) return Buffer.allocUnsafeSlow(length);
  if (used + length > SLAB) {
    slab = Buffer.allocUnsafeSlow(SLAB).buffer;
    used = 0;
  }
  // Half the time of `subarray`, which asks for the memory each time.
  const out = Buffer.from(slab, used, length);
  used += (length + 7) & ~7;
  return out;
}

/** The first `length` bytes of a value as a Buffer of the caller's own, in `into` where that has room. */
export function copyOf(bytes: Buffer, length: number, into?: Buffer): Buffer {
  const out = into && length <= into.length ? into.subarray(0, length) : allocate(length);
  viewOf(bytes).copy(out, 0, 0, length);
  return out;
}

/** Order of `a[from, to)` and `b[start, end)`. By elements: right in LMDB's shared buffer, and for short runs less than a call of the runtime. */
export function compareRuns(a: Buffer, from: number, to: number, b: Buffer, start = 0, end = b.length): number {
  const shorter = Math.min(to - from, end - start);
  for (let i = 0; i < shorter; i++) {
    const d = a[from + i]! - b[start + i]!;
    if (d !== 0) return d;
  }
  return to - from - (end - start);
}
