import { Worker } from 'node:worker_threads';
import type { CryptAnswer, CryptJob } from './crypt-worker.js';
import { isWorkedOn } from './forms.js';

type Settle = (matches: boolean) => void;

let worker: Worker | undefined;
let lastId = 0;
const waiting = new Map<number, Settle>();

function answer(message: CryptAnswer): void {
  const settle = waiting.get(message.id);
  waiting.delete(message.id);
  if (waiting.size === 0) worker?.unref();
  settle?.(message.matches);
}

/** A worker that dies takes its jobs with it: none of them verified. The next job starts another. */
function lost(dead: Worker): void {
  if (worker !== dead) return;
  worker = undefined;
  const settles = [...waiting.values()];
  waiting.clear();
  for (const settle of settles) settle(false);
}

function start(): Worker {
  const started = new Worker(new URL('./crypt-worker.js', import.meta.url), { name: 'rowan-crypt' });
  started.on('message', answer);
  started.on('error', () => lost(started));
  started.on('exit', () => lost(started));
  return started;
}

/**
 * Verifies crypt(3) text in one worker thread, started at the first use; jobs are done in order of arrival. It keeps
 * the process alive only while a job waits. False at once when there is nothing to work on.
 */
export function verifyCrypt(stored: string, clear: Buffer): boolean | Promise<boolean> {
  if (!isWorkedOn(stored, clear)) return false;
  worker ??= start();
  const at = worker;
  const job: CryptJob = { id: ++lastId, stored, clear: Uint8Array.from(clear) };
  return new Promise((resolve) => {
    waiting.set(job.id, resolve);
    at.ref();
    at.postMessage(job, [job.clear.buffer as ArrayBuffer]);
  });
}
