import type { AttributeDescription } from '../schema/types.js';
import { isPromise } from '../store/maybe.js';
import { cellValue, nextCell, packRow } from '../store/row.js';
import { draftWithLarge } from './delete.js';
import { draftFromAttributes } from './draft.js';
import { entryCells } from './entry.js';
import { readAllLarge } from './large.js';
import type { Context, Located } from './locate.js';
import type { SearchContext } from './search.js';
import { MASTER, MASTER_TABLE, parentIdOf, Q, ROOT_ID } from './tables.js';
import type { Entry } from './types.js';

/** Whether the row has an attribute that is the described one, or a subtype of it (RFC 4512 §2.5). */
export function matchingDescriptions(context: Context, row: Buffer, wanted: AttributeDescription): boolean {
  for (let at = 0; at < row.length; at = nextCell(row, at)) {
    if (row[at] !== MASTER.upAttributes) continue;
    if (context.schema.matches(wanted, context.descriptions.ofCell(row, at).description)) return true;
  }
  return false;
}

/** The entry as an object; large values are read only when asked for, else they are left out. */
export async function toEntry(context: SearchContext, { node, row }: Located, withLarge: boolean): Promise<Entry> {
  const large = withLarge ? await readAllLarge(context.store, MASTER_TABLE.name, node.id, row) : undefined;
  const draft = draftWithLarge(context, row, large);
  return {
    id: node.id,
    dn: node.dn.toString(),
    parentId: parentIdOf(row),
    version: cellValue(row, MASTER.treeInfo, Q.version)!.readBigInt64BE(),
    attributes: draft.attributes.map((a) => ({
      description: a.text,
      type: a.description.type,
      values: a.values.map((v) => v.bytes),
    })),
    row,
  };
}

/** A packed master row of an entry that is in no table (root DSE, cn=Subschema, …), so that it is evaluated and encoded like any other. */
export function virtualRow(
  context: Context,
  attributes: readonly { readonly type: string; readonly values: readonly Buffer[] }[],
): Buffer {
  const draft = draftFromAttributes(context.schema, attributes);
  const nothing = Buffer.alloc(0);
  const { cells } = entryCells(
    draft,
    { parentId: ROOT_ID, normRdn: nothing, upRdn: nothing, version: Buffer.alloc(8) },
    Number.POSITIVE_INFINITY,
  );
  return packRow(cells);
}

export async function readById(context: SearchContext, id: Buffer): Promise<Entry | undefined> {
  const read = context.store.get(MASTER_TABLE.name, id);
  const row = isPromise(read) ? await read : read;
  const found = context.nodes.byId(id);
  const node = isPromise(found) ? await found : found;
  return row && node ? toEntry(context, { node, row }, false) : undefined;
}
