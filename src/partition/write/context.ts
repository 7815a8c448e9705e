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
import type { Change, StoredEntry } from './change.js';
import type { NumberPools } from './number-pools.js';

/** The services that all writes of a partition use. */
export interface WriteContext extends TreeContext {
  readonly store: Store;
  readonly csn: CsnClock;
  /** The rules for every change, in the order in which they apply. */
  readonly rules: readonly Rule[];
  /**
   * Locks of entries whose write is repeated because another write was faster, and of account states. Without the locks
   * all repeated writes of an entry but one would fail again, and block the event loop meanwhile.
   */
  readonly locks: KeyedLock;
  /** Whether table `state` exists. A directory of an older version that is opened read-only lacks it. */
  readonly hasStates: boolean;
  /** Whether the entry matches the filter. Large values must have been read; terms on the DN do not match. */
  fits(filter: Filter, entry: Draft): boolean;
  readonly numbers: NumberPools;
  readonly references: References;
}

/** A committed change of a name, with the key of the former tree row. */
export interface CommittedNameChange extends NameChange {
  readonly formerKey: Buffer;
}

/** Updates references after changes of the names of entries. */
export interface References {
  /** Whether a value of some entry refers to the name (`Dn.norm` as Latin-1). */
  isReferenced(name: string): Maybe<boolean>;
  /** Waits until no change of a name is pending. */
  settle(): Promise<void>;
  /** Starts the update of references after the name of an entry has changed. Does not wait. */
  onNameChanged(change: CommittedNameChange): void;
  /** Follows the changes given to `onNameChanged` that are not done, after a failure. Rejects if that fails again. */
  follow(): Promise<void>;
  /** Returns the changes of names since the entry `id` was deleted, at `time` as in its row of table `deleted`. */
  changesSince(id: Buffer, time: Buffer): Promise<NameChanges>;
  /** Stops updates, and resolves when none is running. Pending changes stay pending. */
  close(): Promise<void>;
}

/** The decision of a rule on a change. Undefined: the change is allowed, and the rule adds nothing. */
export type Verdict =
  | { readonly refuse: LdapError }
  | {
      /** Amends the entry as it will be after the change. Not called for deletions. */
      readonly amend?: (after: Draft) => void;
      /** Steps that the rule adds to the plan: guards, and rows of its own. */
      readonly steps?: readonly PlanStep[];
    }
  | undefined;

/** The entry that an attempt has read. The plan is committed only if the entry has not changed. */
export interface Target {
  /** The entry, or the parent of a new entry. */
  readonly node: Node;
  /** Undefined for a new entry. */
  readonly stored: StoredEntry | undefined;
}

/** A rule for every write, whatever the actor and the operation. */
export interface Rule {
  /** Name for developers. */
  readonly name: string;
  /** Checks the request, before anything is read. Returns the reason for a refusal. */
  checkRequest?(context: WriteContext, asked: WriteRequest): LdapError | undefined;
  /** Called in each attempt after the entry has been read. Returns the reason for a refusal. */
  checkTarget?(context: WriteContext, asked: WriteRequest, target: Target): Maybe<LdapError | undefined>;
  /** Called in each attempt before the plan is made. The change includes the amendments of earlier rules. */
  checkChange?(context: WriteContext, change: Change): Maybe<Verdict>;
}
