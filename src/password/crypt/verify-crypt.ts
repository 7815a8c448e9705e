import { JobThread } from '../job-thread.js';
import type { CryptJob } from './crypt-worker.js';
import { needsComputation } from './forms.js';

const cryptThread = new JobThread<CryptJob, boolean>(new URL('./crypt-worker.js', import.meta.url), 'rowan-crypt');

/** Verifies crypt(3) text in a worker thread; false at once without a computation, and if the thread crashes. */
export function verifyCrypt(storedValue: string, clear: Buffer): boolean | Promise<boolean> {
  if (!needsComputation(storedValue, clear)) return false;
  const job = { stored: storedValue, clear: Uint8Array.from(clear) };
  return cryptThread.run(job, [job.clear.buffer]).then((matches) => matches ?? false);
}
