import { BoundedMap } from '../../cache/bounded-map.js';
import type { AttributeType } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import { MASTER_TABLE } from '../model/tables.js';
import { UNRESTRICTED } from '../model/viewer.js';
import { isWhole } from '../model/wide.js';
import { wideOf } from '../model/wide-read.js';
import type { SearchContext } from '../read/run/search-context.js';
import { partForFilter } from '../read/run/wide-part.js';

/** Bytes of a part that is kept, and how many of them are. */
const MOST_KEPT = 4096;
const PARTS = 256;

/** What was read of long rows, by the heads that these had, which tell their versions. */
type Parts = BoundedMap<string, { readonly head: Buffer; readonly part: Buffer }>;
const parts = new WeakMap<SearchContext, Parts>();

function partsOf(context: SearchContext): Parts {
  const known = parts.get(context) ?? new BoundedMap(PARTS);
  parts.set(context, known);
  return known;
}

/**
 * The master row of an entry; of a long one without the values of wide attributes, where none of these is to be looked
 * into.
 */
export function shortRow(
  context: SearchContext,
  id: Buffer,
  looksInto: ReadonlySet<AttributeType> | undefined,
): Maybe<Buffer | undefined> {
  const { store, compiler } = context;
  return chain(store.getHead(MASTER_TABLE.name, id), (head) => {
    if (!head || isWhole(head)) return head;
    const isLookedInto = wideOf(context, head).some(({ description }) => looksInto?.has(description.type));
    if (isLookedInto) return store.get(MASTER_TABLE.name, id);
    const key = id.toString('latin1');
    const before = parts.get(context)?.get(key);
    if (before?.head.equals(head)) return before.part;
    const { filter } = compiler.compile({ type: 'present', attribute: 'objectClass' }, UNRESTRICTED);
    return chain(partForFilter(context, store, id, head, filter), (part) => {
      if (!part) return store.get(MASTER_TABLE.name, id);
      if (part.length <= MOST_KEPT) partsOf(context).set(key, { head, part });
      return part;
    });
  });
}
