import { Worker } from 'node:worker_threads';
import type { CryptAnswer, CryptJob } from './crypt-worker.js';
import { needsComputation } from './forms.js';

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

/** Answers the jobs of a crashed worker with false. The next job starts a new worker. */
function handleExit(crashed: Worker): void {
  if (worker !== crashed) return;
  worker = undefined;
  const settles = [...waiting.values()];
  waiting.clear();
  for (const settle of settles) settle(false);
}

function start(): Worker {
  const started = new Worker(new URL('./crypt-worker.js', import.meta.url), { name: 'rowan-crypt' });
  started.on('message', answer);
  started.on('error', () => handleExit(started));
  started.on('exit', () => handleExit(started));
  return started;
}

/**
 * Verifies crypt(3) text in a worker thread, which is started at the first use and keeps the process alive only while a
 * job waits. Returns false synchronously when no computation is needed.
 */
export function verifyCrypt(stored: string, clear: Buffer): boolean | Promise<boolean> {
  if (!needsComputation(stored, clear)) return false;
  worker ??= start();
  const current = worker;
  const job: CryptJob = { id: ++lastId, stored, clear: Uint8Array.from(clear) };
  return new Promise((resolve) => {
    waiting.set(job.id, resolve);
    current.ref();
    current.postMessage(job, [job.clear.buffer as ArrayBuffer]);
  });
}
