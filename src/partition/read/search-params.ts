import type { Client } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { DerefAliases, Filter, Scope } from '../../ldap/ldap-types.js';
import type { Dn } from '../../schema/schema-types.js';
import type { StoredDescription } from '../model/descriptions.js';
import type { MissingIndex } from '../model/index-set.js';
import { UNRESTRICTED, type Viewer } from '../model/viewer.js';
import type { Order } from './order/order.js';

export interface AttributeSelection {
  /** Whether attributes with this stored description are returned. */
  includes(stored: StoredDescription): boolean;
}

export interface SearchParams {
  readonly base: Dn;
  readonly scope: Scope;
  readonly deref: DerefAliases;
  readonly filter: Filter;
  readonly viewer: Viewer;
  /** The attributes that the sink reads. Rows may lack other attributes. Absent: all attributes. */
  readonly selects?: AttributeSelection | undefined;
  readonly manageDsaIT: boolean;
  /** Absent: entries reach the sink in the order in which the search finds them. */
  readonly order?: Order | undefined;
  /** Whether the search throws `LongWork` before it reads the values of a long entry, if nothing was found so far. */
  readonly refuseLong?: boolean;
  /**
   * The other threads. If they have time, a search with many candidates throws `LongWork` before anything was found.
   * `searchesHere`: number of such searches in this thread.
   */
  readonly otherThreads?: { hasTime(searchesHere: number): boolean } | undefined;
  /** Maximum number of entries; 0: no limit. */
  readonly sizeLimit: number;
  /** The `performance.now()` after which the search ends with `timeLimitExceeded`; Infinity: no limit. */
  readonly deadline: number;
  /** Maximum number of rows examined; Infinity: no limit. */
  readonly lookLimit: number;
  /** Ends the search with `canceled` before the next batch. */
  readonly signal?: { readonly aborted: boolean } | undefined;
  /** The client for which the search runs. Clients share the time. Absent: the search counts as a client. */
  readonly client?: Client | undefined;
  /**
   * Whether this is the search of a memberURL: the viewer need not see the base, and filter terms that need other
   * entries, such as memberOf, are Undefined.
   */
  readonly ofUrl?: boolean;
  /** Whether memberOf excludes groups of groups. An in-chain match always follows these. */
  readonly directGroupsOnly?: boolean;
  /** The end of the previous page (`SearchOutcome.resume`). */
  readonly resume?: Buffer | undefined;
  readonly pageSize?: number | undefined;
  /** Called with the outcome so far when a limit or the client ends the search. */
  readonly onCut?: ((outcome: SearchOutcome) => void) | undefined;
}

/** The parameters that end an operation before it is done: its deadline, and the signal that it is canceled. */
export type AbortConditions = Pick<SearchParams, 'deadline' | 'signal'>;

/** Throws `canceled` or `timeLimitExceeded` if the operation is aborted or its deadline has passed. */
export function requireTime({ deadline, signal }: AbortConditions): void {
  if (signal?.aborted) throw new LdapError('canceled', 'the search was ended');
  if (performance.now() > deadline) throw new LdapError('timeLimitExceeded', 'the search took longer than it may');
}

export function lookLimitError(): LdapError {
  return new LdapError(
    'adminLimitExceeded',
    'the search looked at more entries than it may, without an index that helps; ask for less, or have an index added',
  );
}

/** Parameters of a search without limits, aliases and hidden entries. Base, scope and filter are to be added. */
export const UNLIMITED_SEARCH = {
  deref: 'never',
  viewer: UNRESTRICTED,
  manageDsaIT: true,
  sizeLimit: 0,
  deadline: Number.POSITIVE_INFINITY,
  lookLimit: Number.POSITIVE_INFINITY,
} as const satisfies Partial<SearchParams>;

/** How candidates were found: the base entry alone, an index, a scan of the scope, or a scan of the whole table. */
export type SearchPlan = 'base' | 'index' | 'scope' | 'table';

export interface SearchOutcome {
  readonly entries: number;
  readonly rowsExamined: number;
  /** Resume cookie of the next page; undefined where there are no more entries. */
  readonly resume: Buffer | undefined;
  readonly plan: SearchPlan;
  /** Attributes of the index plan, separated by spaces and commas; '' where no index was used. */
  readonly indexNames: string;
  missingIndexes(): MissingIndex[];
  /** Returns the commands that add missing indexes, such as "rowan index add employeeNumber". */
  advice(): string | undefined;
}

export interface Explanation {
  readonly plan: SearchPlan;
  /** The terms that the planner considered, with capped counts. */
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
  /** Commands such as "rowan index add employeeNumber"; undefined where an index was used. */
  readonly advice: string | undefined;
}
