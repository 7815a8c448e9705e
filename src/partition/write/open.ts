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
import type { Stored } from './change.js';
import type { WriteContext } from './context.js';

/** Reads the whole entry at `dn`. Throws `noSuchObject` or `referral`. */
export async function findWhole(
  context: WriteContext,
  dn: Dn,
  { manageDsaIT = false, refuseLong: leave = false }: WriteOptions,
): Promise<{ node: Node; stored: Stored }> {
  const found = await requireHead(context, context.store, dn, manageDsaIT);
  const stored = await openWhole(context, found, leave);
  if (!manageDsaIT) refuseReferral(context, { node: found.node, row: stored.row }, dn);
  return { node: found.node, stored };
}

/**
 * Reads the whole entry, of which only the head may have been read. With `leave`, throws `LongWork` for a long entry.
 */
export async function openWhole(
  context: WriteContext,
  { node, row: found }: LocatedEntry,
  leave: boolean,
): Promise<Stored> {
  refuseLongEntry(leave, found);
  const read = isWhole(found) ? found : context.store.get(MASTER_TABLE.name, node.id);
  const row = isPromise(read) ? await read : read;
  if (!row) throw new StoreError('guard', 'the entry has been deleted meanwhile');
  if (row !== found) refuseLongEntry(leave, row);
  return { row, draft: draftFromRow(context.descriptions, row, largeQualifiers(row)) };
}

/**
 * Returns the draft with the large values of the wanted types, which are compared and normalized. Returns the draft
 * itself if it has none. With `leave`, throws `LongWork` if the values are long together.
 */
export async function loadLarge(
  store: Reader,
  table: string,
  id: Buffer,
  draft: Draft,
  wanted: (type: AttributeType) => boolean,
  leave = false,
): Promise<Draft> {
  if (leave && largeBytes(draft, wanted) > LONG_ROW) throw new LongWork();
  let loaded: Draft | undefined;
  for (const attribute of draft.attributes) {
    if (!hasStored(attribute) || !wanted(attribute.description.type)) continue;
    loaded ??= draft.copy();
    const values: DraftValue[] = [];
    for (const value of attribute.values)
      values.push(value.isPointer ? await loadValue(store, table, id, attribute, value) : value);
    loaded.set({ ...attribute, values });
  }
  return loaded ?? draft;
}

/** Returns the total length in bytes of the large values that have not been read. */
function largeBytes(draft: Draft, wanted: (type: AttributeType) => boolean): number {
  let bytes = 0;
  for (const attribute of draft.attributes)
    if (hasStored(attribute) && wanted(attribute.description.type))
      for (const { isPointer: stored, bytes: pointer } of attribute.values) if (stored) bytes += largeLength(pointer);
  return bytes;
}

/** Whether a value of the attribute is a pointer to a large value. */
export function hasStored({ values }: DraftAttribute): boolean {
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
