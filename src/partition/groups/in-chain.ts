import type { Maybe } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { EMPTY } from '../../store/row.js';
import { isComputed } from '../model/computed.js';
import { groupTypes, namesEntries } from '../model/group-rows.js';
import { isHidden, type Viewer } from '../model/viewer.js';
import type { Chain } from '../read/filter/compiled-filter.js';
import { sortIds } from '../read/plan/sources.js';
import type { WalkBounds } from '../read/run/chains.js';
import type { SearchContext } from '../read/run/search-context.js';
import { requireTime } from '../read/search-params.js';
import { dynamicGroupsOf, hasDynamicGroups } from './dynamic-groups.js';
import { walkGroups } from './memberships.js';
import { findByNorm } from './names.js';
import { findReferrers, type Referrers, referrerLookup } from './referrers.js';
import { groupsVersion } from './version.js';
import { Walk } from './walk.js';

/** Returns the sorted ids of the entries in a chain (`Chain`). Follows only values that the viewer may search by. */
export function inChain(context: SearchContext, links: Chain, viewer: Viewer, bounds: WalkBounds): Maybe<Buffer> {
  if (links.kind === 'chain') return chainByValues(context, links, viewer, bounds);
  const hasGroups = hasDynamicGroups(context);
  const find = (there: boolean) => (there ? chainByUrls(context, links, viewer, bounds) : EMPTY);
  return isPromise(hasGroups) ? hasGroups.then(find) : find(hasGroups);
}

/**
 * Returns the entries that lead to a name by values of an attribute, directly or over other entries. For an attribute
 * that names members, these are the groups of the entry by any kind of membership, as in memberOf.
 */
async function chainByValues(
  context: SearchContext,
  { type, endDns }: Chain,
  viewer: Viewer,
  bounds: WalkBounds,
): Promise<Buffer> {
  const walk = new Walk(context, viewer, 'search', bounds);
  if (groupTypes(context.schema).memberTypes.includes(type)) {
    for (const end of endDns) await walkGroups(context, walk, end, await findByNorm(context, end), viewer, true);
    return visitedIds(walk);
  }
  const types = type.subtypes.filter((one) => !isHidden(one) && !isComputed(one) && namesEntries(one));
  const lookup = await referrerLookup(context, types, true);
  for (let normTexts = endDns.map((end) => end.toString('latin1')); normTexts.length > 0; )
    normTexts = await walk.goUp(await findReferrers(context, lookup, normTexts, bounds));
  return visitedIds(walk);
}

/** Returns the dynamic groups that have one of the named entries as a member. */
async function chainByUrls(
  context: SearchContext,
  { endDns }: Chain,
  viewer: Viewer,
  bounds: WalkBounds,
): Promise<Buffer> {
  const walk = new Walk(context, viewer, 'search', bounds);
  const version = await groupsVersion(context);
  const groups: Referrers[] = [];
  for (const end of endDns) {
    requireTime(bounds);
    const member = await findByNorm(context, end);
    if (member) groups.push(...(await dynamicGroupsOf(context, version, member, viewer)));
  }
  await walk.goUp(groups);
  return visitedIds(walk);
}

function visitedIds({ visitedEntries: visited }: Walk): Buffer {
  return sortIds(Buffer.concat(Array.from(visited.values(), ({ node }) => node.id)));
}
