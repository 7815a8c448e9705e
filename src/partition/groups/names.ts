import type { Dn } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import type { Node } from '../model/node.js';
import { MASTER_TABLE } from '../model/tables.js';
import type { SearchContext } from '../read/run/search-context.js';
import { findEntry } from '../tree/locate.js';
import { parentIdOffset } from '../tree/master-row.js';
import { nodeNormText } from '../tree/node-name.js';
import { makeNode } from '../tree/nodes.js';

export interface NamedEntry {
  /** `Dn.norm`, as Latin-1. */
  readonly normText: string;
  readonly node: Node;
  /** DN as the client wrote it, UTF-8. */
  readonly dn: Buffer;
}

/** Returns the entry with this entryUUID; undefined if it is gone. */
export function readNamedEntry(context: SearchContext, id: Buffer): Maybe<NamedEntry | undefined> {
  return chain(context.store.getHead(MASTER_TABLE.name, id, true), (row) => {
    if (!row) return undefined;
    return chain(context.nodes.byIdAt(row, parentIdOffset(row)), (parent) => {
      if (!parent) return undefined;
      const node = makeNode(Buffer.from(id), row, parent);
      return { normText: nodeNormText(context, node), node, dn: node.dn };
    });
  });
}

/** Returns a DN from a normalized name, in which `,` separates RDNs. The DN can only be used for a look-up. */
export function dnOfNorm(norm: Buffer): Dn {
  const rdns = norm
    .toString('latin1')
    .split(',')
    .map((rdn) => ({ avas: [], text: '', norm: Buffer.from(rdn, 'latin1') }));
  return { rdns, text: '', norm };
}

export async function findByNorm(context: SearchContext, norm: Buffer): Promise<{ id: Buffer; dn: Dn } | undefined> {
  const entry = findEntry(context, context.store, dnOfNorm(norm), 'getHead');
  const node = (isPromise(entry) ? await entry : entry)?.node;
  return node && { id: Buffer.from(node.id), dn: context.schema.parseDnBytes(node.dn) };
}
