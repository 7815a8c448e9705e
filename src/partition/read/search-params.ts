import type { Client } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { DerefAliases, Filter, Scope } from '../../ldap/ldap-types.js';
import type { Dn } from '../../schema/schema-types.js';
import type { StoredDescription } from '../model/descriptions.js';
import { UNRESTRICTED, type Viewer } from '../model/viewer.js';
import type { Order } from './order/order.js';

/** What a search returns of an entry. */
export interface Selects {
  takes(stored: StoredDescription): boolean;
}

export interface SearchParams {
  readonly base: Dn;
  readonly scope: Scope;
  readonly deref: DerefAliases;
  readonly filter: Filter;
  readonly viewer: Viewer;
  /** What the sink looks at of an entry: the row that it gets may lack other attributes. Absent: all. */
  readonly selects?: Selects | undefined;
  readonly manageDsaIT: boolean;
  /** Absent: the sink gets entries as they are found. */
  readonly order?: Order | undefined;
  /** Throws `LongWork` where the filter looks into the values of a long entry, unless something was found before. */
  readonly leaveLong?: boolean;
  /**
   * Asked where an index names many candidates, with the number of such searches that are under way in this thread:
   * where it has time `LongWork` is thrown, before anything was found.
   */
  readonly leaveMany?: { hasTime(here: number): boolean } | undefined;
  /** Entries at most, 0: no limit. */
  readonly sizeLimit: number;
  /** `performance.now()` after which it ends with timeLimitExceeded; Infinity: none. */
  readonly deadline: number;
  /** Rows looked at, at most; Infinity: none. */
  readonly lookLimit: number;
  /** Ends the search with `canceled` at the next batch. */
  readonly signal?: { readonly aborted: boolean } | undefined;
  /** The client on whose behalf the search runs; long searches share time slices by client. Default: one of its own. */
  readonly client?: Client | undefined;
  /**
   * It is the one of a memberURL: its base need not be seen, and what an entry itself does not tell, such as the
   * groups that it is in, is Undefined.
   */
  readonly ofUrl?: boolean;
  /** memberOf has no groups by way of others; an in-chain match follows them in any case. */
  readonly ownGroups?: boolean;
  /** Where an earlier page ended; from `SearchOutcome.resume`. */
  readonly resume?: Buffer | undefined;
  /** Ends the page after so many entries. */
  readonly pageSize?: number | undefined;
}

/** What ends work whatever it has found. */
export type Until = Pick<SearchParams, 'deadline' | 'signal'>;

/** Throws what ends it. */
export function requireTime({ deadline, signal }: Until): void {
  if (signal?.aborted) throw new LdapError('canceled', 'the search was ended');
  if (performance.now() > deadline) throw new LdapError('timeLimitExceeded', 'the search took longer than it may');
}

/** A search without limits that follows no alias and hides nothing but secrets; it lacks where and what for. */
export const EVERYTHING = {
  deref: 'never',
  viewer: UNRESTRICTED,
  manageDsaIT: true,
  sizeLimit: 0,
  deadline: Number.POSITIVE_INFINITY,
  lookLimit: Number.POSITIVE_INFINITY,
} as const satisfies Partial<SearchParams>;

/** How candidates were found: `base`: the one entry; `index`; `scope`: by a scan of its rows; `table`: of all rows. */
export type SearchPlan = 'base' | 'index' | 'scope' | 'table';

export interface SearchOutcome {
  /** Entries handed to the sink. */
  readonly entries: number;
  /** Rows looked at. */
  readonly looked: number;
  /** Set when the page is full and there may be more. */
  readonly resume: Buffer | undefined;
  readonly plan: SearchPlan;
  /** Such as "rowan index add employeeNumber": what would have helped a search that looked at many rows in vain. */
  advice(): string | undefined;
}

export interface Explanation {
  /** `base`, `index`, `scope` or `table`. */
  readonly plan: string;
  /** One line a considered term: its text, its (capped) count, and whether it was taken. */
  readonly terms: readonly {
    readonly term: string;
    readonly count: number | undefined;
    readonly taken: boolean;
    readonly why: string;
  }[];
  /** Store filter as text where rows are scanned. */
  readonly storeFilter: string | undefined;
  readonly candidates: number;
  readonly looked: number;
  readonly entries: number;
  /** Such as "rowan index add employeeNumber"; undefined when an index was used. */
  readonly advice: string | undefined;
}
