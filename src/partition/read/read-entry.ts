import { isPromise } from '../../store/maybe.js';
import type { Entry } from '../model/directory-types.js';
import { draftFromAttributes } from '../model/draft.js';
import { detachedRow } from '../model/entry-cells.js';
import { readAllLarge } from '../model/large.js';
import { draftWithLarge } from '../model/large-draft.js';
import { presentRow } from '../model/present-row.js';
import { MASTER_TABLE, parentIdOf, versionOf } from '../model/tables.js';
import type { LocatedEntry } from '../tree/locate.js';
import type { TreeContext } from '../tree/tree-context.js';
import type { SearchContext } from './run/search-context.js';

/** Returns the entry as an object, with large values only if `withLarge` is set. */
export async function toEntry(context: SearchContext, located: LocatedEntry, withLarge: boolean): Promise<Entry> {
  const { node } = located;
  const row = presentRow(context, located.row);
  const largeValues = withLarge ? await readAllLarge(context.store, MASTER_TABLE.name, node.id, row) : undefined;
  const draft = draftWithLarge(context, row, largeValues);
  return {
    id: node.id,
    dn: node.dn.toString(),
    parentId: parentIdOf(row),
    version: versionOf(row),
    attributes: draft.attributes.map((a) => ({
      description: a.text,
      type: a.description.type,
      values: a.values.map((v) => v.bytes),
    })),
    row,
  };
}

/** Packs a master row for an entry in no table (root DSE, cn=Subschema, …), to be treated like a stored row. */
export function virtualRow(
  context: TreeContext,
  attributes: readonly { readonly type: string; readonly values: readonly Buffer[] }[],
): Buffer {
  return detachedRow(draftFromAttributes(context.schema, attributes));
}

export async function readById(context: SearchContext, id: Buffer, large: boolean): Promise<Entry | undefined> {
  const maybeRow = context.store.get(MASTER_TABLE.name, id);
  const row = isPromise(maybeRow) ? await maybeRow : maybeRow;
  const maybeNode = context.nodes.byId(id);
  const node = isPromise(maybeNode) ? await maybeNode : maybeNode;
  return row && node ? toEntry(context, { node, row }, large) : undefined;
}
