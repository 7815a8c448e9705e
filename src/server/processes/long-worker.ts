import type { Maybe } from '../words/maybe.js';
import type { Outcome } from '../words/outcome.js';
import type { Identity } from '../words/session.js';

/**
 * A request that would hold the event loop for long, on its way to whoever has the time. Plain data: it goes to another
 * thread.
 */
export interface Errand {
  /** One whole LDAPMessage. Given away. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** It may change entries: such errands are done one after another, as each takes much memory. */
  readonly changes: boolean;
  readonly identity: Identity;
  /** Tells those of one connection from those of others. */
  readonly connection: number;
  readonly encrypted: boolean;
  readonly confidential: boolean;
  readonly address: string | undefined;
  readonly strength: number;
}

/** How it ended. */
export interface ErrandEnd {
  readonly outcome: Outcome;
  /** Who the connection acts as now. */
  readonly identity: Identity;
  /** Entries sent. */
  readonly entries: number;
}

/** Where the messages before the final one go. */
export interface ErrandReply {
  /** Whole messages. A promise: no more until it resolves. */
  messages(bytes: Buffer): Maybe<void>;
  /** One message, piece by piece; rejects where it did not go wholly. */
  message(pieces: AsyncIterable<Buffer>): Promise<void>;
  /** Set where it is to end as soon as it can; `onAbort` is called then. */
  readonly aborted: boolean;
  onAbort: (() => void) | undefined;
}

/** Does errands beside the event loop that serves the connections. */
export interface LongWorker {
  /**
   * Whether it has time for a search with many results now, while `here` of them are under way in the thread that asks.
   */
  hasTime(here: number): boolean;
  /**
   * Rejects with a `ProtocolError` where the message cannot be decoded, else with an `LdapError`: `busy` where too many
   * errands wait.
   */
  run(errand: Errand, reply: ErrandReply): Promise<ErrandEnd>;
}
