import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { Reader } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { StoreError } from '../../store/store-error.js';
import type { WriteOptions } from '../model/directory-types.js';
import type { Draft, DraftAttribute, DraftValue } from '../model/draft.js';
import { draftFromRow, valueQualifier } from '../model/entry-cells.js';
import { largeLength, readLarge } from '../model/large.js';
import { LongWork, refuseLongEntry } from '../model/long-work.js';
import type { Node } from '../model/node.js';
import { largeQualifiers, MASTER_TABLE } from '../model/tables.js';
import { LONG_ROW } from '../model/thresholds.js';
import { isWhole } from '../model/wide.js';
import { type LocatedEntry, refuseReferral, requireHead } from '../tree/locate.js';
import type { StoredEntry } from './change.js';
import type { WriteContext } from './context.js';

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
