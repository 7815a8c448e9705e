import type { ReplicationAnswer } from '../../replica/report.js';
import type { LiveValues } from '../settings/index.js';
import type { Counts } from './statistics.js';
import type { OperationFilter, TopSample, WatchedLines } from './watch.js';

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
