import type { AbandonRequest } from '../../protocol/ldap-messages.js';

/** What can be abandoned: the operations of one connection that have begun and not ended. */
export interface Abandonable {
  /** No response follows; nothing happens where no such operation is outstanding or it cannot be abandoned. */
  abandon(messageId: number): void;
}

/** RFC 4511 §4.11: has no response, not even an error. Writes and binds take their course. */
export function abandon(operations: Abandonable, request: AbandonRequest): void {
  operations.abandon(request.target);
}
