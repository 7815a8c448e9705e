import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

export const MIB = 1024 * 1024;

/** Memory that a process has for itself, in bytes: without the pages of files that it maps. 0 when it is gone. */
function ownMemory(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    return Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** MiB that a process has for itself. */
export function memoryOf(pid: number): number {
  return ownMemory(pid) / MIB;
}

/** MiB that a process came to at most while `work` ran. */
export async function peak(pid: number, work: () => Promise<unknown>): Promise<number> {
  let most = ownMemory(pid);
  const timer = setInterval(() => {
    most = Math.max(most, ownMemory(pid));
  }, 2);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return most / MIB;
}

/** Bytes that do not repeat; `size` is a multiple of 4. */
export function manyBytes(size: number): Buffer {
  const value = Buffer.alloc(size);
  for (let at = 0; at < size; at += 4) value.writeUInt32LE(Math.imul(at, 0x9e3779b1) >>> 0, at);
  return value;
}

export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
