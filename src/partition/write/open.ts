import type { Modification } from '../../ldap/ldap-types.js';
import type { AttributeType, Dn, Rdn } from '../../schema/schema-types.js';
import type { ColumnRange, Reader } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { StoreError } from '../../store/store-error.js';
import type { WriteOptions } from '../model/directory-types.js';
import { attributeKey, type Draft, type DraftAttribute, type DraftValue } from '../model/draft.js';
import {
  type DescribedWide,
  describedWide,
  draftFromRow,
  type IndexesByOid,
  isSameVersion,
  MAX_NEXT_INDEX,
  masterRanges,
  normRanges,
  parseIndexes,
  valueQualifier,
} from '../model/entry-cells.js';
import { largeLength, readLarge } from '../model/large.js';
import { LongWork, refuseLongEntry } from '../model/long-work.js';
import { largeQualifiers, MASTER_TABLE, type Node, normQualifier, oidBytes, TREE_TABLE } from '../model/tables.js';
import { LONG_ROW, MAX_NORM, WIDE_VALUES } from '../model/thresholds.js';
import { isWhole } from '../model/wide.js';
import { type LocatedEntry, refuseReferral, requireHead } from '../tree/locate.js';
import { nodeTreeKey } from '../tree/nodes.js';
import { specialClass } from '../tree/specials.js';
import type { StoredEntry, WriteContext } from './context.js';

/** Reads the whole entry at `dn`. Throws `noSuchObject` or `referral`. */
export async function findWhole(
  context: WriteContext,
  dn: Dn,
  { manageDsaIT = false, refuseLong: refusesLong = false }: WriteOptions,
): Promise<{ node: Node; stored: StoredEntry }> {
  const located = await requireHead(context, context.store, dn, manageDsaIT);
  const storedEntry = await openWhole(context, located, refusesLong);
  if (!manageDsaIT) refuseReferral(context, { node: located.node, row: storedEntry.row }, dn);
  return { node: located.node, stored: storedEntry };
}

/** Reads the rest of a split row of which only the head was read. `refusesLong`: throws `LongWork` if it is long. */
export async function openWhole(
  context: WriteContext,
  { node, row: foundRow }: LocatedEntry,
  refusesLong: boolean,
): Promise<StoredEntry> {
  refuseLongEntry(refusesLong, foundRow);
  const maybeRow = isWhole(foundRow) ? foundRow : context.store.get(MASTER_TABLE.name, node.id);
  const row = isPromise(maybeRow) ? await maybeRow : maybeRow;
  if (!row) throw new StoreError('guard', 'the entry has been deleted meanwhile');
  if (row !== foundRow) refuseLongEntry(refusesLong, row);
  return { row, draft: draftFromRow(context.descriptions, row, largeQualifiers(row)) };
}

/**
 * Returns the draft with large values of the types that `isWanted` selects, to compare or normalize them. Returns the
 * same draft if it has none. With `refusesLong`, throws `LongWork` if the values are long together.
 */
export async function loadLarge(
  store: Reader,
  table: string,
  id: Buffer,
  draft: Draft,
  isWanted: (type: AttributeType) => boolean,
  refusesLong = false,
): Promise<Draft> {
  if (refusesLong && largeBytes(draft, isWanted) > LONG_ROW) throw new LongWork();
  let loadedDraft: Draft | undefined;
  for (const attribute of draft.attributes) {
    if (!hasPointer(attribute) || !isWanted(attribute.description.type)) continue;
    loadedDraft ??= draft.copy();
    const values: DraftValue[] = [];
    for (const value of attribute.values)
      values.push(value.isPointer ? await loadValue(store, table, id, attribute, value) : value);
    loadedDraft.set({ ...attribute, values });
  }
  return loadedDraft ?? draft;
}

/** Returns the total bytes of the large values that were not read. */
function largeBytes(draft: Draft, isWanted: (type: AttributeType) => boolean): number {
  let byteCount = 0;
  for (const attribute of draft.attributes)
    if (hasPointer(attribute) && isWanted(attribute.description.type))
      for (const { isPointer: stored, bytes: pointer } of attribute.values)
        if (stored) byteCount += largeLength(pointer);
  return byteCount;
}

export function hasPointer({ values }: DraftAttribute): boolean {
  for (let i = 0; i < values.length; i++) if (values[i]!.isPointer) return true;
  return false;
}

async function loadValue(
  store: Reader,
  table: string,
  id: Buffer,
  attribute: DraftAttribute,
  value: DraftValue,
): Promise<DraftValue> {
  const qualifier = valueQualifier(attribute.text, value.index);
  const bytes = await readLarge(store, table, id, qualifier, value.bytes);
  return { bytes, index: value.index, pointer: value.bytes };
}

/**
 * Reads an entry with wide attributes for a modify that adds and deletes a few of their values, such as members of a
 * group. Other values are not read. The draft holds, of each wide attribute, the values that the changes name, and the
 * number of the remaining values. A modify that adds and deletes values by name needs no more:
 *
 * - The tree row has a cell for the normal form of each value, which tells whether the value exists, and its index.
 * - Each value is checked by itself, and only the named values can be equal to each other.
 * - The attribute stays present, in the tree row and in the index: at least half of `WIDE_VALUES` values remain.
 *
 * Returns undefined where these conditions do not hold (`narrowPartsFor`), or where the values have to be unique. The
 * caller then reads the whole entry.
 */
export async function openNarrow(
  context: WriteContext,
  { node, row: head }: LocatedEntry,
  dn: Dn,
  changes: readonly Modification[],
): Promise<StoredEntry | undefined> {
  const narrowParts = narrowPartsFor(context, head, dn.rdns[0]!, changes);
  if (!narrowParts) return undefined;
  const maybeCells =
    narrowParts.normRanges.length > 0
      ? context.store.getColumns(TREE_TABLE.name, nodeTreeKey(node), narrowParts.normRanges)
      : undefined;
  const treeCells = isPromise(maybeCells) ? await maybeCells : maybeCells;
  const indexes = parseIndexes(treeCells);
  const maybeRow = context.store.getColumns(MASTER_TABLE.name, node.id, masterRanges(narrowParts.wides, indexes));
  const row = isPromise(maybeRow) ? await maybeRow : maybeRow;
  if (!row || !isSameVersion(row, head)) throw new StoreError('guard', 'the entry has been changed meanwhile');
  const draft = draftFromRow(context.descriptions, row, undefined);
  if (specialClass(context, row) || !setUnreadCounts(draft, narrowParts.wides, indexes)) return undefined;
  return { row, draft };
}

interface NarrowParts {
  readonly wides: readonly DescribedWide[];
  /** Tree row cells of the values that the changes name, in key order. */
  readonly normRanges: readonly ColumnRange[];
}

/** Returns undefined if a change does more to a wide attribute than to add and delete named values. */
function narrowPartsFor(
  context: WriteContext,
  head: Buffer,
  rdn: Rdn,
  changes: readonly Modification[],
): NarrowParts | undefined {
  const wides = describedWide(context, head);
  if (wides.length === 0 || largeQualifiers(head)) return undefined;
  const wideByType = new Map(wides.map((one) => [one.description.type, one]));
  if (wideByType.size < wides.length || rdn.avas.some((ava) => wideByType.has(ava.type))) return undefined;
  if (wides.some(({ description }) => context.shared.values.dependsOnType(description.type))) return undefined;
  const normQualifiers = new Map<string, Buffer>();
  const remainingCounts = new Map(wides.map((one) => [one, one.valueCount]));
  for (const { operation, attribute } of changes) {
    const description = context.schema.requireDescription(attribute.type);
    const wide = wideByType.get(description.type);
    if (!wide) continue;
    if (operation === 'delete') remainingCounts.set(wide, remainingCounts.get(wide)! - attribute.values.length);
    const isByValue = (operation === 'add' || operation === 'delete') && attribute.values.length > 0;
    if (!isByValue || attributeKey(description) !== attributeKey(wide.description)) return undefined;
    if (!isNamedByNorm(context, description.type)) return undefined;
    for (const value of attribute.values) {
      const norm = description.type.equality!.normalize(value);
      if (!norm || norm.length > MAX_NORM) return undefined;
      const qualifier = normQualifier(oidBytes(description.type.oid), norm);
      normQualifiers.set(qualifier.toString('latin1'), qualifier);
    }
  }
  for (const [one, count] of remainingCounts)
    if (count <= WIDE_VALUES / 2 || one.nextIndex > MAX_NEXT_INDEX) return undefined;
  return { wides, normRanges: normRanges(normQualifiers.values()) };
}

/** Whether the tree row tells which values exist, and no substring index depends on the values that are not read. */
function isNamedByNorm(context: WriteContext, type: AttributeType): boolean {
  return (
    !type.secret &&
    type.equality !== undefined &&
    !type.equality.test &&
    !context.shared.indexes.ofType(type)?.hasSubstrings
  );
}

/**
 * Records the number of unread values in the draft. Returns false if the row lacks a value that the tree row has, or
 * has the type with other options, too.
 */
function setUnreadCounts(draft: Draft, wide: readonly DescribedWide[], indexes: IndexesByOid): boolean {
  for (const { description, text, valueCount: count, nextIndex: next } of wide) {
    const { type } = description;
    const attribute = draft.get(description);
    const expectedCount = indexes.get(type.oid)?.length ?? 0;
    if ((attribute?.values.length ?? 0) !== expectedCount) return false;
    for (const other of draft.attributes) if (other.description.type === type && other !== attribute) return false;
    draft.setUnread(description, text, { count: count - expectedCount, nextIndex: next });
  }
  return true;
}
