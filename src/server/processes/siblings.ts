import type { Counts } from './statistics.js';

/**
 * What a server process may want to know of those that serve the same directory and port. Plain data: it goes from
 * process to process.
 */
export type Question =
  /** What each has counted. */
  | { readonly about: 'counts' }
  /** The value that one of them has put in place of a stored password when its owner bound. */
  | { readonly about: 'upgraded'; readonly id: Uint8Array; readonly stored: Uint8Array };

export interface Answer {
  readonly counts?: Counts;
  readonly upgraded?: Uint8Array | undefined;
}

/** The processes of one server that share its connections: what one of them has of the others. */
export interface Siblings {
  /** Of this process, from 1. */
  readonly worker: number;
  /** Whether there are no others now; there may be later. */
  readonly alone: boolean;
  /** The answers of all the others that answer within a second; never rejects. */
  ask(question: Question): Promise<Answer[]>;
}
