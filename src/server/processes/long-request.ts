import type { Maybe } from '../../partition/index.js';
import type { SearchReport } from '../observation/observation.js';
import type { RequestDescription } from '../observation/request-description.js';
import type { Outcome } from '../words/outcome.js';
import type { Identity } from '../words/session.js';
import type { StateDirectory } from './replica-states.js';

/** A request that would block the event loop for long. Plain data, which can be posted to another thread. */
export interface LongRequest {
  /** One whole LDAPMessage. The memory is transferred to the other thread. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Whether the request may change entries. Long writes run one at a time, because a long write takes much memory. */
  readonly isWrite: boolean;
  /** Whether the request is a bind. `identity` is then that of the earlier bind. */
  readonly isBind?: boolean;
  /** Set for a request of a replica's client: replicas acknowledge what it changes. */
  readonly isForwarded?: boolean;
  /** On a replica: URLs of its primary. */
  readonly primaryUrls?: readonly string[] | undefined;
  readonly identity: Identity;
  /** The number of the connection. */
  readonly connectionNumber: number;
  readonly isEncrypted: boolean;
  readonly isConfidential: boolean;
  readonly address: string | undefined;
  readonly cipherStrength: number;
  /** Whether an observer may ask for the description of the request. */
  readonly isObserved: boolean;
  /** The number of replicas that have handed the request on to another replica. */
  readonly hops?: number;
}

/** A figure, or the result of the function that computes the figure. */
type PlainFigure<T> = T extends () => infer R ? R : T;

/** The result of a long request. Plain data. */
export interface LongResult {
  readonly outcome: Outcome;
  /** The identity of the connection after the request. */
  readonly identity: Identity;
  /** The number of entries sent. */
  readonly entryCount: number;
  readonly referenceCount: number;
  /** Length of the sent messages. */
  readonly sentBytes: number;
  /** `advice` is the text of the advice. */
  readonly searchReport: { readonly [K in keyof SearchReport]: PlainFigure<SearchReport[K]> } | undefined;
  /** Undefined: no observer asks for a description, or the request cannot be decoded. */
  readonly description: RequestDescription | undefined;
  /** See `Context`. */
  readonly proxiedDn: string | undefined;
  /** The change for the audit log; undefined: no audit log, or no change. */
  readonly changeText: string | undefined;
}

/** Sends the entries and references of a long request to its client. */
export interface LongReply {
  /** Sends whole messages. The caller waits for a returned promise before it sends more. */
  sendMessages(bytes: Buffer): Maybe<void>;
  /** Sends one message in chunks. Rejects when not all of it was sent. */
  sendChunked(chunks: AsyncIterable<Buffer>): Promise<void>;
  /** True when the request is to end as soon as it can. `onAbort` is called when this becomes true. */
  readonly aborted: boolean;
  onAbort: (() => void) | undefined;
}

/** Runs long requests outside the event loop that serves the connections. */
export interface LongWorker {
  /**
   * Whether the worker has time for a search with many results now. `localSearches` is the number of such searches that
   * run in the calling thread. A worker takes the search if the worker has fewer requests than that.
   */
  hasTime(localSearches: number): boolean;
  /** Rejects with a `ProtocolError` when the message cannot be decoded, otherwise with an `LdapError`. */
  run(request: LongRequest, reply: LongReply): Promise<LongResult>;
}

/** Runs requests at the primary of a replica. */
export interface PrimaryLink {
  /** URLs of the primary. */
  readonly urls: readonly string[];
  /** Whether the primary was reached when it was asked last. */
  readonly isReached: boolean;
  /**
   * Resolves when the replica has applied what the request has changed, or a bounded time later. Rejects with an
   * `LdapError`: `unavailable` when the primary is away, `referral` when clients are to go there themselves.
   */
  run(request: LongRequest): Promise<LongResult>;
  /** Hands on what another replica has recorded of binds. */
  handOn(states: Buffer): Promise<void>;
  close(): void;
}

/** What the operations of a server need that may be a replica. */
export interface ReplicaServices {
  /** Undefined: this server is no replica now. */
  readonly link: PrimaryLink | undefined;
  readonly states: StateDirectory;
  close(): void;
}
