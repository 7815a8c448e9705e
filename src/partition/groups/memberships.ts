import type { Dn } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { awaited, chain, done, type Work } from '../../store/maybe.js';
import { UNRESTRICTED, type Use, type Viewer } from '../model/viewer.js';
import type { SearchContext } from '../read/run/search-context.js';
import { dynamicGroupsOf } from './dynamic-groups.js';
import { KnownSteps } from './known-steps.js';
import type { Named } from './names.js';
import { groupsState } from './version.js';
import { Walk } from './walk.js';

/** An entry whose groups are asked for. */
export interface Member {
  readonly id: Buffer;
  readonly dn: Dn;
}

/**
 * The groups that the entry is in, by their names (`Dn.norm` as Latin-1): those that name it, those whose URLs find it,
 * and those that name one of these, and so on. They are found from the entry upwards, all of one step together, by the
 * indexes of the attributes that name members. A group that the viewer may not see, or of which it may not use what
 * makes the entry a member, is not there, nor what it is in. `own`: those that name one of these are left out.
 */
export function membershipsOf(
  context: SearchContext,
  member: Member,
  viewer: Viewer = UNRESTRICTED,
  use: Use = 'read',
  own = false,
): Maybe<ReadonlyMap<string, Named>> {
  const walk = new Walk(context, viewer, use);
  return chain(walkGroups(context, walk, member.dn.norm, member, viewer, !own), () => walk.met);
}

/** Up to the groups of the name (`Dn.norm`); `member`: the entry that has it. */
export function walkGroups(
  context: SearchContext,
  walk: Walk,
  name: Buffer,
  member: Member | undefined,
  viewer: Viewer,
  nested: boolean,
): Maybe<void> {
  return done(
    (function* (): Work<void> {
      const { version, uids } = yield* awaited(groupsState(context));
      const dynamic = member ? yield* awaited(dynamicGroupsOf(context, version, member, viewer)) : [];
      const known = KnownSteps.at(context, version);
      const namers = yield* awaited(known.namers(uids));
      const named = (id: Buffer) => known.named(id);
      const found = yield* awaited(walk.take(dynamic, named));
      let step = nested ? found : [];
      step.push(name.toString('latin1'));
      do step = yield* awaited(walk.take(yield* awaited(known.naming(namers, step)), named));
      while (nested && step.length > 0);
    })(),
  );
}

/** The names alone. */
export async function groupsOf(context: SearchContext, member: Member): Promise<ReadonlySet<string>> {
  return new Set((await membershipsOf(context, member)).keys());
}
