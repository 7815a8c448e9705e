import { LdapError } from '../../ldap/ldap-error.js';
import { decodeRequest, peekRequest } from '../../protocol/decode.js';
import { type Admission, Framer } from '../../protocol/framing.js';
import type { RequestMessage } from '../../protocol/ldap-messages.js';
import type { DecodeLimits } from '../../protocol/limits.js';
import { ProtocolError } from '../../protocol/protocol-error.js';
import type { AnsweredRequest } from '../operations/perform.js';
import type { Services } from '../services/services.js';
import type { Session } from '../words/session.js';
import type { Budget, Claimant } from './budget.js';
import { decodeUnlessLong, type LongRequest } from './long-request.js';

/** What a client has sent, or what of it is done elsewhere. */
export type Arrived = RequestMessage | LongRequest;

/** Whose requests they are. */
export interface IntakeOwner extends Claimant {
  readonly services: Services;
  readonly session: Session;
  /** What refuses an operation before its request has come. */
  refusalOf(op: AnsweredRequest['op']): LdapError | undefined;
  /** Answers a request that is not kept. */
  refuseEarly(id: number, op: AnsweredRequest['op'], error: LdapError): void;
}

/** Longer requests are kept when there is room for them; of shorter ones each connection may send one at any time. */
const SMALL = 64 * 1024;
/** What a search that waits takes beside its bytes. */
const AT_WORK = 6 * 1024;

/**
 * The requests of a connection as they arrive. Their bytes are counted from when they are kept until the request is
 * answered, for the connection and for all connections together.
 */
export class Intake {
  readonly #owner: IntakeOwner;
  readonly #budget: Budget;
  readonly #decodeLimits: DecodeLimits;
  #framer: Framer;
  /** Bytes of requests that wait or are at work. */
  #held = 0;
  /** What of the budget was taken for small ones. */
  #small = 0;
  /** Bytes that were claimed, and on whose behalf. */
  #claimed = 0;
  #who = '';
  /** Claimed for a message that has not come wholly. */
  #coming = 0;
  #waits = false;
  /** Bytes of the request that `next` gave last, until somebody sees to their release. */
  taken = 0;

  constructor(owner: IntakeOwner, budget: Budget, decodeLimits: DecodeLimits) {
    this.#owner = owner;
    this.#budget = budget;
    this.#decodeLimits = decodeLimits;
    this.#framer = this.#newFramer();
  }

  #newFramer(): Framer {
    const { messageBytes, unboundMessageBytes } = this.#owner.services.config.limits;
    return new Framer({
      maxMessageBytes: messageBytes,
      freeBytes: Math.min(SMALL, unboundMessageBytes),
      admit: (head, total) => this.#admit(head, total),
    });
  }

  push(chunk: Buffer): void {
    this.#framer.push(chunk);
  }

  /** The next request; its bytes are held until `release`. Throws ProtocolError. */
  next(): Arrived | undefined {
    this.#waits = false;
    const frame = this.#framer.next();
    if (!frame) return undefined;
    const bytes = frame.end - frame.start;
    if (bytes > SMALL) this.#coming = 0;
    else this.#hold(bytes);
    try {
      const { buffer, start, end } = frame;
      const message = this.#owner.services.long
        ? decodeUnlessLong(frame, this.#decodeLimits)
        : decodeRequest(buffer, start, end, this.#decodeLimits);
      this.taken = bytes;
      return message;
    } catch (error) {
      this.release(bytes);
      throw error;
    }
  }

  /** Whether a message waits until there is room for it: nothing is to be read until then. */
  get waits(): boolean {
    return this.#waits;
  }

  /**
   * Whether another request may be taken beside those that are held. A connection may have as much for small ones as is
   * free: however many have requests that wait, they come to share the whole evenly.
   */
  get mayTake(): boolean {
    if (this.#held === 0 || this.#coming > 0) return true;
    return this.#held < this.#owner.services.config.limits.messageBytes && this.#small <= this.#budget.free;
  }

  /** Whether a message has begun to arrive. */
  get begun(): boolean {
    return this.#framer.begun;
  }

  /** Called for the first bytes of each message that is not small. */
  #admit(head: Buffer, total: number): Admission {
    const { services, session } = this.#owner;
    const peeked = peekRequest(head, 0, total);
    const unbound = session.identity.kind === 'anonymous';
    const most = unbound ? services.config.limits.unboundMessageBytes : services.config.limits.messageBytes;
    if (!peeked || peeked.op === 'unbind' || peeked.op === 'abandon') {
      if (total > Math.min(most, SMALL)) throw new ProtocolError(`LDAP message of ${total} bytes without sense`, 1);
      return 'keep';
    }
    const { id, op } = peeked;
    const refusal = this.#owner.refusalOf(op) ?? (total > most ? tooLong(total, most) : undefined);
    if (refusal) {
      this.#owner.refuseEarly(id, op, refusal);
      return 'drop';
    }
    return total <= SMALL || this.#claim(total) ? 'keep' : 'wait';
  }

  #claim(bytes: number): boolean {
    const { services, session } = this.#owner;
    if (this.#claimed === 0) this.#who = session.key;
    const room = this.#held === 0 || this.#held + bytes <= services.config.limits.messageBytes;
    this.#waits = !room || !this.#budget.claim(this.#owner, this.#who, bytes);
    if (this.#waits) return false;
    this.#held += bytes;
    this.#claimed += bytes;
    this.#coming = bytes;
    return true;
  }

  /** The message that waits cannot be taken now, even if there is room. */
  pass(): void {
    if (this.#waits) this.#budget.pass(this.#owner);
  }

  #hold(bytes: number): void {
    this.#held += bytes;
    this.#small += bytes + AT_WORK;
    this.#budget.take(bytes + AT_WORK);
  }

  /** A request of so many bytes was answered, or is not wanted any more. */
  release(bytes: number): void {
    if (bytes === 0) return;
    this.#held -= bytes;
    if (bytes <= SMALL) {
      this.#small -= bytes + AT_WORK;
      this.#budget.give(bytes + AT_WORK);
    } else {
      this.#claimed -= bytes;
      this.#budget.giveBack(this.#who, bytes);
    }
  }

  /** From here on the bytes are those of another layer. Nothing may be pending. */
  beginAnew(): void {
    this.#framer = this.#newFramer();
  }

  /** Nothing more is wanted. What is at work is released when it ends. */
  close(): void {
    this.#budget.forget(this.#owner);
    for (const bytes of [this.#coming, this.taken]) if (bytes > 0) this.release(bytes);
    this.#coming = this.taken = 0;
  }
}

function tooLong(bytes: number, most: number): LdapError {
  return new LdapError(
    'adminLimitExceeded',
    `the request has ${bytes} bytes; ${most} are accepted before a bind (limits.unboundMessageBytes)`,
  );
}
