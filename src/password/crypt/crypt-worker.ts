import { parentPort } from 'node:worker_threads';
import { verifyCryptText } from './crypt.js';

// The program of the worker thread of `pool.ts`. Jobs are answered in the order of their arrival.

export interface CryptJob {
  readonly id: number;
  readonly stored: string;
  readonly clear: Uint8Array;
}

export interface CryptAnswer {
  readonly id: number;
  readonly matches: boolean;
}

const port = parentPort;
if (!port) throw new TypeError('crypt/worker runs in a worker thread only');

port.on('message', (job: CryptJob) => {
  const clear = Buffer.from(job.clear.buffer, job.clear.byteOffset, job.clear.byteLength);
  const answer: CryptAnswer = { id: job.id, matches: verifyCryptText(job.stored, clear) };
  clear.fill(0);
  port.postMessage(answer);
});
