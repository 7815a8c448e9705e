import { LdapError } from '../../../ldap/ldap-error.js';
import type { Scope } from '../../../ldap/ldap-types.js';
import type { Dn } from '../../../schema/schema-types.js';
import type { Maybe } from '../../../store/contract.js';
import { chain, isPromise } from '../../../store/maybe.js';
import { attributeValues } from '../../model/entry-cells.js';
import { MASTER_TABLE, type Node } from '../../model/tables.js';
import type { Viewer } from '../../model/viewer.js';
import { isWhole } from '../../model/wide.js';
import { deepestEntry, findEntry, HiddenEntry, isVisible, type LocatedEntry, requireEntry } from '../../tree/locate.js';
import { ROOT, suffixRdnIndex } from '../../tree/nodes.js';
import { type Places, referralTo, referralUrls, type Specials, specialClass, withScope } from '../../tree/specials.js';
import type { TreeContext } from '../../tree/tree-context.js';
import type { SearchParams } from '../search-params.js';
import type { Area, Base } from './area.js';
import { checkHead } from './entry-check.js';
import { examineEntry } from './index-search.js';
import type { SearchContext } from './search-context.js';
import type { SearchRun } from './search-run.js';

/** Thrown when the base entry has been deleted during the search. */
export class BaseDeletedError extends LdapError {
  constructor() {
    super('noSuchObject', 'the entry at the base was deleted while it was searched');
  }
}

/**
 * Returns the base entry of a search, through aliases if the parameters ask for that. Throws `noSuchObject`,
 * `referral`, `aliasProblem`, `loopDetect`.
 */
export function resolveBase(
  context: SearchContext,
  params: SearchParams,
  specials: Specials,
  places: Places | undefined,
): Maybe<Base> {
  if (params.base.rdns.length === 0) return { node: ROOT };
  return chain(findBase(context, params), (base) =>
    base && base.node !== ROOT && !places?.has(base.node.id)
      ? requireVisible(context, params, base)
      : resolveThroughAliases(context, params, specials),
  );
}

/** Returns the base. Throws `HiddenEntry` if the viewer may not see it. */
function requireVisible(context: SearchContext, { viewer, ofUrl }: SearchParams, base: Base): Maybe<Base> {
  if (!viewer.sightOf || ofUrl) return base;
  // `base.row` may be only the head of a split row.
  const getRow = () => (base.row && isWhole(base.row) ? base.row : context.store.get(MASTER_TABLE.name, base.node.id));
  return chain(isVisible(viewer, base.node, getRow), (isSeen) => {
    if (!isSeen) throw new HiddenEntry(base.node);
    return base;
  });
}

/** Finds the base without following aliases; undefined if an entry on the path does not exist. */
function findBase(context: SearchContext, { base, scope }: SearchParams): Maybe<Base | undefined> {
  if (scope === 'base') return findEntry(context, context.store, base, 'getHead');
  return chain(context.nodes.byDn(base, 0, context.shared.suffixes), (node) => node && { node });
}

/** Finds a base that does not exist, or that aliases or referrals may lead to. */
async function resolveThroughAliases(context: SearchContext, params: SearchParams, specials: Specials): Promise<Base> {
  const followsAliases = specials.hasAliases && (params.deref === 'finding' || params.deref === 'always');
  try {
    const base = followsAliases
      ? await followPath(context, params.viewer, params.base, params.manageDsaIT, 0)
      : await requireEntry(context, context.store, params.base, params.manageDsaIT);
    return await requireVisible(context, params, base);
  } catch (error) {
    throw addScope(error, params.scope);
  }
}

/**
 * Adds the scope to the URLs of a referral error (RFC 4511 §4.1.10). Returns other errors unchanged. RFC 4516 has no
 * name for the scope `subordinate`; without a scope in the URL the client keeps its own scope.
 */
function addScope(error: unknown, scope: Scope): unknown {
  if (!(error instanceof LdapError) || error.result !== 'referral' || scope === 'subordinate') return error;
  const { message, matchedDN } = error;
  const referrals = error.referrals.map((url) => withScope(url, scope));
  return new LdapError('referral', message, { referrals, matchedDN, cause: error });
}

/** Searches the scope `base`. Reads the row unless it was read to find the base. */
export function searchBase(search: SearchRun, { node, row }: Area): Maybe<void> {
  if (!row) return examineEntry(search, node.id);
  search.rowsExamined++;
  return checkHead(search, node.id, row, 'b', node.id);
}

/** Throws `BaseDeletedError` if the base no longer exists. Reads the store, since cached nodes may be outdated. */
export function requireBase(search: SearchRun, node: Node): Maybe<void> {
  if (node === ROOT) return;
  return chain(search.context.store.getHead(MASTER_TABLE.name, node.id, true), (row) => {
    if (!row) throw new BaseDeletedError();
  });
}

/** The most aliases that are followed in a row; then the search fails with `loopDetect` (compare CVE-2025-27497). */
const MAX_ALIASES = 16;

/**
 * Finds the entry at `dn`. The entry and its ancestors may be aliases (RFC 4511 §4.5.1.3, derefFindingBaseObj).
 * `followed`: number of aliases followed so far.
 */
async function followPath(
  context: SearchContext,
  viewer: Viewer,
  dn: Dn,
  manageDsaIT: boolean,
  followed: number,
): Promise<LocatedEntry> {
  if (followed > MAX_ALIASES)
    throw new LdapError('loopDetect', `more than ${MAX_ALIASES} aliases lead to '${dn.text.slice(0, 200)}'`);
  const deepestFound = await deepestEntry(context, context.store, dn, 0);
  const path = deepestFound ? pathTo(deepestFound.node) : [];
  const suffixIndex = suffixRdnIndex(dn, context.shared.suffixes);
  for (let i = 0; i < path.length; i++) {
    const node = path[i]!;
    const row = node === deepestFound!.node ? deepestFound!.row : await context.store.get(MASTER_TABLE.name, node.id);
    const target = row && aliasTarget(context, row);
    if (!target) continue;
    if (!(await isVisible(viewer, node, () => row))) throw new HiddenEntry(node);
    const lowerRdnCount = suffixIndex - i;
    const lowerRdns = dn.rdns.slice(0, lowerRdnCount).map((rdn) => rdn.text);
    const nextDn = context.schema.parseDn([...lowerRdns, target].join(','));
    if (lowerRdnCount > 0) return followPath(context, viewer, nextDn, manageDsaIT, followed + 1);
    return asAliasProblem(node, followVisible(context, viewer, nextDn, manageDsaIT, followed + 1));
  }
  return requireEntry(context, context.store, dn, manageDsaIT);
}

/** Like `followPath`. Throws `HiddenEntry` if the viewer may not see the entry. */
async function followVisible(
  context: SearchContext,
  viewer: Viewer,
  dn: Dn,
  manageDsaIT: boolean,
  followed: number,
): Promise<LocatedEntry> {
  const entry = await followPath(context, viewer, dn, manageDsaIT, followed);
  if (await isVisible(viewer, entry.node, () => entry.row)) return entry;
  throw new HiddenEntry(entry.node);
}

/** Returns the nodes from the suffix entry down to `node`. */
function pathTo(node: Node): Node[] {
  const path: Node[] = [];
  for (let n: Node | undefined = node; n && n !== ROOT; n = n.parent) path.push(n);
  return path.reverse();
}

/** Returns the DN that an alias entry names; undefined for any other entry. */
function aliasTarget(context: TreeContext, row: Buffer): string | undefined {
  if (specialClass(context, row) !== 'alias') return undefined;
  const target = attributeValues(context, row, 'aliasedObjectName')[0];
  if (!target) throw new LdapError('aliasProblem', 'an alias names no entry');
  return target.toString();
}

/** Turns the error for a missing entry into `aliasProblem` of the alias that names the entry (RFC 4511 §4.1.9). */
async function asAliasProblem(alias: Node, followed: Promise<LocatedEntry>): Promise<LocatedEntry> {
  try {
    return await followed;
  } catch (error) {
    if (!isMissingEntry(error)) throw error;
    throw new LdapError('aliasProblem', 'the alias names an entry that does not exist', {
      matchedDN: alias.dn.toString(),
      cause: error,
    });
  }
}

function isMissingEntry(error: unknown): boolean {
  return error instanceof LdapError && (error.result === 'noSuchObject' || error.result === 'aliasProblem');
}

const MAX_AREAS = 10_000;

/**
 * Adds areas for the aliases in the search's areas. Ignores an alias that names a missing entry, or an entry in an area
 * that is already searched.
 */
export async function followAliases(search: SearchRun, places: Places): Promise<void> {
  const { areas } = search;
  for (let i = 0; i < areas.length; i++) {
    const area = areas.areaAt(i);
    if (area.scope === 'base') continue;
    const scope = area.scope === 'one' ? 'base' : 'sub';
    for (const alias of places.nodesBelow('alias', area.node, area.scope === 'one')) {
      search.rowsExamined++;
      const target = await findTarget(search.context, search.params.viewer, alias);
      if (target && !areas.includes(target, scope)) areas.add({ node: target, scope });
      if (areas.length > MAX_AREAS)
        throw new LdapError('adminLimitExceeded', `the search leads through more than ${MAX_AREAS} aliases`);
      const pause = search.yieldIfDue();
      if (isPromise(pause)) await pause;
    }
  }
}

/** Returns the entry that an alias names; undefined if the alias or the entry is missing or hidden from the viewer. */
async function findTarget(context: SearchContext, viewer: Viewer, alias: Node): Promise<Node | undefined> {
  const row = await context.store.get(MASTER_TABLE.name, alias.id);
  const targetText = row && (await isVisible(viewer, alias, () => row)) && aliasTarget(context, row);
  if (!targetText) return undefined;
  try {
    return (await followVisible(context, viewer, context.schema.parseDn(targetText), true, 1)).node;
  } catch (error) {
    if (isMissingEntry(error)) return undefined;
    throw error;
  }
}

/** Sends continuation references for the referral objects in the areas (RFC 3296 §5.4, RFC 4511 §4.5.3). */
export async function sendReferences(search: SearchRun, places: Places): Promise<void> {
  const { areas, context } = search;
  for (let i = 0; i < areas.length; i++) {
    const area = areas.areaAt(i);
    if (area.scope === 'base') continue;
    const scope = area.scope === 'one' ? 'base' : 'sub';
    for (const node of places.nodesBelow('referral', area.node, area.scope === 'one')) {
      if (areas.hasEarlier(i, node.id, node.parent!)) continue;
      const row = await search.reader.get(MASTER_TABLE.name, node.id);
      const isVisibleReferral = row && (await isVisible(search.params.viewer, node, () => row));
      const urls = isVisibleReferral
        ? referralUrls(context, row).map((url) => referralTo(url, [], node.dn.toString(), scope))
        : [];
      const pause = search.afterCandidate(urls.length > 0 ? search.output.passReference(urls) : undefined, 0);
      if (isPromise(pause)) await pause;
    }
  }
}
