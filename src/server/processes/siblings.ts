import type { Request } from '../../protocol/ldap-messages.js';
import type { ReplicationAnswer } from '../../replica/report.js';
import type { LiveValues } from '../settings/index.js';
import type { Counts } from './statistics.js';

/** A question to the other processes that serve the same directory and port. Plain data, sent between processes. */
export type Question =
  /** Asks for the counters of each process. */
  | { readonly about: 'counts' }
  /** Asks whether the process takes requests. */
  | { readonly about: 'serving' }
  /** Asks for the operations since the last question of this watcher. The first question begins the watch. */
  | { readonly about: 'operations'; readonly watcher: string; readonly filter: OperationFilter }
  /** Asks for figures since the last question of this watcher. */
  | { readonly about: 'top'; readonly watcher: string }
  /** Asks for the replicas that follow the process, and whom the server follows. */
  | { readonly about: 'replicas' }
  /** Asks for the value that replaced a stored password when its owner bound. */
  | { readonly about: 'upgraded'; readonly id: Uint8Array; readonly stored: Uint8Array }
  /** Tells a process new values of live settings. The answer comes when they are in force, and is empty. */
  | { readonly about: 'settings'; readonly values: LiveValues };

export interface Answer extends ReplicationAnswer {
  readonly counts?: Counts;
  readonly isServing?: boolean;
  readonly operations?: WatchedLines;
  readonly top?: TopSample;
  readonly upgradedHash?: Uint8Array | undefined;
}

/** Gives a process access to the other processes of the server, which share its connections. */
export interface Siblings {
  /** Number of this process, from 1. */
  readonly workerNumber: number;
  /** Whether this process is the only one at present. Others may start later. */
  readonly isAlone: boolean;
  /** Returns the answers of the processes that answer within a second. Never rejects. */
  ask(question: Question): Promise<Answer[]>;
}

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
