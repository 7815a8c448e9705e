import type { Client } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { DerefAliases, Filter, Scope } from '../../ldap/ldap-types.js';
import type { Dn } from '../../schema/schema-types.js';
import type { StoredDescription } from '../model/descriptions.js';
import { UNRESTRICTED, type Viewer } from '../model/viewer.js';
import type { Order } from './order/order.js';

/** The attributes that a search returns. */
export interface Selects {
  /** Whether attributes with this stored description are returned. */
  takes(stored: StoredDescription): boolean;
}

export interface SearchParams {
  readonly base: Dn;
  readonly scope: Scope;
  readonly deref: DerefAliases;
  readonly filter: Filter;
  readonly viewer: Viewer;
  /** The attributes that the sink reads. Rows may lack other attributes. Absent: all attributes. */
  readonly selects?: Selects | undefined;
  readonly manageDsaIT: boolean;
  /** Absent: entries reach the sink in the order in which the search finds them. */
  readonly order?: Order | undefined;
  /** Makes the search throw `LongWork` where the filter tests values of a long entry before anything was found. */
  readonly refuseLong?: boolean;
  /**
   * Tells whether another thread has time for a search with many candidates, given the number of such searches in this
   * thread. The search then throws `LongWork` before anything was found.
   */
  readonly leaveMany?: { hasTime(searchesHere: number): boolean } | undefined;
  /** Maximum number of entries; 0: no limit. */
  readonly sizeLimit: number;
  /** The `performance.now()` after which the search ends with `timeLimitExceeded`; Infinity: no limit. */
  readonly deadline: number;
  /** Maximum number of rows examined; Infinity: no limit. */
  readonly lookLimit: number;
  /** Ends the search with `canceled` before the next batch. */
  readonly signal?: { readonly aborted: boolean } | undefined;
  /** The client on whose behalf the search runs; long searches share time slices by client. Default: one of its own. */
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
  /** Number of entries on a page. */
  readonly pageSize?: number | undefined;
}

/** The parameters that abort an operation, whatever it has returned so far. */
export type Until = Pick<SearchParams, 'deadline' | 'signal'>;

/** Throws `canceled` or `timeLimitExceeded` if the operation is aborted or its deadline has passed. */
export function requireTime({ deadline, signal }: Until): void {
  if (signal?.aborted) throw new LdapError('canceled', 'the search was ended');
  if (performance.now() > deadline) throw new LdapError('timeLimitExceeded', 'the search took longer than it may');
}

/** The error of a search that exceeds `lookLimit`. */
export function lookLimitExceeded(): LdapError {
  return new LdapError(
    'adminLimitExceeded',
    'the search looked at more entries than it may, without an index that helps; ask for less, or have an index added',
  );
}

/** Parameters of a search without limits, aliases and hidden entries. Base, scope and filter are to be added. */
export const EVERYTHING = {
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
  /** Number of entries passed to the sink. */
  readonly entries: number;
  /** Number of rows examined. */
  readonly rowsExamined: number;
  /** Resume cookie of the next page; undefined where there are no more entries. */
  readonly resume: Buffer | undefined;
  readonly plan: SearchPlan;
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
