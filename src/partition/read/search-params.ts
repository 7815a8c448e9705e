import type { Client } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { DerefAliases, Filter, Scope } from '../../ldap/ldap-types.js';
import type { Dn } from '../../schema/schema-types.js';
import type { StoredDescription } from '../model/descriptions.js';
import type { MissingIndex } from '../model/index-set.js';
import { UNRESTRICTED, type Viewer } from '../model/viewer.js';
import type { IndexWalk, Order } from './order/order.js';

export interface AttributeSelection {
  /** Whether attributes with this description are returned. */
  includes(stored: StoredDescription): boolean;
}

export interface SearchParams {
  readonly base: Dn;
  readonly scope: Scope;
  readonly deref: DerefAliases;
  readonly filter: Filter;
  readonly viewer: Viewer;
  /** The attributes that the sink reads. Rows may lack all others. Default: all attributes. */
  readonly selects?: AttributeSelection | undefined;
  readonly manageDsaIT: boolean;
  /** Whether the search finds subentries alone, or none. Default: all entries. */
  readonly subentries?: 'only' | 'none' | undefined;
  /** The order in which entries reach the sink. Default: the order in which the search finds them. */
  readonly order?: Order | undefined;
  /**
   * Entries are passed on in the order of an index, as far as this costs less than to sort them: all, the first ones,
   * or none. The outcome does not tell whether all were.
   */
  readonly walk?: IndexWalk | undefined;
  /** With `walk`: receives the ids of all entries, in order, if indexes alone tell them. No entry is then passed on. */
  readonly takeIds?: ((ids: Buffer) => void) | undefined;
  /** Ids of the only entries that are examined, in this order. Referrals then are not looked for. */
  readonly candidates?: Buffer | undefined;
  /** Whether the search throws `LongWork` instead of reading a long entry, unless it has returned an entry. */
  readonly refuseLong?: boolean;
  /**
   * Tells whether another thread has time. Then a search with many candidates throws `LongWork`, unless it has returned
   * an entry. `searchesHere`: number of such searches in this thread.
   */
  readonly otherThreads?: { hasTime(searchesHere: number): boolean } | undefined;
  /** Maximum number of entries; 0: no limit. */
  readonly sizeLimit: number;
  /** Time by `performance.now()` at which the search ends with `timeLimitExceeded`; Infinity: no limit. */
  readonly deadline: number;
  /** Maximum number of rows examined; Infinity: no limit. */
  readonly lookLimit: number;
  /** When aborted, the search ends with `canceled` before its next batch. */
  readonly signal?: { readonly aborted: boolean } | undefined;
  /** The client on whose behalf the search runs. Clients share the time. Default: a client of its own. */
  readonly client?: Client | undefined;
  /**
   * Whether the search evaluates a memberURL. The viewer then need not see the base, and filter terms that need other
   * entries, such as memberOf, are Undefined.
   */
  readonly ofUrl?: boolean;
  /** Whether memberOf excludes nested groups. An in-chain match always includes them. */
  readonly directGroupsOnly?: boolean;
  /**
   * Reads the lock times of accounts that failed binds have locked. Called if the filter has pwdAccountLockedTime.
   * `candidates`: the only entries that may match, if these are few.
   */
  readonly readLockTimes?:
    | ((params: SearchParams, candidates: readonly Buffer[] | undefined) => Promise<LockTimes>)
    | undefined;
  /** The cookie from which to resume: `SearchOutcome.resume` of the previous page. */
  readonly resume?: Buffer | undefined;
  readonly pageSize?: number | undefined;
  /** Called with the outcome so far when a limit or the client ends the search. */
  readonly onCut?: ((outcome: SearchOutcome) => void) | undefined;
}

/** Values of pwdAccountLockedTime, which take precedence over those in entries, by entryUUID in Latin-1. */
export type LockTimes = ReadonlyMap<string, Buffer>;

/** The conditions under which an operation ends early: its deadline, and the signal that it was canceled. */
export type AbortConditions = Pick<SearchParams, 'deadline' | 'signal'>;

/** Throws `canceled` or `timeLimitExceeded` if the operation is aborted or its deadline has passed. */
export function requireTime({ deadline, signal }: AbortConditions): void {
  if (signal?.aborted) throw new LdapError('canceled', 'the search was ended');
  if (performance.now() > deadline) throw new LdapError('timeLimitExceeded', 'the search took longer than it may');
}

export function sizeLimitError(): LdapError {
  return new LdapError('sizeLimitExceeded', 'there are more entries than were asked for or are allowed');
}

export function lookLimitError(): LdapError {
  return new LdapError(
    'adminLimitExceeded',
    'the search looked at more entries than it may, without an index that helps; ask for less, or have an index added',
  );
}

/** Parameters of a search without limits, aliases and hidden entries. The caller adds base, scope and filter. */
export const UNLIMITED_SEARCH = {
  deref: 'never',
  viewer: UNRESTRICTED,
  manageDsaIT: true,
  sizeLimit: 0,
  deadline: Number.POSITIVE_INFINITY,
  lookLimit: Number.POSITIVE_INFINITY,
} as const satisfies Partial<SearchParams>;

/** The source of the candidates: the base entry alone, an index, a scan of the scope, or a scan of the whole table. */
export type SearchPlan = 'base' | 'index' | 'scope' | 'table';

export interface SearchOutcome {
  readonly entries: number;
  readonly rowsExamined: number;
  /** Resume cookie for the next page; undefined if there are no more entries. */
  readonly resume: Buffer | undefined;
  readonly plan: SearchPlan;
  /** Attributes of the index plan, separated by spaces and commas; '' where no index was used. */
  readonly indexNames: string;
  missingIndexes(): MissingIndex[];
  /** Returns commands that would add missing indexes, such as "rowan index add employeeNumber". */
  advice(): string | undefined;
}

export interface Explanation {
  readonly plan: SearchPlan;
  /** The filter terms that the planner considered, with counts up to a limit. */
  readonly terms: readonly {
    readonly term: string;
    readonly count: number | undefined;
    readonly taken: boolean;
    readonly why: string;
  }[];
  /** The store filter as text, if rows are scanned. */
  readonly storeFilter: string | undefined;
  readonly candidates: number;
  readonly rowsExamined: number;
  readonly entries: number;
  /** Commands such as "rowan index add employeeNumber"; undefined if an index was used. */
  readonly advice: string | undefined;
}
