import type { RowStep } from '../../store/contract.js';
import type { Node } from '../model/node.js';
import { Q, TREE, TREE_TABLE } from '../model/tables.js';
import { nodeTreeKey, ROOT } from '../tree/nodes.js';

/** Returns steps that add to the counters of `parent` and of all its ancestors. Each step guards the entryUUID. */
export function countSteps(parent: Node, oneLevel: bigint, subLevel: bigint): RowStep[] {
  const steps: RowStep[] = [];
  for (let node: Node | undefined = parent; node && node !== ROOT; node = node.parent)
    steps.push(countStep(node, node === parent ? oneLevel : 0n, subLevel));
  return steps;
}

function countStep(node: Node, oneLevel: bigint, subLevel: bigint): RowStep {
  const increments = [{ family: TREE.treeInfo, qualifier: Q.subLevelCount, by: subLevel }];
  if (oneLevel !== 0n) increments.unshift({ family: TREE.treeInfo, qualifier: Q.oneLevelCount, by: oneLevel });
  return {
    table: TREE_TABLE.name,
    key: nodeTreeKey(node),
    guards: [{ op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: node.id }],
    add: increments,
  };
}

/** Returns the counter steps for many new entries, given by parent: one per ancestor, with the sum. */
export function sumSteps(counts: ReadonlyMap<Node, number>): RowStep[] {
  const sums = new Map<string, { readonly node: Node; oneLevelSum: number; sub: number }>();
  for (const [parent, count] of counts) {
    for (let node: Node | undefined = parent; node && node !== ROOT; node = node.parent) {
      const id = node.id.toString('latin1');
      const sum = sums.get(id) ?? { node, oneLevelSum: 0, sub: 0 };
      if (node === parent) sum.oneLevelSum += count;
      sum.sub += count;
      sums.set(id, sum);
    }
  }
  return [...sums.values()].map(({ node, oneLevelSum, sub }) => countStep(node, BigInt(oneLevelSum), BigInt(sub)));
}
