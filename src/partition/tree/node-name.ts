import type { Node } from '../model/node.js';
import { MAX_NORM } from '../model/thresholds.js';
import { ROOT } from './nodes.js';
import type { TreeContext } from './tree-context.js';

const names = new WeakMap<Node, string>();

/** Returns `Dn.norm` of a node as Latin-1, from a cache by node. */
function nameOf(context: Pick<TreeContext, 'schema'>, node: Node): string {
  const known = names.get(node);
  if (known !== undefined) return known;
  const made = makeName(context, node);
  names.set(node, made);
  return made;
}

/** Computes `Dn.norm` of a node as Latin-1, without caching the name of the node itself. */
export function makeName(context: Pick<TreeContext, 'schema'>, node: Node): string {
  const { normRdn, parent } = node;
  // The form was cut, so the full form is parsed from the DN.
  if (normRdn.length > MAX_NORM) return context.schema.parseDnBytes(node.dn).norm.toString('latin1');
  const own = normRdn.toString('latin1');
  return parent === ROOT ? own : `${own},${nameOf(context, parent!)}`;
}
