import { BoundedMap } from '../../cache/bounded-map.js';
import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { awaitMaybe, chain, isPromise, reduceMaybe, runWork, type Work } from '../../store/maybe.js';
import { EMPTY } from '../../store/row.js';
import { isComputed } from '../model/computed.js';
import { groupTypes, namesEntries } from '../model/group-rows.js';
import { cutNorm, equalityPrefix, type Node, normRdnOf, UUID_BYTES } from '../model/tables.js';
import { MAX_NORM } from '../model/thresholds.js';
import { isHidden, UNRESTRICTED, type Use, type Viewer } from '../model/viewer.js';
import type { Chain } from '../read/filter/compiled-filter.js';
import { IdSet } from '../read/plan/id-set.js';
import { sortIds } from '../read/plan/sources.js';
import type { SearchContext, WalkBounds } from '../read/run/search-context.js';
import { requireTime } from '../read/search-params.js';
import { nodeNormText, ReadNode, ROOT } from '../tree/nodes.js';
import { dynamicGroupsOf, hasDynamicGroups } from './dynamic-groups.js';
import { dnOfNorm, findByNorm, maySee, type NamedEntry, readNamedEntry } from './names.js';
import { findReferrers, type Referrers, referrerLookup } from './referrers.js';
import { StepCache } from './step-cache.js';
import { groupsState, groupsVersion } from './version.js';

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
function walkGroups(
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

type ReadNamedEntry = (id: Buffer) => Maybe<NamedEntry | undefined>;

const ENTRIES_PER_READ = 64;

/**
 * Walk from a name up to the entries that name it, to their referrers, and so on. Each entry is visited once, so cycles
 * end. A hidden entry, or an entry whose referring values the viewer may not use, is skipped with its referrers.
 */
class Walk {
  /** The visited entries by name (`Dn.norm` as Latin-1). */
  readonly visitedEntries = new Map<string, NamedEntry>();
  readonly #context: SearchContext;
  readonly #viewer: Viewer;
  readonly #use: Use;
  readonly #bounds: WalkBounds | undefined;
  readonly #ids = new IdSet();
  readonly #slice = new TimeSlice();

  constructor(context: SearchContext, viewer: Viewer, use: Use, bounds?: WalkBounds) {
    this.#context = context;
    this.#viewer = viewer;
    this.#use = use;
    this.#bounds = bounds;
  }

  /** Goes up one level. Returns the names of the entries that were not visited before. */
  goUp(
    referrers: readonly Referrers[],
    readNamed: ReadNamedEntry = (id) => readNamedEntry(this.#context, id),
  ): Maybe<string[]> {
    return runWork(this.#goUp(referrers, readNamed));
  }

  *#goUp(groups: readonly Referrers[], readNamed: ReadNamedEntry): Work<string[]> {
    const bounds = this.#bounds;
    if (bounds && bounds.stepsLeft-- <= 0) throw limitError();
    const newNames: string[] = [];
    for (const referrers of groups) {
      const { ids } = referrers;
      for (let i = 0; i < ids.length; i += ENTRIES_PER_READ * UUID_BYTES) {
        if (bounds) requireTime(bounds);
        yield* this.#visit(referrers, i, readNamed, newNames);
        const pause = this.#slice.yieldIfOver();
        if (isPromise(pause)) yield pause;
      }
    }
    return newNames;
  }

  *#visit(referrers: Referrers, start: number, readNamed: ReadNamedEntry, newNames: string[]): Work<void> {
    const { ids } = referrers;
    const reads: ReturnType<ReadNamedEntry>[] = [];
    let mustWait = false;
    for (let i = start; i < ids.length && i < start + ENTRIES_PER_READ * UUID_BYTES; i += UUID_BYTES) {
      if (this.#ids.has(ids, i)) continue;
      const named = readNamed(ids.subarray(i, i + UUID_BYTES));
      mustWait ||= isPromise(named);
      reads.push(named);
    }
    const entries = mustWait ? yield* awaitMaybe(Promise.all(reads)) : (reads as (NamedEntry | undefined)[]);
    for (const named of entries) {
      if (!named || this.visitedEntries.has(named.normText)) continue;
      // The entry is not marked as visited: the viewer may be allowed to use another attribute that names it.
      const { sightOf } = this.#viewer;
      if (sightOf && !(yield* awaitMaybe(maySee(this.#context, this.#viewer, this.#use, named.node, referrers.type))))
        continue;
      if (this.#bounds && this.#bounds.entriesLeft-- <= 0) throw limitError();
      this.#ids.add(named.node.id, 0);
      this.visitedEntries.set(named.normText, named);
      newNames.push(named.normText);
    }
  }
}

function limitError(): LdapError {
  return new LdapError(
    'adminLimitExceeded',
    'an in-chain match leads to more entries than it may, or over more of them; ask for one nearer to what is wanted',
  );
}
