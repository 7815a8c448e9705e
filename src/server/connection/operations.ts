import { LdapError, ResultCode } from '../../ldap/ldap-error.js';
import type { Abandonable } from '../operations/abandon.js';
import type { Maybe } from '../words/maybe.js';
import type { Operation } from './operation.js';

/** The operations of a connection that have begun and not ended: those that had to wait for something. */
export class OutstandingOperations implements Abandonable {
  readonly #byId = new Map<number, Operation>();
  /** A bind is among them. */
  binding = false;

  get size(): number {
    return this.#byId.size;
  }

  has(messageId: number): boolean {
    return this.#byId.has(messageId);
  }

  add(operation: Operation): void {
    this.#byId.set(operation.id, operation);
    if (operation.op === 'bind') this.binding = true;
  }

  end(operation: Operation, code: number): void {
    this.#byId.delete(operation.id);
    if (operation.op === 'bind') this.binding = false;
    operation.onEnd?.(code);
  }

  /** RFC 4511 §4.11. Only searches can be stopped half way, and what waits for its turn at slow work, but binds. */
  abandon(messageId: number): void {
    const operation = this.#byId.get(messageId);
    if (!operation || operation.op === 'bind') return;
    if (operation.op !== 'search' && !operation.mayLeave) return;
    operation.silent = true;
    operation.abort();
  }

  /** RFC 3909 §2.3. */
  cancel(messageId: number, own: number): Maybe<void> {
    if (messageId === own) throw new LdapError('cannotCancel', 'cancel: an operation cannot cancel itself');
    const operation = this.#byId.get(messageId);
    if (!operation || operation.silent)
      throw new LdapError('noSuchOperation', `cancel: no operation ${messageId} is outstanding`);
    if (operation.op !== 'search') throw new LdapError('cannotCancel', `cancel: ${operation.op} cannot be canceled`);
    if (operation.aborted) throw new LdapError('tooLate', `cancel: operation ${messageId} is being canceled already`);
    operation.abort();
    return new Promise((resolve, reject) => {
      operation.onEnd = (code) => {
        if (code === ResultCode.canceled) resolve();
        else reject(new LdapError('tooLate', `cancel: operation ${messageId} had ended`));
      };
    });
  }

  /** The connection is gone: everything that can be stopped is, and nothing is answered. */
  abortAll(): void {
    for (const operation of this.#byId.values()) {
      operation.silent = true;
      operation.abort();
    }
  }
}
