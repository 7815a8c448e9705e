import type { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import type { AttributeType, Rdn } from '../../schema/schema-types.js';
import type { ChangeOp } from '../model/change-record.js';
import type { Actor } from '../model/directory-types.js';
import type { Draft } from '../model/draft.js';
import type { Node } from '../model/node.js';
import type { Carried } from './large-ahead.js';

/**
 * What is done to one entry, as a value. It is made inside an attempt, from the row whose version the plan guards: so
 * what rules decide on it is decided on the entry that is changed, or the attempt fails and another makes it anew.
 * `planOf` makes every step from it; several changes can make one plan.
 */
export interface Change {
  readonly op: ChangeOp;
  /** entryUUID. */
  readonly id: Buffer;
  readonly actor: Actor;
  /** The entry as it is; undefined: it comes. */
  readonly before: Stored | undefined;
  /** The entry as it will be; undefined: it goes. Rules amend it until the plan is made. */
  readonly after: Draft | undefined;
  readonly place: Place;
  /** Of a modify: what was asked for, and what the server keeps with it. */
  readonly modifications?: readonly Modification[];
  /** Of a deletion and a restoration: the row of table `deleted`. */
  readonly aside?: Aside;
  /** What stands against it in the tree (name taken, entries below): said only to who may make the change. */
  readonly obstacle?: LdapError | undefined;
  /** It brings references up to date: the entry's schema is not looked at. */
  readonly settles?: boolean | undefined;
  /** It goes with others of a bulk load. Where their plan does not hold each is made again, alone. */
  readonly isBatched?: boolean;
}

/** An entry as its master row has it. */
export interface Stored {
  /** Packed. Of an entry with wide attributes perhaps without the values that stay: see `open-narrow.ts`. */
  readonly row: Buffer;
  /** Large values of the types whose forms change are read; others are pointers. */
  readonly draft: Draft;
}

/** Where the entry stands, before and after. */
export interface Place {
  /** Undefined: nowhere yet. */
  readonly from: Node | undefined;
  /** Undefined: nowhere any more. The same as `from` when it stays. */
  readonly to: Node | undefined;
  /** The RDN as given, of a suffix the whole DN: of the entry as it will be, of one that goes as it was. */
  readonly upRdn: Buffer;
  /** `upRdn`, parsed: its values are the entry's. */
  readonly rdn: Rdn;
  /** Of an entry that gets another tree row: the one it has, whose counters go along. */
  readonly treeRow?: Buffer | undefined;
}

export interface Aside {
  /** Of a restoration the row that is brought back; of a deletion the one of an earlier entry with this entryUUID. */
  readonly row: Buffer | undefined;
  /** Chunks of large values, on their way to the other table. */
  readonly carried: Carried;
}

/**
 * Types of which the entry before and after does not have the same attributes. Drafts share those that did not change.
 */
export function changedTypes({ before, after }: Change): Set<AttributeType> {
  const types = new Set<AttributeType>();
  const were = before?.draft.attributes ?? [];
  const are = after?.attributes ?? [];
  for (let i = 0; i < are.length; i++) {
    const attribute = are[i]!;
    if (attribute !== were[i] && before?.draft.get(attribute.description) !== attribute)
      types.add(attribute.description.type);
  }
  for (let i = 0; i < were.length; i++) {
    const attribute = were[i]!;
    if (attribute !== are[i] && !after?.get(attribute.description)) types.add(attribute.description.type);
  }
  return types;
}
