import type { KeyedLock } from '../../fair/keyed-lock.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter, Modification } from '../../ldap/ldap-types.js';
import type { AttributeType, Rdn } from '../../schema/schema-types.js';
import type { Maybe, PlanStep, Store } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { isGuardFailure } from '../../store/store-error.js';
import type { ChangeOp } from '../model/change-record.js';
import type { CsnClock } from '../model/csn.js';
import type { Actor, WriteOptions, WriteRequest } from '../model/directory-types.js';
import type { Draft } from '../model/draft.js';
import type { NameChange, NameChanges } from '../model/name-changes.js';
import type { Node } from '../model/tables.js';
import { MAX_TRIES } from '../model/thresholds.js';
import type { TreeContext } from '../tree/tree-context.js';
import type { MovedValues } from './large-ahead.js';
import type { NumberPools } from './number-pools.js';

/**
 * The change of one entry, as a value. An attempt makes it from the row whose version the plan guards. So rules judge
 * the entry that is really changed: otherwise the guard fails, and the next attempt makes a new change. `planOf`
 * derives all steps of the plan from one or several changes.
 */
export interface Change {
  readonly op: ChangeOp;
  readonly id: Buffer;
  readonly actor: Actor;
  /** The entry before the change; undefined for a new entry. */
  readonly before: StoredEntry | undefined;
  /** The entry after the change; undefined for a deletion. Rules may still change the draft until the plan is made. */
  readonly after: Draft | undefined;
  readonly place: Place;
  /** For a modify: the modifications of the request and those that the server adds. */
  readonly modifications?: readonly Modification[];
  /** For a modify: deleted values of pwdAccountLockedTime that only the account state may have. */
  readonly lockTimes?: readonly Buffer[];
  /** For an add. */
  readonly completeNew?: WriteOptions['completeNew'];
  /** For a deletion or restoration: the row in table `deleted`. */
  readonly deletedRow?: DeletedRow;
  /** Why the tree does not allow the change (name taken, children). Only reported to an actor with the rights. */
  readonly obstacle?: LdapError | undefined;
  /** Whether the change only updates references. The entry is then not checked against the schema. */
  readonly isSettlement?: boolean | undefined;
  /** Whether the change is in a batch of a bulk load. If the batch fails, each change is made again, alone. */
  readonly isBatched?: boolean;
  /** For a deletion: the tree delete that it belongs to. */
  readonly tree?: TreeDeletion;
  /** Of the change that takes a subtree out of the tree: its further steps. No rule applies, and it has no record. */
  readonly detachment?: readonly PlanStep[];
}

/** What the deletions in one plan of a tree delete share. */
export interface TreeDeletion {
  /** The moment since which the entries are gone, as in table `deleted`: the same for all of them. */
  readonly time: Buffer;
  /** The changes of names that the rules have recorded for the plan. */
  readonly nameChanges: NameChange[];
  /** Whether any of their names is referenced. */
  readonly areReferenced: boolean;
}

export interface StoredEntry {
  /** Packed master row. May lack values of wide attributes that stay unchanged (`openNarrow`). */
  readonly row: Buffer;
  /** Large values are pointers, except those of types whose normal forms change. */
  readonly draft: Draft;
}

/** The position of the entry in the tree, before and after the change. */
interface Place {
  /** Undefined for a new entry. */
  readonly from: Node | undefined;
  /** Undefined for a deletion. The same object as `from` if the entry keeps its position. */
  readonly to: Node | undefined;
  /** The RDN as the user wrote it; for a suffix the whole DN. For a deletion: before the change. */
  readonly upRdn: Buffer;
  /** `upRdn`, parsed. */
  readonly rdn: Rdn;
  /** For an entry that gets a new tree row: its current one, from which the counters are copied. */
  readonly treeRow?: Buffer | undefined;
}

export interface DeletedRow {
  /** For a restoration: the row to restore. For a deletion: that of a formerly deleted entry with this entryUUID. */
  readonly row: Buffer | undefined;
  /** The large values that move between tables. */
  readonly movedValues: MovedValues;
}

/** Returns the types whose attributes the change adds, removes or replaces. Unchanged attributes are shared. */
export function changedTypes({ before, after }: Change): Set<AttributeType> {
  const types = new Set<AttributeType>();
  const attributesBefore = before?.draft.attributes ?? [];
  const attributesAfter = after?.attributes ?? [];
  for (let i = 0; i < attributesAfter.length; i++) {
    const attribute = attributesAfter[i]!;
    if (attribute !== attributesBefore[i] && before?.draft.get(attribute.description) !== attribute)
      types.add(attribute.description.type);
  }
  for (let i = 0; i < attributesBefore.length; i++) {
    const attribute = attributesBefore[i]!;
    if (attribute !== attributesAfter[i] && !after?.get(attribute.description)) types.add(attribute.description.type);
  }
  return types;
}

/** The services that all writes of a partition use. */
export interface WriteContext extends TreeContext {
  readonly store: Store;
  readonly csn: CsnClock;
  /** The rules for every change, in the order in which they are applied. */
  readonly rules: readonly Rule[];
  /**
   * Locks of account states, and of entries whose write is repeated because another write was faster. Without locks all
   * but one of the repeated writes of an entry would fail again, and block the event loop meanwhile.
   */
  readonly locks: KeyedLock;
  /** Whether table `state` exists. It is missing if a directory of an older version is opened read-only. */
  readonly hasStates: boolean;
  /** Whether the entry matches the filter. Its large values must have been read; terms on the DN do not match. */
  fits(filter: Filter, entry: Draft): boolean;
  readonly numbers: NumberPools;
  readonly references: References;
  /** Goes on with tree deletes of which not all entries are deleted. Resolves with whether there were any. */
  finishTrees(): Promise<boolean>;
  /** Called after each write of an entry. */
  onCommit?: () => void;
}

/** A committed change of a name, with the key of the former tree row. */
export interface CommittedNameChange extends NameChange {
  readonly formerKey: Buffer;
}

/** Updates references after changes of the names of entries. */
export interface References {
  /** Whether an entry has a reference to one of the names (`Dn.norm` as Latin-1). */
  areReferenced(names: readonly string[]): Maybe<boolean>;
  /** Waits until no change of a name is pending. */
  settle(): Promise<void>;
  /** Starts to update references after the name of an entry has changed. Does not wait for the end. */
  onNameChanged(change: CommittedNameChange): void;
  /** Retries, after a failure, the changes passed to `onNameChanged` that are not done. Rejects if that fails again. */
  follow(): Promise<void>;
  /** Returns the changes of names since the entry `id` was deleted. `time`: as in its row in table `deleted`. */
  changesSince(id: Buffer, time: Buffer): Promise<NameChanges>;
  /** Stops updates. Resolves when none is running. Pending changes stay pending. */
  close(): Promise<void>;
}

/** A rule's decision on a change. Undefined: the change is allowed, and the rule adds nothing. */
export type Verdict =
  | { readonly refuse: LdapError }
  | {
      /** Changes the entry before it is stored. Not called for deletions. */
      readonly amend?: (after: Draft) => void;
      /** Steps that are added to the plan: guards, and the rule's own rows. */
      readonly steps?: readonly PlanStep[];
    }
  | undefined;

/** The entry as an attempt has read it. The plan guards that it has not changed. */
export interface Target {
  /** The entry, or the parent of a new entry. */
  readonly node: Node;
  /** Undefined for a new entry. */
  readonly stored: StoredEntry | undefined;
}

/** A rule for every write, whatever the actor and the operation. */
export interface Rule {
  /** Name of the rule, for developers. */
  readonly name: string;
  /** Checks the request before anything is read. Returns an error to refuse it. */
  checkRequest?(context: WriteContext, asked: WriteRequest): LdapError | undefined;
  /** Checks the request in each attempt, after the entry is read. Returns an error to refuse it. */
  checkTarget?(context: WriteContext, asked: WriteRequest, target: Target): Maybe<LdapError | undefined>;
  /** Checks the change in each attempt, before the plan is made. The change includes amendments of earlier rules. */
  checkChange?(context: WriteContext, change: Change): Maybe<Verdict>;
}

/**
 * Runs `work` on the current shared row. Repeats it if another process has changed what its plan guards, such as the
 * lists in the shared row.
 */
export async function retryWithFreshState<T>(context: WriteContext, work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    const maybeRefresh = context.shared.refresh();
    if (isPromise(maybeRefresh)) await maybeRefresh;
    try {
      return await work();
    } catch (error) {
      if (!isGuardFailure(error) || tries === MAX_TRIES) throw error;
    }
  }
}

/** Thrown by a write that depends on a name with a pending change. `write` waits until it is settled, then retries. */
export class PendingNamesError extends LdapError {
  constructor() {
    super('busy', 'references to entries that were renamed or deleted are being brought up to date; try again');
  }
}
