import { createHash } from 'node:crypto';

export const MIB = 1024 * 1024;

/** Bytes that do not repeat; `size` is a multiple of 4. */
export function manyBytes(size: number): Buffer {
  const value = Buffer.alloc(size);
  for (let at = 0; at < size; at += 4) value.writeUInt32LE(Math.imul(at, 0x9e3779b1) >>> 0, at);
  return value;
}

export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
