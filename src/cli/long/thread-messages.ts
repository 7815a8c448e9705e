import type { ResultName } from '../../ldap/ldap-error.js';
import type { LongRequest, LongResult } from '../../server/processes/long-request.js';

/** A message to the thread. `id` is the number of the request. */
export type ThreadOrder =
  | { readonly type: 'request'; readonly id: number; readonly request: LongRequest }
  /** Bytes of this request were sent to the client, so the thread may post more. */
  | { readonly type: 'taken'; readonly id: number }
  /** The message in pieces could not be sent to the client. */
  | { readonly type: 'cut'; readonly id: number }
  | { readonly type: 'abort'; readonly id: number }
  | { readonly type: 'stop' };

/** A message from the thread. */
export type ThreadReport =
  /** The thread has opened the directory. */
  | { readonly type: 'ready' }
  /** Whole LDAP messages. */
  | { readonly type: 'messages'; readonly id: number; readonly bytes: Uint8Array }
  /** A piece of one LDAP message. */
  | { readonly type: 'piece'; readonly id: number; readonly bytes: Uint8Array }
  /** The end of the LDAP message in pieces. `broken`: the message is not complete. */
  | { readonly type: 'pieced'; readonly id: number; readonly broken: boolean }
  | { readonly type: 'end'; readonly id: number; readonly result: LongResult }
  | { readonly type: 'failed'; readonly id: number; readonly failure: Failure };

/** An error of a request, as plain data. */
export interface Failure {
  readonly message: string;
  readonly result: ResultName;
  /** Set when the LDAP message cannot be decoded: where the fault is, and whether the connection must end. */
  readonly protocol?: { readonly offset: number; readonly fatal: boolean };
}
