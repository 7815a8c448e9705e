import type { AttributeType } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import type { Node } from '../model/node.js';
import type { Use, Viewer } from '../model/viewer.js';
import { describedWide } from '../model/wide-read.js';
import type { SearchContext } from '../read/run/search-context.js';
import { ROOT } from '../tree/nodes.js';
import { shortRow } from './short-row.js';

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
