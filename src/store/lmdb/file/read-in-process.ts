import { fork } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StoreError } from '../../store-error.js';
import { DATA_FILE } from './data-file.js';
import type { ReaderMessage } from './reader.js';

const PROGRAM = fileURLToPath(new URL('./reader.js', import.meta.url));

/** Signals by which a process ends that damaged pages lead astray. */
const CRASH_SIGNALS: ReadonlySet<string | null> = new Set([
  ...['SIGSEGV', 'SIGBUS', 'SIGABRT', 'SIGILL', 'SIGTRAP', 'SIGFPE'],
]);

/** Receives the number of rows read so far, and the number of all rows. */
export type OnRows = (rows: number, total: number) => void;

/**
 * Reads every row in the folder in a process of its own, because LMDB trusts all pages: on a damaged page it may crash.
 * Resolves with the findings, one line each: where LMDB crashed or failed, and where rows are out of order, not found
 * by their keys, or not as many as LMDB counts. May run beside writers. An absent or empty file has no findings.
 */
export function readInProcess(folder: string, onRows?: OnRows): Promise<string[]> {
  const path = join(folder, DATA_FILE);
  if (!existsSync(path) || statSync(path).size === 0) return Promise.resolve([]);
  const child = fork(PROGRAM, [folder], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const findings: string[] = [];
  let place = path;
  let failure: string | undefined;
  child.on('message', (message: ReaderMessage) => {
    place = message.place ?? place;
    failure = message.failure ?? failure;
    if (message.finding !== undefined) findings.push(message.finding);
    if (message.rows !== undefined) onRows?.(message.rows, message.total!);
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      if (CRASH_SIGNALS.has(signal))
        findings.push(`${place}: the process that read it crashed (${signal}); what follows was not read`);
      else if (code !== 0) failure ??= `the process that reads ${folder} was ended by ${signal ?? `code ${code}`}`;
      if (failure === undefined) resolve(findings);
      else reject(new StoreError('unavailable', failure));
    });
  });
}
