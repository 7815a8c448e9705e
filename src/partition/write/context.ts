import type { KeyedLock } from '../../fair/keyed-lock.js';
import type { LdapError } from '../../ldap/ldap-error.js';
import type { Filter } from '../../ldap/ldap-types.js';
import type { Maybe, PlanStep, Store } from '../../store/contract.js';
import type { CsnClock } from '../model/csn.js';
import type { WriteRequest } from '../model/directory-types.js';
import type { Draft } from '../model/draft.js';
import type { NameChange, NameChanges } from '../model/name-changes.js';
import type { Node } from '../model/node.js';
import type { TreeContext } from '../tree/tree-context.js';
import type { Change, Stored } from './change.js';
import type { NumberPools } from './number-pools.js';

/** What the writing operations share. */
export interface WriteContext extends TreeContext {
  readonly store: Store;
  readonly csn: CsnClock;
  /** What holds for every change, in the order in which it is asked. */
  readonly rules: readonly Rule[];
  /**
   * Locks of entries whose write is repeated because another write was faster, and of account states. Without the locks
   * all repeated writes of an entry but one would fail again, and block the event loop meanwhile.
   */
  readonly locks: KeyedLock;
  /** Table `state` is there: not in a directory of an older version that is only read. */
  readonly hasStates: boolean;
  /** Whether the entry, whose large values are at hand, matches; its place in the tree is not asked. */
  fits(filter: Filter, entry: Draft): boolean;
  readonly numbers: NumberPools;
  readonly references: References;
}

/** A change of a name that was made, with the key of the tree row that the entry had. */
export interface FollowedChange extends NameChange {
  readonly key: Buffer;
}

/** What brings references up to date with the names of the entries that they name. */
export interface References {
  /** Whether a value of some entry names the entry of this name (`Dn.norm` as Latin-1). */
  named(name: string): Maybe<boolean>;
  /** Resolves when no change of a name is pending. */
  settle(): Promise<void>;
  /** An entry has changed its name: settles what is pending, and what no plan could know of. Does not wait. */
  changed(change: FollowedChange): void;
  /** Follows the changes given to `changed` that are not done, after a failure. Rejects if that fails again. */
  follow(): Promise<void>;
  /** How names have changed since the entry was deleted, at the time that its row in table `deleted` has. */
  changesSince(id: Buffer, time: Buffer): Promise<NameChanges>;
  /** Leaves what is pending; resolves when nothing is done any more. */
  close(): Promise<void>;
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
  checkRequest?(context: WriteContext, asked: WriteRequest): LdapError | undefined;
  /** In each attempt, when the entry is read and before its values are looked at. */
  checkTarget?(context: WriteContext, asked: WriteRequest, target: Target): Maybe<LdapError | undefined>;
  /** In each attempt, on the change that is about to be planned. Sees what the rules before it have amended. */
  change?(context: WriteContext, change: Change): Maybe<Verdict>;
}
