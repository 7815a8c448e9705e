import { LdapError } from '../../ldap/ldap-error.js';

/** Most transactions that are open on one connection. */
const MAX_OPEN = 16;

type LimitName = 'transactionOperations' | 'transactionBytes' | 'transactionIdleSeconds' | 'requestBytes';
export type TransactionLimits = Readonly<Record<LimitName, number>>;

interface OpenTransaction {
  /** The requests that wait for the end, each encoded as an LDAPMessage. */
  readonly members: Buffer[];
  byteCount: number;
  owner: string;
  readonly idleTimer: NodeJS.Timeout;
}

/** Bytes of the requests that wait in the transactions of all connections, and those of each user, by `Session.key`. */
let waitingBytes = 0;
const waitingBytesByOwner = new Map<string, number>();

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
    this.#open.set(identifier, { members: [], byteCount: 0, owner: '', idleTimer });
    return identifier;
  }

  /** `owner`: the user, who has no more than a quarter of the room. */
  add(identifier: string, member: Buffer, limits: TransactionLimits, owner: string): void {
    const transaction = this.#require(identifier);
    const { transactionOperations: maxCount, transactionBytes: maxBytes, requestBytes } = limits;
    let [count, byteCount] = [1, member.length];
    for (const open of this.#open.values()) {
      count += open.members.length;
      byteCount += open.byteCount;
    }
    if (count > maxCount)
      throw new LdapError('adminLimitExceeded', `${maxCount} operations wait (limits.transactionOperations)`);
    if (byteCount > maxBytes)
      throw new LdapError('adminLimitExceeded', `more than ${maxBytes} bytes wait (limits.transactionBytes)`);
    const ownBytes = (waitingBytesByOwner.get(owner) ?? 0) + member.length;
    if (waitingBytes + member.length > requestBytes / 4 || ownBytes > requestBytes / 16)
      throw new LdapError('busy', 'the transactions of all clients take too much memory (limits.requestBytes)');
    waitingBytesByOwner.set(owner, ownBytes);
    transaction.owner = owner;
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
    const { members, byteCount, owner, idleTimer } = this.#require(identifier);
    clearTimeout(idleTimer);
    this.#open.delete(identifier);
    waitingBytes -= byteCount;
    const left = (waitingBytesByOwner.get(owner) ?? 0) - byteCount;
    if (left > 0) waitingBytesByOwner.set(owner, left);
    else waitingBytesByOwner.delete(owner);
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
