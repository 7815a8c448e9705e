import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import { describedWide } from '../model/entry-cells.js';
import { presentRow } from '../model/present-row.js';
import { MASTER_TABLE, type Node } from '../model/tables.js';
import { UNRESTRICTED, type Use, type Viewer } from '../model/viewer.js';
import { isWhole } from '../model/wide.js';
import { readFilterPart } from '../read/run/entry-check.js';
import type { SearchContext } from '../read/run/search-context.js';
import { findEntry } from '../tree/locate.js';
import { parentIdOffset } from '../tree/master-row.js';
import { makeNode, nodeNormText, ROOT } from '../tree/nodes.js';

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
