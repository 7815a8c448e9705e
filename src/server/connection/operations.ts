import { LdapError, ResultCode } from '../../ldap/ldap-error.js';
import type { Maybe } from '../../partition/index.js';
import type { Outstanding } from '../request/context.js';
import type { Operation } from '../request/operation.js';

/** The operations of a connection that could not be answered at once and have not ended. */
export class OutstandingOperations implements Outstanding {
  readonly #operationsById = new Map<number, Operation>();
  /** Whether a bind is outstanding, so that no other request may begin. */
  isBinding = false;
  /** Number of operations that hold a place: all but searches that wait for changes, perhaps for ever. */
  placeCount = 0;

  get size(): number {
    return this.#operationsById.size;
  }

  isOutstanding(messageId: number): boolean {
    return this.#operationsById.has(messageId);
  }

  hasOthers(id: number): boolean {
    return this.size > (this.isOutstanding(id) ? 1 : 0);
  }

  add(operation: Operation): void {
    this.#operationsById.set(operation.id, operation);
    this.placeCount++;
    if (operation.op === 'bind') this.isBinding = true;
  }

  endOperation(operation: Operation, code: number): void {
    this.#operationsById.delete(operation.id);
    if (operation.onFollowing) this.placeCount--;
    if (operation.op === 'bind') this.isBinding = false;
    operation.onOperationEnd?.(code);
  }

  /**
   * Abandons an operation without a response (RFC 4511 §4.11): a search, or an operation other than a bind that waits
   * for slow work. Other operations and unknown message IDs are ignored.
   */
  abandon(messageId: number): void {
    const operation = this.#operationsById.get(messageId);
    if (!operation || operation.op === 'bind') return;
    if (operation.op !== 'search' && !operation.isWaiting) return;
    operation.isSilent = true;
    operation.abort();
  }

  cancel(messageId: number, cancelId: number): Maybe<void> {
    if (messageId === cancelId) throw new LdapError('cannotCancel', 'cancel: an operation cannot cancel itself');
    const operation = this.#operationsById.get(messageId);
    if (!operation || operation.isSilent)
      throw new LdapError('noSuchOperation', `cancel: no operation ${messageId} is outstanding`);
    if (operation.op !== 'search') throw new LdapError('cannotCancel', `cancel: ${operation.op} cannot be canceled`);
    if (operation.aborted) throw new LdapError('tooLate', `cancel: operation ${messageId} is being canceled already`);
    operation.abort();
    return new Promise((resolve, reject) => {
      operation.onOperationEnd = (code) => {
        if (code === ResultCode.canceled) resolve();
        else reject(new LdapError('tooLate', `cancel: operation ${messageId} had ended`));
      };
    });
  }

  /** Ends the searches that wait for changes. */
  abortFollowing(): void {
    for (const operation of this.#operationsById.values()) if (operation.isFollowing) operation.abort();
  }

  /** Aborts all operations and sends no responses. Called after the connection was closed. */
  abortAll(): void {
    for (const operation of this.#operationsById.values()) {
      operation.isSilent = true;
      operation.abort();
    }
  }
}
