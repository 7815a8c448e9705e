import type { Config } from '../settings/index.js';

/**
 * Why a connection ends, and how: destroyed at once, closed in order, or closed after a Notice of Disconnection. A
 * client without an outstanding request gets no notice, because libraries would take the notice for the response to the
 * next request. After a plain close they connect again.
 */
export interface Expiry {
  readonly action: 'destroy' | 'close' | 'notify';
  readonly reason: string;
}

/** Time that a client has to close its side after the server closed. */
const CLOSING_SECONDS = 5;

/**
 * Start times of the phases in which a connection may time out, as `performance.now()`; 0: not in that phase. There are
 * no timers: the server checks every connection periodically.
 */
export class Deadlines {
  readonly #limits: Config['limits'];
  /** Time of the last received bytes or sent response. */
  lastActiveAt = performance.now();
  /** When the connection was opened; 0 after the first request. */
  openedAt = this.lastActiveAt;
  /** When the first bytes of an incomplete message came. */
  partialMessageSince = 0;
  handshakeSince = 0;
  /** When the server closed its side. */
  closingSince = 0;

  constructor(limits: Config['limits']) {
    this.#limits = limits;
  }

  /** Returns the expired timeout. `sentAt`: when the bytes in the socket were written; 0: none. */
  findExpiry(now: number, sentAt: number, hasOutstanding: boolean): Expiry | undefined {
    const { bindSeconds, slowReaderSeconds, idleSeconds } = this.#limits;
    const hasExpired = (since: number, seconds: number): boolean =>
      since > 0 && seconds > 0 && now - since > seconds * 1000;
    if (hasExpired(this.handshakeSince, bindSeconds))
      return { action: 'destroy', reason: 'the TLS handshake was not finished' };
    if (hasExpired(sentAt, slowReaderSeconds)) return { action: 'destroy', reason: 'the client does not read' };
    if (hasExpired(this.closingSince, CLOSING_SECONDS))
      return { action: 'destroy', reason: 'the client did not close' };
    if (hasExpired(this.openedAt, bindSeconds)) return { action: 'close', reason: 'no request came' };
    if (hasExpired(this.partialMessageSince, bindSeconds))
      return { action: 'notify', reason: 'a message was begun and not finished' };
    if (!hasOutstanding && hasExpired(this.lastActiveAt, idleSeconds))
      return { action: 'close', reason: 'idle for too long' };
    return undefined;
  }
}
