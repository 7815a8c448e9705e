import { expect } from 'chai';
import { FairTree } from '../../src/fair/fair-tree.js';

/** A tree of items such as `a1x`: letter and digit are the path. */
function treeOf(items: string): FairTree<string> {
  const tree = new FairTree<string>();
  for (const item of items.split(' ')) tree.push([item[0], item[1]], item);
  return tree;
}

function drain(tree: FairTree<string>, newest = false): string {
  const items: string[] = [];
  while (tree.size > 0) items.push(tree.shift(newest)!);
  return items.join(' ');
}

describe('FairTree', () => {
  it('serves the keys of each level round-robin, and the items of one path in their order', () => {
    expect(drain(treeOf('a1x a1y a1z a2x b1x b1y c1x'))).to.equal('a1x b1x c1x a2x b1y a1y a1z');
    expect(treeOf('a1x').subtree('b')).to.equal(undefined);
    expect(new FairTree<string>().shift()).to.equal(undefined);
  });

  it('serves the newest key first that was never served, when asked for', () => {
    expect(drain(treeOf('a1x a2x b1x c1x c1y'), true)).to.equal('c1x b1x a2x c1y a1x');
  });

  it('names the newest item under the largest keys, and forgets what is removed', () => {
    const tree = treeOf('a1x b1x b2x b2y c1x c1y');
    expect(tree.keyCount).to.equal(3);
    expect(tree.newestOfLargest()).to.equal('b2y');
    expect(tree.remove(['b', '2'], 'b2y')).to.equal(true);
    expect(tree.remove(['b', '2'], 'b2y')).to.equal(false);
    expect(tree.remove(['b', '2'], 'b2x')).to.equal(true);
    expect([tree.size, tree.subtree('b')!.size, tree.newestOfLargest()]).to.deep.equal([4, 1, 'c1y']);
    expect(tree.remove(['b', '1'], 'b1x')).to.equal(true);
    expect(drain(tree)).to.equal('a1x c1x c1y');
  });
});
