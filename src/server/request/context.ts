import type { Client } from '../../fair/time-slice.js';
import type { Maybe } from '../../partition/index.js';
import type { GivenNumbers } from '../../partition/model/directory-types.js';
import type { ReplyEntry } from '../entry/computed.js';
import type { Selection } from '../entry/selection.js';
import type { SearchReport } from '../observation/observation.js';
import type { RequestDescription } from '../observation/request-description.js';
import type { Services } from '../services/services.js';
import type { RequestControls } from '../words/controls.js';
import type { Session } from '../words/session.js';

/** Takes the results of a search. The search waits for a returned promise (back-pressure). */
export interface SearchReply {
  entry(entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void>;
  reference(urls: readonly string[]): Maybe<void>;
  /** Sends an intermediate response (RFC 4511 §4.13). Absent where messages other than results cannot be sent. */
  readonly intermediate?: ((oid: string, value: Buffer) => Maybe<void>) | undefined;
}

/** The network side of the connection that an operation came through. */
export interface Transport {
  readonly isEncrypted: boolean;
  /** Whether eavesdropping is ruled out: the connection uses TLS or a local socket. */
  readonly isConfidential: boolean;
  /** The client's IP address; undefined on a local socket. */
  readonly address: string | undefined;
  /** Key length of the TLS cipher in bits; 256 on a local socket. */
  readonly cipherStrength: number;
  /** The client's network as `clientNetwork` returns it. */
  readonly network: string;
  /** Starts TLS after the response has been sent (RFC 4511 §4.14). Throws `LdapError` when TLS is impossible. */
  startTls(): void;
}

/** The operations of the connection that could not be answered at once and have not ended. */
export interface Outstanding {
  /** Whether any operation besides `id` is outstanding. The operation itself is, once it has had to wait. */
  hasOthers(id: number): boolean;
  /**
   * Cancels the operation `targetId` on behalf of the operation `cancelId` (RFC 3909). Resolves when `targetId` has
   * ended with `canceled`. Throws or rejects with an `LdapError` when `targetId` cannot be canceled.
   */
  cancel(targetId: number, cancelId: number): Maybe<void>;
}

export interface Context {
  readonly id: number;
  readonly services: Services;
  /** Another session while a request with proxied authorization runs. */
  session: Session;
  readonly transport: Transport;
  readonly outstanding: Outstanding;
  readonly controls: RequestControls;
  /**
   * The client on whose behalf searches run: sliced work shares time slices by client. Undefined: a client of its own.
   */
  readonly client: Client | undefined;
  /** Whether the operation was abandoned or canceled, or its connection was closed. */
  readonly aborted: boolean;
  /** Set by a search that has succeeded. */
  searchReport: SearchReport | undefined;
  /** Set by a search that waits for changes after its results. A bind or a shutdown ends such a search. */
  isFollowing?: boolean;
  /** Called once by a search that waits for changes from now on. */
  readonly onFollowing?: (() => void) | undefined;
  /** Set by a bind that fails: the reason, which the client is not told. */
  bindFailure: string | undefined;
  /** DN of the identity that a proxied authorization control has named; '': an anonymous client. */
  proxiedDn?: string | undefined;
  /** Set by the end of a transaction: the operation that has failed. */
  description?: RequestDescription | undefined;
  /** Set by the end of a transaction: the changes as LDIF records. */
  changeText?: string | undefined;
  /** Set by a write. */
  givenNumbers: GivenNumbers | undefined;
  /**
   * Registers `stop`, which is called when the operation is aborted, and makes operations other than searches
   * abandonable. An operation registers it while it waits and has changed nothing. Returns a function that removes the
   * registration. Only one can be registered at a time.
   */
  onAbortWhileWaiting(stop: () => void): () => void;
}
