import type { Node } from '../model/tables.js';
import { MAX_NORM } from '../model/thresholds.js';
import { ROOT } from './nodes.js';
import type { TreeContext } from './tree-context.js';

const normTexts = new WeakMap<Node, string>();

/** Returns `Dn.norm` of a node as Latin-1. Caches the result by node. */
function cachedNormText(context: Pick<TreeContext, 'schema'>, node: Node): string {
  const cached = normTexts.get(node);
  if (cached !== undefined) return cached;
  const normText = nodeNormText(context, node);
  normTexts.set(node, normText);
  return normText;
}

/** Returns `Dn.norm` of a node as Latin-1, without caching it. */
export function nodeNormText(context: Pick<TreeContext, 'schema'>, node: Node): string {
  const { normRdn, parent } = node;
  // The RDN in the node was cut; the full normal form comes from the DN.
  if (normRdn.length > MAX_NORM) return context.schema.parseDnBytes(node.dn).norm.toString('latin1');
  const rdnNormText = normRdn.toString('latin1');
  return parent === ROOT ? rdnNormText : `${rdnNormText},${cachedNormText(context, parent!)}`;
}
