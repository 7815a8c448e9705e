import type { AttributeType } from '../../schema/schema-types.js';
import { presentRow } from '../model/present-row.js';
import { MASTER_TABLE } from '../model/tables.js';
import { UNRESTRICTED } from '../model/viewer.js';
import { isWhole } from '../model/wide.js';
import { wideOf } from '../model/wide-read.js';
import type { SearchContext } from '../read/run/search-context.js';
import { partForFilter } from '../read/run/wide-part.js';

/**
 * The master row of an entry; of a long one without the values of wide attributes, where none of these is to be looked
 * into.
 */
export async function shortRow(
  context: SearchContext,
  id: Buffer,
  looksInto: ReadonlySet<AttributeType> | undefined,
): Promise<Buffer | undefined> {
  const { store, compiler } = context;
  const head = await store.getHead(MASTER_TABLE.name, id);
  if (!head || isWhole(head)) return head && presentRow(context, head);
  const isLookedInto = wideOf(context, head).some(({ description }) => looksInto?.has(description.type));
  const { filter } = compiler.compile({ type: 'present', attribute: 'objectClass' }, UNRESTRICTED);
  const part = isLookedInto ? undefined : await partForFilter(context, store, id, head, filter);
  const row = part ?? (await store.get(MASTER_TABLE.name, id));
  return row && presentRow(context, row);
}
