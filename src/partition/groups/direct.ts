import type { Maybe } from '../../store/contract.js';
import { chain, fold } from '../../store/maybe.js';
import { groupTypes } from '../model/group-rows.js';
import type { Node } from '../model/node.js';
import { cutNorm, normQualifier, normRdnOf, oidBytes, TREE_TABLE, treeKey } from '../model/tables.js';
import { MAX_NORM } from '../model/thresholds.js';
import { normRanges } from '../model/wide-read.js';
import type { SearchContext } from '../read/run/search-context.js';
import { ReadNode, ROOT } from '../tree/nodes.js';
import { dnOfName, makeName } from './names.js';

/** With more groups it is asked for all that an entry is in. */
const FEW = 4;

/** Names of those of the groups that have the entry among their own values: one row of each is asked for the value. */
export function directGroups(
  context: SearchContext,
  entry: { readonly id: Buffer; readonly parent: Node; readonly row: Buffer },
  groups: readonly Buffer[],
): Maybe<ReadonlySet<string>> {
  const found = new Set<string>();
  const normRdn = normRdnOf(entry.row);
  if (groups.length > FEW || normRdn.length > MAX_NORM) return found;
  const name = makeName(context, new ReadNode(entry.id, entry.row, entry.parent, normRdn));
  const values = context.shared.names.storedForms(name).map((form) => cutNorm(Buffer.from(form, 'latin1')));
  const { members } = groupTypes(context.schema);
  const qualifiers = members.flatMap(({ oid }) => values.map((value) => normQualifier(oidBytes(oid), value)));
  return fold(groups, found, (all, group) =>
    chain(hasOne(context, group, qualifiers), (has) => (has ? all.add(group.toString('latin1')) : all)),
  );
}

function hasOne({ store, nodes, shared }: SearchContext, group: Buffer, qualifiers: readonly Buffer[]): Maybe<boolean> {
  const dn = dnOfName(group);
  return chain(nodes.byDn(dn, 1, shared.suffixes), (parent) => {
    if (!parent || parent === ROOT) return false;
    const key = treeKey(parent.id, cutNorm(dn.rdns[0]!.norm));
    return chain(store.getColumns(TREE_TABLE.name, key, normRanges(qualifiers)), (cells) => cells !== undefined);
  });
}
