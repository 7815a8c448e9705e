import type { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import type { AttributeType, Rdn } from '../../schema/schema-types.js';
import type { ChangeOp } from '../model/change-record.js';
import type { Actor } from '../model/directory-types.js';
import type { Draft } from '../model/draft.js';
import type { Node } from '../model/node.js';
import type { MovedValues } from './large-ahead.js';

/**
 * The change of one entry, as a value. A change is made inside an attempt from the row whose version the plan guards.
 * So rules decide on the entry that is really changed: otherwise the attempt fails, and the next attempt makes a new
 * change. `planOf` derives all steps of the plan from one or several changes.
 */
export interface Change {
  readonly op: ChangeOp;
  readonly id: Buffer;
  readonly actor: Actor;
  /** The entry before the change; undefined for a new entry. */
  readonly before: StoredEntry | undefined;
  /** The entry after the change; undefined for a deletion. Rules may amend the draft until the plan is made. */
  readonly after: Draft | undefined;
  readonly place: Place;
  /** For a modify: the requested modifications, and those that the server adds. */
  readonly modifications?: readonly Modification[];
  /** For a deletion and a restoration: the row of table `deleted`. */
  readonly deletedRow?: DeletedRow;
  /** The obstacle in the tree (name taken, children). Reported only to an actor who may make the change. */
  readonly obstacle?: LdapError | undefined;
  /** Whether the change only updates references; the schema of the entry is then not checked. */
  readonly isSettlement?: boolean | undefined;
  /** Whether the change is part of a bulk load. If the plan of a batch fails, each change is made again, alone. */
  readonly isBatched?: boolean;
}

export interface StoredEntry {
  /** Packed master row. For an entry with wide attributes, values that stay may be missing (`open-narrow.ts`). */
  readonly row: Buffer;
  /** Large values are pointers, except those of types whose normal forms change. */
  readonly draft: Draft;
}

/** The position of the entry in the tree, before and after the change. */
export interface Place {
  /** Undefined for a new entry. */
  readonly from: Node | undefined;
  /** Undefined for a deletion. The same object as `from` where the entry keeps its position. */
  readonly to: Node | undefined;
  /** The RDN as the user wrote it; for a suffix the whole DN. For a deletion the RDN before the change. */
  readonly upRdn: Buffer;
  /** `upRdn`, parsed. */
  readonly rdn: Rdn;
  /** The current tree row of an entry that gets a new tree row, to which the counters are copied. */
  readonly treeRow?: Buffer | undefined;
}

export interface DeletedRow {
  /** For a restoration the row to be restored; for a deletion the row of an earlier entry with the same entryUUID. */
  readonly row: Buffer | undefined;
  /** Large values that move between the tables. */
  readonly movedValues: MovedValues;
}

/** Returns the types whose attributes the change adds, removes or replaces. Drafts share unchanged attributes. */
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
