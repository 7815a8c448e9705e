import { parentPort } from 'node:worker_threads';
import { verifyCryptText } from './crypt.js';

// The program of the worker thread of `verify-crypt.ts`. Replies to each job whether the password matches.

export interface CryptJob {
  readonly stored: string;
  readonly clear: Uint8Array;
}

const port = parentPort;
if (!port) throw new TypeError('crypt/worker runs in a worker thread only');

port.on('message', (job: CryptJob) => {
  const clear = Buffer.from(job.clear.buffer, job.clear.byteOffset, job.clear.byteLength);
  const isMatch = verifyCryptText(job.stored, clear);
  clear.fill(0);
  port.postMessage(isMatch);
});
