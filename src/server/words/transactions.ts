import { LdapError } from '../../ldap/ldap-error.js';

/** Most transactions that are open on one connection. */
const MAX_OPEN = 16;

type LimitName = 'transactionOperations' | 'transactionBytes' | 'transactionIdleSeconds' | 'requestBytes';
export type TransactionLimits = Readonly<Record<LimitName, number>>;

interface OpenTransaction {
  /** The requests that wait for the end, each encoded as an LDAPMessage. */
  readonly members: Buffer[];
  byteCount: number;
  readonly idleTimer: NodeJS.Timeout;
}

/** Bytes of the requests that wait in the transactions of all connections. */
let waitingBytes = 0;

/** The transactions that a client has begun on its connection and not ended (RFC 5805). */
export class OpenTransactions {
  /** Called when the server aborts a transaction. */
  onAborted: ((identifier: string, reason: string) => void) | undefined;
  readonly #open = new Map<string, OpenTransaction>();
  #lastNumber = 0;

  /** Begins a transaction and returns its identifier. */
  begin({ transactionIdleSeconds: seconds }: TransactionLimits): string {
    if (this.#open.size >= MAX_OPEN)
      throw new LdapError('adminLimitExceeded', `${MAX_OPEN} transactions are open on this connection; end one first`);
    const identifier = `${++this.#lastNumber}`;
    const reason = `no operation has followed for ${seconds} s (limits.transactionIdleSeconds)`;
    const idleTimer = setTimeout(() => this.abort(identifier, reason), seconds * 1000).unref();
    this.#open.set(identifier, { members: [], byteCount: 0, idleTimer });
    return identifier;
  }

  add(identifier: string, member: Buffer, limits: TransactionLimits): void {
    const transaction = this.#require(identifier);
    const { transactionOperations: maxCount, transactionBytes: maxBytes, requestBytes } = limits;
    if (transaction.members.length >= maxCount)
      throw new LdapError('adminLimitExceeded', `it has ${maxCount} operations (limits.transactionOperations)`);
    if (transaction.byteCount + member.length > maxBytes)
      throw new LdapError('adminLimitExceeded', `it has more than ${maxBytes} bytes (limits.transactionBytes)`);
    if (waitingBytes + member.length > requestBytes / 4)
      throw new LdapError('busy', 'the transactions of all clients take too much memory (limits.requestBytes)');
    transaction.members.push(member);
    transaction.byteCount += member.length;
    waitingBytes += member.length;
    transaction.idleTimer.refresh();
  }

  #require(identifier: string): OpenTransaction {
    const transaction = this.#open.get(identifier);
    if (transaction) return transaction;
    throw new LdapError('unwillingToPerform', 'this connection has no such transaction: it has ended or was aborted');
  }

  /** Ends a transaction and returns its requests in order. */
  take(identifier: string): readonly Buffer[] {
    const { members, byteCount, idleTimer } = this.#require(identifier);
    clearTimeout(idleTimer);
    this.#open.delete(identifier);
    waitingBytes -= byteCount;
    return members;
  }

  /** Aborts a transaction, if it is open, and tells the client. */
  abort(identifier: string, reason: string): void {
    if (!this.#open.has(identifier)) return;
    this.take(identifier);
    this.onAborted?.(identifier, reason);
  }

  /** Aborts all transactions without telling the client, whose identity or connection ends. */
  abortAll(): void {
    for (const identifier of this.#open.keys()) this.take(identifier);
  }
}
