import type { Modification } from '../../ldap/ldap-types.js';
import type { AttributeType, Dn, Rdn } from '../../schema/schema-types.js';
import type { ColumnRange } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { StoreError } from '../../store/store-error.js';
import { attributeKey, type Draft } from '../model/draft.js';
import { draftFromRow } from '../model/entry-cells.js';
import { largeQualifiers, MASTER_TABLE, normQualifier, oidBytes, TREE_TABLE } from '../model/tables.js';
import { MAX_NORM, WIDE_VALUES } from '../model/thresholds.js';
import {
  type DescribedWide,
  describedWide,
  type IndexesByOid,
  isSameVersion,
  MAX_NEXT_INDEX,
  masterRanges,
  normRanges,
  parseIndexes,
} from '../model/wide-read.js';
import type { LocatedEntry } from '../tree/locate.js';
import { nodeTreeKey } from '../tree/nodes.js';
import { specialClass } from '../tree/referrals.js';
import type { Stored } from './change.js';
import type { WriteContext } from './context.js';

/**
 * Reads an entry with wide attributes for a modify that adds and deletes a few of their values, such as members of a
 * group. Other values are not read. The draft holds, of each wide attribute, the values that the changes name, and the
 * number of the remaining values. A modify that adds and deletes values by name needs no more:
 *
 * - The tree row has a cell for the normal form of each value, which tells whether the value exists, and its index.
 * - Each value is checked by itself, and only the named values can be equal to each other.
 * - The attribute stays present, in the tree row and in the index: at least half of `WIDE_VALUES` values remain.
 *
 * Returns undefined where these conditions do not hold (`narrowed`), or where the values have to be unique. The caller
 * then reads the whole entry.
 */
export async function openNarrow(
  context: WriteContext,
  { node, row: head }: LocatedEntry,
  dn: Dn,
  changes: readonly Modification[],
): Promise<Stored | undefined> {
  const narrow = narrowed(context, head, dn.rdns[0]!, changes);
  if (!narrow) return undefined;
  const treeRead =
    narrow.norms.length > 0 ? context.store.getColumns(TREE_TABLE.name, nodeTreeKey(node), narrow.norms) : undefined;
  const treeCells = isPromise(treeRead) ? await treeRead : treeRead;
  const indexes = parseIndexes(treeCells);
  const read = context.store.getColumns(MASTER_TABLE.name, node.id, masterRanges(narrow.wide, indexes));
  const row = isPromise(read) ? await read : read;
  if (!row || !isSameVersion(row, head)) throw new StoreError('guard', 'the entry has been changed meanwhile');
  const draft = draftFromRow(context.descriptions, row, undefined);
  if (specialClass(context, row) || !setRests(draft, narrow.wide, indexes)) return undefined;
  return { row, draft };
}

/** The parts of the entry to be read. */
interface Narrowed {
  readonly wide: readonly DescribedWide[];
  /** Tree cells of the values that the changes name, in key order. */
  readonly norms: readonly ColumnRange[];
}

/** Returns undefined where a change of a wide attribute does more than add and delete named values. */
function narrowed(
  context: WriteContext,
  head: Buffer,
  rdn: Rdn,
  changes: readonly Modification[],
): Narrowed | undefined {
  const wide = describedWide(context, head);
  if (wide.length === 0 || largeQualifiers(head)) return undefined;
  const types = new Map(wide.map((one) => [one.description.type, one]));
  if (types.size < wide.length || rdn.avas.some((ava) => types.has(ava.type))) return undefined;
  if (wide.some(({ description }) => context.shared.values.dependsOnType(description.type))) return undefined;
  const norms = new Map<string, Buffer>();
  const left = new Map(wide.map((one) => [one, one.valueCount]));
  for (const { operation, attribute } of changes) {
    const description = context.schema.requireDescription(attribute.type);
    const one = types.get(description.type);
    if (!one) continue;
    if (operation === 'delete') left.set(one, left.get(one)! - attribute.values.length);
    const named = (operation === 'add' || operation === 'delete') && attribute.values.length > 0;
    if (!named || attributeKey(description) !== attributeKey(one.description)) return undefined;
    if (!isNamedByNorm(context, description.type)) return undefined;
    for (const value of attribute.values) {
      const norm = description.type.equality!.normalize(value);
      if (!norm || norm.length > MAX_NORM) return undefined;
      const qualifier = normQualifier(oidBytes(description.type.oid), norm);
      norms.set(qualifier.toString('latin1'), qualifier);
    }
  }
  for (const [one, count] of left) if (count <= WIDE_VALUES / 2 || one.nextIndex > MAX_NEXT_INDEX) return undefined;
  return { wide, norms: normRanges(norms.values()) };
}

/** Whether the tree row identifies values by normal form, and no substring index depends on the remaining values. */
function isNamedByNorm(context: WriteContext, type: AttributeType): boolean {
  return (
    !type.secret &&
    type.equality !== undefined &&
    !type.equality.test &&
    !context.shared.indexes.ofType(type)?.hasSubstrings
  );
}

/**
 * Records in the draft the number of values that were not read. Returns false where the row lacks a value that the tree
 * row has, or holds the type under other options as well.
 */
function setRests(draft: Draft, wide: readonly DescribedWide[], indexes: IndexesByOid): boolean {
  for (const { description, text, valueCount: count, nextIndex: next } of wide) {
    const { type } = description;
    const found = draft.get(description);
    const expected = indexes.get(type.oid)?.length ?? 0;
    if ((found?.values.length ?? 0) !== expected) return false;
    for (const other of draft.attributes) if (other.description.type === type && other !== found) return false;
    draft.setUnread(description, text, { count: count - expected, nextIndex: next });
  }
  return true;
}
