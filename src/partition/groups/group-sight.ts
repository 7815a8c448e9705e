import type { AttributeType } from '../../schema/schema-types.js';
import type { Node } from '../model/node.js';
import type { Use, Viewer } from '../model/viewer.js';
import { wideOf } from '../model/wide-read.js';
import type { SearchContext } from '../read/run/search-context.js';
import { ROOT } from '../tree/nodes.js';
import { shortRow } from './short-row.js';

/** Whether the viewer sees the group and may use its values of the type: of a group that has some with options, all. */
export async function maySee(
  context: SearchContext,
  viewer: Viewer,
  use: Use,
  { id, parent }: Node,
  type: AttributeType,
): Promise<boolean> {
  const row = await shortRow(context, id, viewer.looksInto);
  const sight = row && viewer.sightOf!({ id: Buffer.from(id), parent: parent ?? ROOT, row });
  if (!sight || sight.all(use)) return sight !== undefined;
  const reader = context.reader.read(row!);
  const descriptions = reader.stored.slice(0, reader.count).map(({ description }) => description);
  for (const { description } of wideOf(context, row!)) descriptions.push(description);
  return descriptions.every((description) => description.type !== type || sight.allows(use, description));
}
