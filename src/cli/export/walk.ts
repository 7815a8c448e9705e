import type { Filter, Scope } from '../../ldap/types.js';
import type { Partition } from '../../partition/index.js';
import { EVERYTHING } from '../../partition/index.js';
import type { Hit } from '../../partition/read/sink.js';
import type { Dn } from '../../schema/types.js';
import { isPromise } from '../../store/maybe.js';

const ANY: Filter = { type: 'present', attribute: 'objectClass' };

/** Gets each entry once. */
export type Visit = (hit: Hit) => Promise<void>;

async function search(partition: Partition, base: Dn, scope: Scope, filter: Filter, visit: Visit): Promise<void> {
  await partition.search({ ...EVERYTHING, base, scope, filter }, { entry: visit, reference: () => undefined });
}

/** Every entry at and below `base`, a parent always before its children: level after level. */
export async function walkAll(partition: Partition, base: Dn, visit: Visit): Promise<void> {
  const parents: Dn[] = [];
  const visitAndDescend = async (hit: Hit): Promise<void> => {
    const has = hit.hasSubordinates();
    if (isPromise(has) ? await has : has) parents.push(partition.schema.parseDnBytes(hit.dn));
    await visit(hit);
  };
  await search(partition, base, 'base', ANY, visitAndDescend);
  for (let parent = parents.pop(); parent; parent = parents.pop()) {
    await search(partition, parent, 'one', ANY, visitAndDescend);
  }
}

/** Number of RDNs in a DN's text (RFC 4514: commas in values are escaped). */
function depthOf(dn: Buffer): number {
  let depth = dn.length === 0 ? 0 : 1;
  for (let i = 0; i < dn.length; i++) {
    if (dn[i] === 0x5c) i++;
    else if (dn[i] === 0x2c) depth++;
  }
  return depth;
}

/**
 * The entries at and below `base` that match, the upper ones first: one search to see how deep they lie, one for each
 * depth.
 */
export async function walkMatching(partition: Partition, base: Dn, filter: Filter, visit: Visit): Promise<void> {
  const depths = new Set<number>();
  await search(partition, base, 'sub', filter, async (hit) => {
    depths.add(depthOf(hit.dn));
  });
  for (const depth of [...depths].sort((a, b) => a - b)) {
    await search(partition, base, 'sub', filter, async (hit) => {
      if (depthOf(hit.dn) === depth) await visit(hit);
    });
  }
}
