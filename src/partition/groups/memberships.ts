import type { Dn } from '../../schema/schema-types.js';
import { groupTypes } from '../model/group-rows.js';
import { UNRESTRICTED, type Use, type Viewer } from '../model/viewer.js';
import type { SearchContext } from '../read/run/search-context.js';
import { dynamicGroupsOf } from './dynamic-groups.js';
import { idsNaming, namersIn } from './namers.js';
import type { Named } from './names.js';
import { groupsState } from './version.js';
import { Walk } from './walk.js';

/** Whether groups in groups count. */
const NESTED = true;

/** An entry whose groups are asked for. */
export interface Member {
  readonly id: Buffer;
  readonly dn: Dn;
}

/**
 * The groups that the entry is in, by their names (`Dn.norm` as Latin-1): those that name it, those whose URLs find it,
 * and those that name one of these, and so on. They are found from the entry upwards, all of one step together, by the
 * indexes of the attributes that name members. A group that the viewer may not see, or of which it may not use what
 * makes the entry a member, is not there, nor what it is in.
 */
export async function membershipsOf(
  context: SearchContext,
  member: Member,
  viewer: Viewer = UNRESTRICTED,
  use: Use = 'read',
): Promise<ReadonlyMap<string, Named>> {
  const walk = new Walk(context, viewer, use);
  await walkGroups(context, walk, member.dn.norm, member, viewer, NESTED);
  return walk.met;
}

/** Up to the groups of the name (`Dn.norm`); `member`: the entry that has it. */
export async function walkGroups(
  context: SearchContext,
  walk: Walk,
  name: Buffer,
  member: Member | undefined,
  viewer: Viewer,
  nested: boolean,
): Promise<void> {
  const { version, uids } = await groupsState(context);
  const namers = await namersIn(context, groupTypes(context.schema).members, uids);
  let step = member ? await walk.take(await dynamicGroupsOf(context, version, member, viewer)) : [];
  step.push(name.toString('latin1'));
  do step = await walk.take(await idsNaming(context, namers, step));
  while (nested && step.length > 0);
}

/** The names alone. */
export async function groupsOf(context: SearchContext, member: Member): Promise<ReadonlySet<string>> {
  return new Set((await membershipsOf(context, member)).keys());
}
