import { allocate } from '../record/room.js';

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

/** The value without its last bytes. */
export function shortened(bytes: Buffer, length: number): Buffer {
  if (!(bytes as SharedBytes).isGlobal) return bytes.subarray(0, length);
  (bytes as { length: number }).length = length;
  return bytes;
}

/** The first `length` bytes of a value as a Buffer of the caller's own, in `into` where that has room. */
export function copyOf(bytes: Buffer, length: number, into?: Buffer): Buffer {
  const out = into && length <= into.length ? into.subarray(0, length) : allocate(length);
  viewOf(bytes).copy(out, 0, 0, length);
  return out;
}
