import type { Request } from '../../protocol/ldap-messages.js';
import type { Counts } from './statistics.js';

/** Plain data, sent between processes: what is asked and told of the operations of a running server. */

/** The operations that a watcher wants. */
export interface OperationFilter {
  /** A kind of operation. */
  readonly op?: string | undefined;
  /** Part of the client's DN, in any case. */
  readonly who?: string | undefined;
  /** Start of the client's IP address. */
  readonly client?: string | undefined;
  /** The operation names an entry at or below this DN. */
  readonly base?: string | undefined;
  readonly slowerThanMs?: number;
  readonly isFailed?: boolean;
}

/** Operations since the last question, as lines of JSON with the keys of the access log. */
export interface WatchedLines {
  readonly lines: readonly string[];
  /** Number of lines that found no room. */
  readonly droppedCount: number;
}

/** The slowest search with a shape of filter. */
export interface SlowSearch {
  /** The filter with `?` in place of its values. */
  readonly shape: string;
  readonly base: string;
  readonly scope: string;
  readonly plan: string;
  readonly rowsExamined: number;
  readonly entryCount: number;
  readonly workMs: number;
  readonly advice: string | undefined;
}

export interface BusyClient {
  /** Undefined: a local socket. */
  readonly address: string | undefined;
  /** DN; '' when anonymous. */
  readonly boundAs: string;
  readonly operationCount: number;
  readonly workMs: number;
}

/** Figures of one process for `rowan top`. */
export interface TopSample {
  readonly counts: Counts;
  /** Highest time from start to response since the last question, in milliseconds. */
  readonly highestMs: Readonly<Partial<Record<Request['op'], number>>>;
  /** Since the first question, the slowest first. */
  readonly slowSearches: readonly SlowSearch[];
  /** Since the last question, the busiest first. */
  readonly clients: readonly BusyClient[];
}
