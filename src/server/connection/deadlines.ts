import type { Config } from '../settings/index.js';

/**
 * Why a connection is to end, and how: cut off at once, closed in order, or after a Notice of Disconnection. A client
 * that waits for nothing gets no notice: libraries would give it to the next request, where after a plain end they
 * connect again.
 */
export interface Expiry {
  readonly end: 'cut' | 'closed' | 'told';
  readonly why: string;
}

/** A connection that was said goodbye to and does not go. */
const CLOSING_SECONDS = 5;

/**
 * What a connection is waiting for and since when, as `performance.now()`; 0: for nothing. There are no timers: the
 * server asks every connection every so often.
 */
export class Deadlines {
  readonly #limits: Config['limits'];
  /** Last sign of life. */
  active = performance.now();
  /** It was opened; 0 once a request has come. */
  silent = this.active;
  /** The first bytes of a message came. */
  partial = 0;
  /** A TLS handshake began. */
  handshake = 0;
  /** The connection was to be closed. */
  closing = 0;

  constructor(limits: Config['limits']) {
    this.#limits = limits;
  }

  /**
   * `sent`: when the client was last given bytes that it has not taken, or 0; `working`: operations are outstanding.
   */
  expired(now: number, sent: number, working: boolean): Expiry | undefined {
    const { bindSeconds, slowReaderSeconds, idleSeconds } = this.#limits;
    const over = (since: number, seconds: number): boolean => since > 0 && seconds > 0 && now - since > seconds * 1000;
    if (over(this.handshake, bindSeconds)) return { end: 'cut', why: 'the TLS handshake was not finished' };
    if (over(sent, slowReaderSeconds)) return { end: 'cut', why: 'the client does not read' };
    if (over(this.closing, CLOSING_SECONDS)) return { end: 'cut', why: 'the client did not close' };
    if (over(this.silent, bindSeconds)) return { end: 'closed', why: 'no request came' };
    if (over(this.partial, bindSeconds)) return { end: 'told', why: 'a message was begun and not finished' };
    if (!working && over(this.active, idleSeconds)) return { end: 'closed', why: 'idle for too long' };
    return undefined;
  }
}
