import { BoundedMap } from '../../cache/bounded-map.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { chain, reduceMaybe } from '../../store/maybe.js';
import type { Node } from '../model/node.js';
import { cutNorm, equalityPrefix, normRdnOf } from '../model/tables.js';
import { MAX_NORM } from '../model/thresholds.js';
import type { Viewer } from '../model/viewer.js';
import type { SearchContext } from '../read/run/search-context.js';
import { nodeNormText } from '../tree/node-name.js';
import { ReadNode, ROOT } from '../tree/nodes.js';
import { maySee } from './group-sight.js';
import { dnOfNorm } from './names.js';
import { StepCache } from './step-cache.js';

/** The most groups whose membership is looked up one by one. For more, the caller computes all groups of the entry. */
const MAX_DIRECT = 4;

/** Returns those of `groups` that name the entry, if the viewer may search by that. Reads one index row per group. */
export function directGroups(
  context: SearchContext,
  entry: { readonly id: Buffer; readonly parent: Node; readonly row: Buffer },
  groups: readonly string[],
  viewer: Viewer,
): Maybe<ReadonlySet<string>> {
  const groupsFound = new Set<string>();
  const normRdn = normRdnOf(entry.row);
  if (groups.length > MAX_DIRECT || normRdn.length > MAX_NORM) return groupsFound;
  const normText = nodeNormText(context, new ReadNode(entry.id, entry.row, entry.parent, normRdn));
  const normTexts = context.shared.nameChanges.storedNormTexts(normText);
  const prefixes = normTexts.map((form) => equalityPrefix(cutNorm(Buffer.from(form, 'latin1'))));
  return reduceMaybe(groups, groupsFound, (all, group) =>
    chain(groupNamesEntry(context, group, prefixes, viewer), (has) => (has ? all.add(group) : all)),
  );
}

const dnsByGroup = new BoundedMap<string, Dn>(256);

function cachedDn(group: string): Dn {
  const cached = dnsByGroup.get(group);
  if (cached) return cached;
  const dn = dnOfNorm(Buffer.from(group, 'latin1'));
  dnsByGroup.set(group, dn);
  return dn;
}

/** Whether the group names the entry. The node may be outdated: a deleted group has no index rows. */
function groupNamesEntry(
  context: SearchContext,
  group: string,
  prefixes: readonly Buffer[],
  viewer: Viewer,
): Maybe<boolean> {
  const { store, nodes, shared } = context;
  return chain(nodes.byDn(cachedDn(group), 0, shared.suffixes), (node) => {
    if (!node || node === ROOT) return false;
    const keys = prefixes.map((prefix) => Buffer.concat([prefix, node.id]));
    const isNamedBy = (type: AttributeType): Maybe<boolean> => {
      const index = shared.indexes.ofType(type);
      if (!index?.isReady) return false;
      const hasMark = reduceMaybe(
        keys,
        false,
        (has, key) => has || chain(store.get(index.table, key), (mark) => !!mark),
      );
      return chain(hasMark, (has) => {
        if (!has) return false;
        return viewer.sightOf ? maySee(context, viewer, 'search', node, type) : true;
      });
    };
    return reduceMaybe(StepCache.lastMemberTypes(context), false, (has, type) => has || isNamedBy(type));
  });
}
