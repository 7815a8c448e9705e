import { readFileSync } from 'node:fs';

/** Returns how many files and sockets a process may have open; undefined: not known. */
export function openFilesLimit(pid: number): number | undefined {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'latin1')) ?? [];
    return limit === undefined ? undefined : Number(limit);
  } catch {
    // Only Linux tells the limit, and only to the user of the process.
    return undefined;
  }
}
