import type { SearchOutcome } from '../../partition/read/search-params.js';
import type { Request, Result } from '../../protocol/ldap-messages.js';
import type { RequestDescription } from './request-description.js';

/** The work of a search, also of a search that a limit has ended. */
export type SearchReport = Pick<SearchOutcome, 'plan' | 'rowsExamined' | 'advice'>;

/** Rows that a search examines in vain from which the search may be unindexed. */
const MIN_UNINDEXED_ROWS = 100;

/** Whether an index that the directory lacks would have spared the search many rows. */
export function isUnindexed({ plan, rowsExamined, advice }: SearchReport, entryCount: number): boolean {
  if (plan === 'base' || plan === 'index' || rowsExamined - entryCount < MIN_UNINDEXED_ROWS) return false;
  return advice() !== undefined;
}

/** An operation that has ended, for logs and figures. Valid only during the call of the observer. */
export interface FinishedOperation {
  /** Milliseconds since 1970. */
  readonly endedAt: number;
  /** Number of the connection, unique in its process. */
  readonly connectionNumber: number;
  /** Number of the request on its connection, from 1. */
  readonly operationNumber: number;
  readonly op: Request['op'];
  /** IP address of the client; undefined on a local socket. */
  readonly address: string | undefined;
  readonly isEncrypted: boolean;
  /** DN of the identity at the end of the operation; '' when anonymous. */
  readonly boundAs: string;
  /** DN of the identity that a proxied authorization control has named; '': an anonymous client. */
  readonly proxiedDn: string | undefined;
  readonly result: Pick<Result, 'code' | 'message' | 'matchedDN'> & { readonly isChanged?: boolean };
  /** Whether the client got no response, because it abandoned the operation or closed the connection. */
  readonly isAbandoned: boolean;
  /** Number of entries sent. */
  readonly entryCount: number;
  /** Length of the sent responses. */
  readonly sentBytes: number;
  /** Time from the arrival of the request to its start, in milliseconds. */
  readonly waitMs: number;
  /** Time from the start to the response, in milliseconds. */
  readonly workMs: number;
  readonly search: SearchReport | undefined;
  /** The reason of a failed bind, which the client is not told. */
  readonly bindFailure: string | undefined;
  /** Undefined: the request could not be decoded. */
  description(): RequestDescription | undefined;
  /** The change as an LDIF record without secret values; undefined when the request changes nothing. */
  changeText(): string | undefined;
}

/** A connection that was opened or closed. */
export interface ConnectionEvent {
  readonly kind: 'opened' | 'closed';
  readonly connectionNumber: number;
  readonly address: string | undefined;
  readonly isEncrypted: boolean;
  /** Port of the server; undefined on a local socket, and when the connection is closed. */
  readonly localPort: number | undefined;
}

export interface Observer {
  onOperation(operation: FinishedOperation): void;
  onConnection?(event: ConnectionEvent): void;
}

/** The observers of the operations of a process, such as logs. Without observers nothing is made for them. */
export class Observation {
  readonly #observers = new Set<Observer>();

  get isActive(): boolean {
    return this.#observers.size > 0;
  }

  /** Adds an observer. Returns a function that removes the observer. */
  add(observer: Observer): () => void {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }

  reportOperation(operation: FinishedOperation): void {
    for (const observer of this.#observers) observer.onOperation(operation);
  }

  reportConnection(event: ConnectionEvent): void {
    for (const observer of this.#observers) observer.onConnection?.(event);
  }
}
