import type { Dn } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { awaited, chain, runWork, type Work } from '../../store/maybe.js';
import { UNRESTRICTED, type Use, type Viewer } from '../model/viewer.js';
import type { SearchContext } from '../read/run/search-context.js';
import { dynamicGroupsOf } from './dynamic-groups.js';
import type { Named } from './names.js';
import { StepCache } from './step-cache.js';
import { groupsState } from './version.js';
import { Walk } from './walk.js';

export interface Member {
  readonly id: Buffer;
  readonly dn: Dn;
}

/**
 * Returns the groups of the entry by name (`Dn.norm` as Latin-1): groups that name the entry, groups whose URLs match
 * the entry, and the groups of these groups. The search goes up level by level, by the indexes of the attributes that
 * name members. A group is skipped, with the groups above, if the viewer may not see the group or the values that make
 * the entry a member. With `own`, nested groups are left out.
 */
export function membershipsOf(
  context: SearchContext,
  member: Member,
  viewer: Viewer = UNRESTRICTED,
  use: Use = 'read',
  own = false,
): Maybe<ReadonlyMap<string, Named>> {
  const walk = new Walk(context, viewer, use);
  return chain(walkGroups(context, walk, member.dn.norm, member, viewer, !own), () => walk.visited);
}

/** Walks up to the groups of the name (`Dn.norm`). `member`: the entry with this name. */
export function walkGroups(
  context: SearchContext,
  walk: Walk,
  name: Buffer,
  member: Member | undefined,
  viewer: Viewer,
  nested: boolean,
): Maybe<void> {
  return runWork(
    (function* (): Work<void> {
      const { version, uids } = yield* awaited(groupsState(context));
      const dynamic = member ? yield* awaited(dynamicGroupsOf(context, version, member, viewer)) : [];
      const known = StepCache.at(context, version);
      const lookup = yield* awaited(known.lookup(uids));
      const named = (id: Buffer) => known.named(id);
      const found = yield* awaited(walk.goUp(dynamic, named));
      let step = nested ? found : [];
      step.push(name.toString('latin1'));
      do step = yield* awaited(walk.goUp(yield* awaited(known.referrers(lookup, step)), named));
      while (nested && step.length > 0);
    })(),
  );
}

export async function groupsOf(context: SearchContext, member: Member): Promise<ReadonlySet<string>> {
  return new Set((await membershipsOf(context, member)).keys());
}
