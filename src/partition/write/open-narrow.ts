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
  type Indexes,
  indexesIn,
  isSameVersion,
  MAX_NEXT,
  masterRanges,
  normRanges,
  type Wide,
  wideOf,
} from '../model/wide-read.js';
import type { Located } from '../tree/locate.js';
import { nodeTreeKey } from '../tree/nodes.js';
import { specialClass } from '../tree/referrals.js';
import type { Stored } from './change.js';
import type { WriteContext } from './context.js';

/**
 * Opens an entry with wide attributes for changes of a few of their values, without reading the others: the members of
 * a group that stay. The draft has of each wide attribute the values that the changes name, as far as the entry has
 * them, and says that there are others. That is all that a modify looks at when it adds and deletes values by name:
 *
 * - whether a named value is there, and under which index, is what the tree row's cell of its normal form says;
 * - the checks of a value are its own, and of equal values those that are named can alone be two;
 * - presence, in the tree row and in the index, stays: half of `WIDE_VALUES` are left at least.
 *
 * Where that does not hold (`narrowed`) it gives undefined, and the entry is read whole. So it is where values of a
 * wide attribute are to be unique.
 */
export async function openNarrow(
  context: WriteContext,
  { node, row: head }: Located,
  dn: Dn,
  changes: readonly Modification[],
): Promise<Stored | undefined> {
  const narrow = narrowed(context, head, dn.rdns[0]!, changes);
  if (!narrow) return undefined;
  const treeRead =
    narrow.norms.length > 0 ? context.store.getColumns(TREE_TABLE.name, nodeTreeKey(node), narrow.norms) : undefined;
  const treeCells = isPromise(treeRead) ? await treeRead : treeRead;
  const indexes = indexesIn(treeCells);
  const read = context.store.getColumns(MASTER_TABLE.name, node.id, masterRanges(narrow.wide, indexes));
  const row = isPromise(read) ? await read : read;
  if (!row || !isSameVersion(row, head)) throw new StoreError('guard', 'the entry has been changed meanwhile');
  const draft = draftFromRow(context.descriptions, row, undefined);
  if (specialClass(context, row) || !setRests(draft, narrow.wide, indexes)) return undefined;
  return { row, draft };
}

interface Narrowed {
  readonly wide: readonly Wide[];
  /** Tree cells of the values that the changes name, in order. */
  readonly norms: readonly ColumnRange[];
}

/** Undefined when the changes do not just name values of wide attributes. */
function narrowed(
  context: WriteContext,
  head: Buffer,
  rdn: Rdn,
  changes: readonly Modification[],
): Narrowed | undefined {
  const wide = wideOf(context, head);
  if (wide.length === 0 || largeQualifiers(head)) return undefined;
  const types = new Map(wide.map((one) => [one.description.type, one]));
  if (types.size < wide.length || rdn.avas.some((ava) => types.has(ava.type))) return undefined;
  if (wide.some(({ description }) => context.shared.values.relevantTypes(description.type))) return undefined;
  const norms = new Map<string, Buffer>();
  const left = new Map(wide.map((one) => [one, one.count]));
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
  for (const [one, count] of left) if (count <= WIDE_VALUES / 2 || one.next > MAX_NEXT) return undefined;
  return { wide, norms: normRanges(norms.values()) };
}

/**
 * Whether the tree row tells of a value whether it is there, and a substring index does not depend on the other values.
 */
function isNamedByNorm(context: WriteContext, type: AttributeType): boolean {
  return (
    !type.secret && type.equality !== undefined && !type.equality.test && !context.shared.indexes.of(type)?.substring
  );
}

/**
 * Says in the draft what was left out. False when the row lacks a value of which the tree row speaks, or its type
 * stands there under other options too.
 */
function setRests(draft: Draft, wide: readonly Wide[], indexes: Indexes): boolean {
  for (const { description, text, count, next } of wide) {
    const { type } = description;
    const found = draft.get(description);
    const expected = indexes.get(type.oid)?.length ?? 0;
    if ((found?.values.length ?? 0) !== expected) return false;
    for (const other of draft.attributes) if (other.description.type === type && other !== found) return false;
    draft.setRest(description, text, { count: count - expected, next });
  }
  return true;
}
