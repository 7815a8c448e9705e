import type { AttributeType } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import { presentRow } from '../model/present-row.js';
import { MASTER_TABLE } from '../model/tables.js';
import { UNRESTRICTED } from '../model/viewer.js';
import { isWhole } from '../model/wide.js';
import { describedWide } from '../model/wide-read.js';
import type { SearchContext } from '../read/run/search-context.js';
import { readFilterPart } from '../read/run/wide-part.js';

/** Returns the master row. For a long entry, omits wide attributes if `looksInto` has none of them. */
export function shortRow(
  context: SearchContext,
  id: Buffer,
  looksInto: ReadonlySet<AttributeType> | undefined,
): Maybe<Buffer | undefined> {
  const { store, compiler } = context;
  return chain(store.getHead(MASTER_TABLE.name, id), (head) => {
    if (!head || isWhole(head)) return head && presentRow(context, head);
    const isLookedInto = describedWide(context, head).some(({ description }) => looksInto?.has(description.type));
    const { filter } = compiler.compile({ type: 'present', attribute: 'objectClass' }, UNRESTRICTED);
    const partialRow = isLookedInto ? undefined : readFilterPart(context, store, id, head, filter);
    const row = chain(partialRow, (known) => known ?? store.get(MASTER_TABLE.name, id));
    return chain(row, (known) => known && presentRow(context, known));
  });
}
