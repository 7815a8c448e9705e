import { LdapError } from '../../ldap/ldap-error.js';
import { peekRequest } from '../../protocol/decode.js';
import { countElements } from '../../protocol/element-count.js';
import { type Admission, Framer } from '../../protocol/framing.js';
import type { DecodeLimits } from '../../protocol/limits.js';
import { ProtocolError } from '../../protocol/reader.js';
import { decodeUnlessLong } from '../long/encoded-request.js';
import type { AnsweredRequest } from '../operations/perform.js';
import type { RequestMemory } from '../request/operation.js';
import type { Budget, Claimant } from './budget.js';
import { decodedBytes } from './long-admission.js';
import type { ReceivedRequest, Requests } from './requests.js';

export interface IntakeOwner extends Claimant {
  /** Answers a request whose bytes are dropped. */
  refuseUnread(id: number, op: AnsweredRequest['op'], error: LdapError): void;
}

/** Requests up to this size are accepted without a claim: each connection may always send one. */
const SMALL_REQUEST_BYTES = 64 * 1024;
/** Least memory that an outstanding search uses besides the bytes of its request. */
const OVERHEAD_BYTES = 6 * 1024;
/** Most elements that are counted. */
const MAX_ELEMENTS = 2 ** 19;

/**
 * Splits the received bytes of a connection into requests. The bytes of a request are counted from their arrival until
 * the request is answered, for the connection and for all connections together. So is the memory of a decoded request.
 */
export class Intake {
  readonly #owner: IntakeOwner;
  readonly #requests: Requests;
  readonly #budget: Budget;
  readonly #decodeLimits: DecodeLimits;
  #framer: Framer;
  /** Bytes of all requests that are not answered. */
  #outstandingBytes = 0;
  /** Part of the budget reserved for small requests and for decoded ones. */
  #reservedBytes = 0;
  /** Part of the budget claimed for large requests, and the identity that it is claimed for. */
  #claimedBytes = 0;
  #claimIdentity = '';
  /** Part of the claim that is for a message which has not arrived completely. */
  #incompleteClaimBytes = 0;
  #isBlocked = false;
  /** Memory of the request last returned by `nextRequest`; undefined once a caller has taken on its release. */
  unassigned: RequestMemory | undefined;

  constructor(owner: IntakeOwner, requests: Requests, budget: Budget, decodeLimits: DecodeLimits) {
    this.#owner = owner;
    this.#requests = requests;
    this.#budget = budget;
    this.#decodeLimits = decodeLimits;
    this.#framer = this.#newFramer();
  }

  #newFramer(): Framer {
    const { messageBytes, unboundMessageBytes } = this.#requests.services.config.limits;
    return new Framer({
      maxMessageBytes: messageBytes,
      alwaysAdmittedBytes: Math.min(SMALL_REQUEST_BYTES, unboundMessageBytes),
      admit: (head, total) => this.#admitMessage(head, total),
    });
  }

  push(chunk: Buffer): void {
    this.#framer.push(chunk);
  }

  /** Returns the next request. Its bytes count until `release`. Throws `ProtocolError`. */
  nextRequest(): ReceivedRequest | undefined {
    this.#isBlocked = false;
    const frame = this.#framer.next();
    if (!frame) return undefined;
    const bytes = frame.end - frame.start;
    if (bytes > SMALL_REQUEST_BYTES) this.#incompleteClaimBytes = 0;
    else this.#reserve(bytes, 0);
    try {
      const elementCount = countElements(frame.buffer, frame.start, frame.end, MAX_ELEMENTS);
      const hasThread = this.#requests.services.longWorker !== undefined;
      const message = decodeUnlessLong(frame, elementCount, hasThread, this.#decodeLimits);
      // A request that is still encoded claims the memory of its elements before it is decoded.
      const overheadBytes = Math.max(OVERHEAD_BYTES, 'bytes' in message ? 0 : decodedBytes(elementCount));
      this.#reserve(0, overheadBytes);
      this.unassigned = { bytes, overheadBytes };
      return message;
    } catch (error) {
      this.release({ bytes, overheadBytes: 0 });
      throw error;
    }
  }

  /** Whether a large message waits for its claim, so that nothing may be read from the socket. */
  get isBlocked(): boolean {
    return this.#isBlocked;
  }

  /**
   * Whether another request may begin. A connection may reserve as much for small requests as is free. So connections
   * with many outstanding requests come to share the budget evenly.
   */
  get mayAcceptRequest(): boolean {
    if (this.#outstandingBytes === 0 || this.#incompleteClaimBytes > 0) return true;
    return (
      this.#outstandingBytes < this.#requests.services.config.limits.messageBytes &&
      this.#reservedBytes <= this.#budget.freeBytes
    );
  }

  /** Whether a message has arrived in part. */
  get hasPartialMessage(): boolean {
    return this.#framer.hasPartialMessage;
  }

  /** Called with the first bytes of each message that is not small. */
  #admitMessage(head: Buffer, total: number): Admission {
    const { services, session } = this.#requests;
    const requestHead = peekRequest(head, 0, total);
    const isAnonymous = session.identity.kind === 'anonymous' && session.replica === undefined;
    const limitBytes = isAnonymous ? services.config.limits.unboundMessageBytes : services.config.limits.messageBytes;
    if (!requestHead || requestHead.op === 'unbind' || requestHead.op === 'abandon') {
      if (total > Math.min(limitBytes, SMALL_REQUEST_BYTES))
        throw new ProtocolError(`LDAP message of ${total} bytes without sense`, 1);
      return 'keep';
    }
    const { id, op } = requestHead;
    const refusal =
      this.#requests.kindRefusal(op) ?? (total > limitBytes ? tooLongError(total, limitBytes) : undefined);
    if (refusal) {
      this.#owner.refuseUnread(id, op, refusal);
      return 'drop';
    }
    return total <= SMALL_REQUEST_BYTES || this.#claim(total) ? 'keep' : 'wait';
  }

  #claim(bytes: number): boolean {
    const { services, session } = this.#requests;
    if (this.#claimedBytes === 0) this.#claimIdentity = session.key;
    const isWithinLimit =
      this.#outstandingBytes === 0 || this.#outstandingBytes + bytes <= services.config.limits.messageBytes;
    this.#isBlocked = !isWithinLimit || !this.#budget.claim(this.#owner, this.#claimIdentity, bytes);
    if (this.#isBlocked) return false;
    this.#outstandingBytes += bytes;
    this.#claimedBytes += bytes;
    this.#incompleteClaimBytes = bytes;
    return true;
  }

  /** Lets other connections claim when this one has been woken but cannot take its message now. */
  yieldClaim(): void {
    if (this.#isBlocked) this.#budget.yieldClaim(this.#owner);
  }

  /** Reserves memory for a request of `bytes` and `overheadBytes` besides. */
  #reserve(bytes: number, overheadBytes: number): void {
    this.#outstandingBytes += bytes;
    this.#reservedBytes += bytes + overheadBytes;
    this.#budget.reserve(bytes + overheadBytes);
  }

  /** Releases the memory of a request that was answered or dropped. */
  release({ bytes, overheadBytes }: RequestMemory): void {
    const isClaimed = bytes > SMALL_REQUEST_BYTES;
    const reservedBytes = isClaimed ? overheadBytes : bytes + overheadBytes;
    this.#outstandingBytes -= bytes;
    this.#reservedBytes -= reservedBytes;
    this.#budget.release(reservedBytes);
    if (!isClaimed) return;
    this.#claimedBytes -= bytes;
    this.#budget.releaseClaim(this.#claimIdentity, bytes);
  }

  /** Starts again with the bytes of the TLS layer. No message may be incomplete. */
  restart(): void {
    this.#framer = this.#newFramer();
  }

  /** Drops what has arrived. The bytes of outstanding requests are released when the requests end. */
  close(): void {
    this.#budget.cancelClaim(this.#owner);
    this.release({ bytes: this.#incompleteClaimBytes, overheadBytes: 0 });
    this.#incompleteClaimBytes = 0;
    if (this.unassigned) this.release(this.unassigned);
    this.unassigned = undefined;
  }
}

function tooLongError(bytes: number, limit: number): LdapError {
  return new LdapError(
    'adminLimitExceeded',
    `the request has ${bytes} bytes; ${limit} are accepted before a bind (limits.unboundMessageBytes)`,
  );
}
