import type { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import type { AttributeType, Rdn } from '../../schema/schema-types.js';
import type { ChangeOp } from '../model/change-record.js';
import type { Actor, WriteOptions } from '../model/directory-types.js';
import type { Draft } from '../model/draft.js';
import type { Node } from '../model/tables.js';
import type { MovedValues } from './large-ahead.js';

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
}

export interface StoredEntry {
  /** Packed master row. May lack values of wide attributes that stay unchanged (`openNarrow`). */
  readonly row: Buffer;
  /** Large values are pointers, except those of types whose normal forms change. */
  readonly draft: Draft;
}

/** The position of the entry in the tree, before and after the change. */
export interface Place {
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
