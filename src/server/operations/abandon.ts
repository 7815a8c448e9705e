import type { AbandonRequest } from '../../protocol/ldap-messages.js';

/** The operations of one connection that have begun and not ended. */
export interface Abandonable {
  /** Abandons an operation without a response. Does nothing when it is not outstanding or cannot be abandoned. */
  abandon(messageId: number): void;
}

/** Abandon (RFC 4511 §4.11). Abandon has no response, not even an error. Writes and binds cannot be abandoned. */
export function abandon(operations: Abandonable, request: AbandonRequest): void {
  operations.abandon(request.target);
}
