import type { ResultName } from '../../ldap/ldap-error.js';
import type { Errand, ErrandEnd } from '../../server/processes/long-worker.js';

/** To the thread. */
export type ThreadOrder =
  | { readonly type: 'errand'; readonly id: number; readonly errand: Errand }
  /** What it has sent for this errand was taken: more may come. */
  | { readonly type: 'taken'; readonly id: number }
  /** The message that it sends in pieces did not go. */
  | { readonly type: 'cut'; readonly id: number }
  | { readonly type: 'abort'; readonly id: number }
  | { readonly type: 'stop' };

/** From the thread. */
export type ThreadReport =
  /** It has opened the directory. */
  | { readonly type: 'ready' }
  | { readonly type: 'messages'; readonly id: number; readonly bytes: Uint8Array }
  /** A piece of one message. */
  | { readonly type: 'piece'; readonly id: number; readonly bytes: Uint8Array }
  /** The end of the message in pieces; `broken`: there is no more of it to come, but it is not whole. */
  | { readonly type: 'pieced'; readonly id: number; readonly broken: boolean }
  | { readonly type: 'end'; readonly id: number; readonly end: ErrandEnd }
  | { readonly type: 'failed'; readonly id: number; readonly failure: Failure };

/** Of a message that cannot be decoded, or of the thread itself. */
export interface Failure {
  readonly message: string;
  readonly result: ResultName;
  /** Where it cannot be decoded. */
  readonly protocol?: { readonly offset: number; readonly fatal: boolean };
}
