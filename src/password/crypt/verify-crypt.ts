import { JobThread } from '../job-thread.js';
import type { CryptJob } from './crypt-worker.js';
import { needsComputation } from './forms.js';

const cryptThread = new JobThread<CryptJob, boolean>(new URL('./crypt-worker.js', import.meta.url), 'rowan-crypt');

/**
 * Verifies crypt(3) text in a worker thread. Returns false synchronously when no computation is needed. If the thread
 * crashes, the password does not match.
 */
export function verifyCrypt(stored: string, clear: Buffer): boolean | Promise<boolean> {
  if (!needsComputation(stored, clear)) return false;
  const job = { stored, clear: Uint8Array.from(clear) };
  return cryptThread.run(job, [job.clear.buffer]).then((matches) => matches ?? false);
}
