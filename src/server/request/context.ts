import type { Asker } from '../../partition/read/search-params.js';
import type { ReplyEntry } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import type { Services } from '../services/services.js';
import type { RequestControls } from '../words/controls.js';
import type { Maybe } from '../words/maybe.js';
import type { Session } from '../words/session.js';

/** Where a search puts what it finds. A promise pauses the search until it resolves: back-pressure. */
export interface SearchReply {
  entry(entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void>;
  reference(urls: readonly string[]): Maybe<void>;
}

/** What an operation may know of and do to the connection that it came through. */
export interface Transport {
  /** The bytes travel under TLS. */
  readonly encrypted: boolean;
  /** Nobody listens in: TLS, or a socket of this machine. */
  readonly confidential: boolean;
  /** Of the client; undefined: this machine, without one. */
  readonly address: string | undefined;
  /** Bits of the cipher; 256 on a socket of this machine. */
  readonly strength: number;
  /** Network that the client is in: see `networkOf`. */
  readonly network: string;
  /** Operations that have begun and not ended, this one not counted. */
  readonly outstanding: number;
  /** Takes up TLS after the response has been sent; throws `LdapError` where that cannot be (RFC 4511 §4.14). */
  startTls(): void;
  /**
   * Ends operation `target` with `canceled` for operation `own` (RFC 3909); resolves when it has ended. Throws or
   * rejects with the result code.
   */
  cancel(target: number, own: number): Maybe<void>;
}

/** What every operation is given beside its request. */
export interface Context {
  /** messageID. */
  readonly id: number;
  readonly services: Services;
  readonly session: Session;
  readonly transport: Transport;
  readonly controls: RequestControls;
  /** Who shares the turns of long searches with the others; undefined: this operation alone. */
  readonly asker: Asker | undefined;
  /** Set when the operation is abandoned or canceled, or its connection is gone. */
  readonly aborted: boolean;
  /**
   * Has `leave` called when that is so, or the operation is abandoned, until what it gives is called: while it waits
   * for something and has done nothing. One at a time.
   */
  onceGone(leave: () => void): () => void;
}
