import type { Dn } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { awaitMaybe, chain, runWork, type Work } from '../../store/maybe.js';
import { UNRESTRICTED, type Use, type Viewer } from '../model/viewer.js';
import type { SearchContext } from '../read/run/search-context.js';
import { dynamicGroupsOf } from './dynamic-groups.js';
import type { NamedEntry } from './names.js';
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
 * the entry a member. With `directOnly`, nested groups are left out.
 */
export function membershipsOf(
  context: SearchContext,
  member: Member,
  viewer: Viewer = UNRESTRICTED,
  use: Use = 'read',
  directOnly = false,
): Maybe<ReadonlyMap<string, NamedEntry>> {
  const walk = new Walk(context, viewer, use);
  return chain(walkGroups(context, walk, member.dn.norm, member, viewer, !directOnly), () => walk.visitedEntries);
}

/** Walks up to the groups of the entry with this name (`Dn.norm`). `member`: that entry. */
export function walkGroups(
  context: SearchContext,
  walk: Walk,
  norm: Buffer,
  member: Member | undefined,
  viewer: Viewer,
  isNested: boolean,
): Maybe<void> {
  return runWork(
    (function* (): Work<void> {
      const { version, mayHaveUids: uids } = yield* awaitMaybe(groupsState(context));
      const dynamic = member ? yield* awaitMaybe(dynamicGroupsOf(context, version, member, viewer)) : [];
      const cache = StepCache.forVersion(context, version);
      const lookup = yield* awaitMaybe(cache.lookup(uids));
      const readNamed = (id: Buffer) => cache.namedEntry(id);
      const dynamicNames = yield* awaitMaybe(walk.goUp(dynamic, readNamed));
      let names = isNested ? dynamicNames : [];
      names.push(norm.toString('latin1'));
      do names = yield* awaitMaybe(walk.goUp(yield* awaitMaybe(cache.referrers(lookup, names)), readNamed));
      while (isNested && names.length > 0);
    })(),
  );
}

export async function groupsOf(context: SearchContext, member: Member): Promise<ReadonlySet<string>> {
  return new Set((await membershipsOf(context, member)).keys());
}
