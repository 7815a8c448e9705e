import type { LdapError } from '../../ldap/ldap-error.js';
import type { Maybe, PlanStep, Store } from '../../store/contract.js';
import type { CsnClock } from '../model/csn.js';
import type { Asked } from '../model/directory.js';
import type { Draft } from '../model/draft.js';
import type { Context } from '../tree/locate.js';
import type { Node } from '../tree/nodes.js';
import type { Change, Stored } from './change.js';
import type { RetryLines } from './retry-lines.js';

/** What the writing operations share. */
export interface WriteContext extends Context {
  readonly store: Store;
  readonly csn: CsnClock;
  /** What holds for every change, in the order in which it is asked. */
  readonly rules: readonly Rule[];
  readonly lines: RetryLines;
}

/** What a rule says of a change; undefined: nothing against it, nothing to add. */
export type Verdict =
  | { readonly refuse: LdapError }
  | {
      /** Changes the entry as it will be. Not for deletions. */
      readonly amend?: (after: Draft) => void;
      /** Go into the plan with the change: guards and rows of the rule's own. */
      readonly steps?: readonly PlanStep[];
    }
  | undefined;

/** What an attempt has read before it makes a change: it comes true only while this is what is there. */
export interface Target {
  /** The entry, or the one below which another comes. */
  readonly node: Node;
  /** Undefined where an entry comes. */
  readonly stored: Stored | undefined;
}

/** Something that holds for every write, whoever makes it and by which operation. */
export interface Rule {
  /** For messages to developers. */
  readonly name: string;
  /** Before anything is read: what is refused whatever the entry is. */
  asked?(context: WriteContext, asked: Asked): LdapError | undefined;
  /**
   * The entry, or the one above it, was not found: what is said instead of `error`, so that it does not tell what may
   * not be known.
   */
  missing?(context: WriteContext, asked: Asked, error: LdapError): LdapError | undefined;
  /** In each attempt, when the entry is read and before its values are looked at. */
  found?(context: WriteContext, asked: Asked, target: Target): LdapError | undefined;
  /** In each attempt, on the change that is about to be planned. Sees what the rules before it have amended. */
  change?(context: WriteContext, change: Change): Maybe<Verdict>;
}
