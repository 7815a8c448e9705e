import type { ChildProcess, SendHandle } from 'node:child_process';
import type { Answer, Question } from '../../server/processes/siblings.js';
import type { Settings } from '../options.js';

/** From the supervisor to a worker. */
export type WorkerOrder =
  | { readonly type: 'start'; readonly worker: number; readonly settings: Settings }
  /** Goes with a socket that came in at `listen[index]`; `elsewhere`: connections that the other workers have. */
  | { readonly type: 'socket'; readonly id: number; readonly index: number; readonly elsewhere: number }
  | { readonly type: 'question'; readonly id: number; readonly question: Question }
  /** To the worker's own question. */
  | { readonly type: 'answers'; readonly id: number; readonly answers: Answer[] }
  | { readonly type: 'renewCertificate' }
  | { readonly type: 'stop' };

/** From a worker to the supervisor. */
export type WorkerReport =
  | { readonly type: 'ready' }
  /** It could not begin to serve. */
  | { readonly type: 'failed'; readonly message: string }
  /** A socket has arrived. */
  | { readonly type: 'taken'; readonly id: number }
  /** A socket that it had is closed. */
  | { readonly type: 'closed' }
  | { readonly type: 'question'; readonly id: number; readonly question: Question }
  | { readonly type: 'answer'; readonly id: number; readonly answer: Answer };

/** Sends to the other process, if it still lives: what it misses otherwise it has no use for. */
export function sendTo(
  process: ChildProcess | NodeJS.Process,
  message: WorkerOrder | WorkerReport,
  handle?: SendHandle,
): void {
  if (!process.connected) return;
  // With `keepOpen` the socket lives on here until the worker has said that it has it.
  (process as ChildProcess).send(message, handle, { keepOpen: true }, () => undefined);
}
