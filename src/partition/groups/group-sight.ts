import type { AttributeType } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import type { Node } from '../model/node.js';
import { presentRow } from '../model/present-row.js';
import { MASTER_TABLE } from '../model/tables.js';
import { UNRESTRICTED, type Use, type Viewer } from '../model/viewer.js';
import { isWhole } from '../model/wide.js';
import { describedWide } from '../model/wide-read.js';
import type { SearchContext } from '../read/run/search-context.js';
import { readFilterPart } from '../read/run/wide-part.js';
import { ROOT } from '../tree/nodes.js';

/** Whether the viewer sees the group and may use values of the type, with any attribute options, in this way. */
export function maySee(
  context: SearchContext,
  viewer: Viewer,
  use: Use,
  node: Node,
  type: AttributeType,
): Maybe<boolean> {
  if (viewer.mayUse?.(node, use, type)) return true;
  const { id, parent } = node;
  return chain(shortRow(context, id, viewer.looksInto), (row) => {
    const sight = row && viewer.sightOf!({ id: Buffer.from(id), parent: parent ?? ROOT, row });
    if (!sight || sight.all(use)) return sight !== undefined;
    const reader = context.reader.read(row!);
    const descriptions = reader.descriptions.slice(0, reader.attributeCount).map(({ description }) => description);
    for (const { description } of describedWide(context, row!)) descriptions.push(description);
    return descriptions.every((description) => description.type !== type || sight.allows(use, description));
  });
}

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
