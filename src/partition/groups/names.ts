import type { Dn } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import type { Node } from '../model/node.js';
import { MASTER_TABLE } from '../model/tables.js';
import type { SearchContext } from '../read/run/search-context.js';
import { findEntry } from '../tree/locate.js';
import { parentIdOffset } from '../tree/master-row.js';
import { makeName } from '../tree/node-name.js';
import { makeNode } from '../tree/nodes.js';

export interface Named {
  /** `Dn.norm`, as Latin-1. */
  readonly name: string;
  readonly node: Node;
  /** DN as the client wrote it, UTF-8. */
  readonly dn: Buffer;
}

/** Returns the entry with this entryUUID; undefined if it is gone. */
export function namedOfId(context: SearchContext, id: Buffer): Maybe<Named | undefined> {
  return chain(context.store.getHead(MASTER_TABLE.name, id, true), (row) => {
    if (!row) return undefined;
    return chain(context.nodes.byIdAt(row, parentIdOffset(row)), (parent) => {
      if (!parent) return undefined;
      const node = makeNode(Buffer.from(id), row, parent);
      return { name: makeName(context, node), node, dn: node.dn };
    });
  });
}

/** Returns a DN that is only good for a look-up. In a normalized name `,` occurs only between RDNs. */
export function dnOfName(norm: Buffer): Dn {
  const rdns = norm
    .toString('latin1')
    .split(',')
    .map((rdn) => ({ avas: [], text: '', norm: Buffer.from(rdn, 'latin1') }));
  return { rdns, text: '', norm };
}

export async function entryNamed(context: SearchContext, name: Buffer): Promise<{ id: Buffer; dn: Dn } | undefined> {
  const found = findEntry(context, context.store, dnOfName(name), 'getHead');
  const node = (isPromise(found) ? await found : found)?.node;
  return node && { id: Buffer.from(node.id), dn: context.schema.parseDnBytes(node.dn) };
}
