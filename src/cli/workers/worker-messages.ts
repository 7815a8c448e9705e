import type { ChildProcess, SendHandle } from 'node:child_process';
import type { Answer, Question } from '../../server/processes/siblings.js';
import type { Counts } from '../../server/processes/statistics.js';
import type { Settings } from '../options.js';

export type WorkerOrder =
  | { readonly type: 'start'; readonly worker: number; readonly settings: Settings }
  /** Sent with a socket accepted at `listen[index]`. `elsewhere` is the number of connections of the other workers. */
  | { readonly type: 'socket'; readonly id: number; readonly index: number; readonly elsewhere: number }
  | { readonly type: 'question'; readonly id: number; readonly question: Question }
  /** Answers of the other workers to a question of this worker. */
  | { readonly type: 'answers'; readonly id: number; readonly answers: Answer[] }
  | { readonly type: 'renewCertificate' }
  | { readonly type: 'stop' };

export type WorkerReport =
  | { readonly type: 'ready' }
  /** The worker could not start serving. */
  | { readonly type: 'failed'; readonly message: string }
  /** A socket has arrived. */
  | { readonly type: 'taken'; readonly id: number }
  | { readonly type: 'closed' }
  /** The last counts of a worker that ends. */
  | { readonly type: 'counts'; readonly counts: Counts }
  | { readonly type: 'question'; readonly id: number; readonly question: Question }
  | { readonly type: 'answer'; readonly id: number; readonly answer: Answer };

/** Sends a message if the other process still lives; a dead process does not need it. */
export function sendTo(
  process: ChildProcess | NodeJS.Process,
  message: WorkerOrder | WorkerReport,
  handle?: SendHandle,
): void {
  if (!process.connected) return;
  // `keepOpen` keeps the socket open here until the worker confirms its arrival.
  (process as ChildProcess).send(message, handle, { keepOpen: true }, () => undefined);
}
