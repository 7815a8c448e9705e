import { LdapError } from '../../../ldap/ldap-error.js';
import type { Dn } from '../../../schema/schema-types.js';
import { isPromise } from '../../../store/maybe.js';
import { attributeValues } from '../../model/entry-cells.js';
import type { Node } from '../../model/node.js';
import { MASTER_TABLE } from '../../model/tables.js';
import type { Viewer } from '../../model/viewer.js';
import { deepestEntry, type Located, requireEntry } from '../../tree/locate.js';
import { ROOT, suffixAt } from '../../tree/nodes.js';
import { referralTo, referralUrls, specialClass } from '../../tree/referrals.js';
import { HiddenEntry, isSeen } from '../../tree/sight.js';
import type { Places } from '../../tree/specials.js';
import type { TreeContext } from '../../tree/tree-context.js';
import type { SearchContext } from './search-context.js';
import type { SearchRun } from './search-run.js';

/** Aliases followed one after another before it is called a loop (survives CVE-2025-27497's kind). */
const MAX_ALIASES = 16;

/**
 * Finds `dn` where any name on the way, or the entry itself, may be an alias (RFC 4511 §4.5.1.3 derefFindingBaseObj).
 */
export async function followPath(
  context: SearchContext,
  viewer: Viewer,
  dn: Dn,
  manageDsaIT: boolean,
  followed: number,
): Promise<Located> {
  if (followed > MAX_ALIASES)
    throw new LdapError('loopDetect', `more than ${MAX_ALIASES} aliases lead to '${dn.text.slice(0, 200)}'`);
  const deepest = await deepestEntry(context, context.store, dn, 0);
  const way = deepest ? downTo(deepest.node) : [];
  const top = suffixAt(dn, context.shared.suffixes);
  for (let i = 0; i < way.length; i++) {
    const node = way[i]!;
    const row = node === deepest!.node ? deepest!.row : await context.store.get(MASTER_TABLE.name, node.id);
    const target = row && aliasTarget(context, row);
    if (!target) continue;
    if (!(await isSeen(viewer, node, () => row))) throw new HiddenEntry(node);
    const from = top - i;
    const rest = dn.rdns.slice(0, from).map((rdn) => rdn.text);
    const next = context.schema.parseDn([...rest, target].join(','));
    if (from > 0) return followPath(context, viewer, next, manageDsaIT, followed + 1);
    return orAliasProblem(node, followSeen(context, viewer, next, manageDsaIT, followed + 1));
  }
  return requireEntry(context, context.store, dn, manageDsaIT);
}

/** `followPath`, to an entry that is there for the viewer. */
async function followSeen(
  context: SearchContext,
  viewer: Viewer,
  dn: Dn,
  manageDsaIT: boolean,
  followed: number,
): Promise<Located> {
  const found = await followPath(context, viewer, dn, manageDsaIT, followed);
  if (await isSeen(viewer, found.node, () => found.row)) return found;
  throw new HiddenEntry(found.node);
}

/** From the suffix's entry down to the node. */
function downTo(node: Node): Node[] {
  const way: Node[] = [];
  for (let n: Node | undefined = node; n && n !== ROOT; n = n.parent) way.push(n);
  return way.reverse();
}

/** DN that an alias entry stands for; undefined for any other entry. */
function aliasTarget(context: TreeContext, row: Buffer): string | undefined {
  if (specialClass(context, row) !== 'alias') return undefined;
  const target = attributeValues(context, row, 'aliasedObjectName')[0];
  if (!target) throw new LdapError('aliasProblem', 'an alias names no entry');
  return target.toString();
}

/** An alias that names no entry is a problem of its own (RFC 4511 §4.1.9, aliasProblem). */
async function orAliasProblem(alias: Node, followed: Promise<Located>): Promise<Located> {
  try {
    return await followed;
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new LdapError('aliasProblem', 'the alias names an entry that does not exist', {
      matchedDN: alias.dn.toString(),
      cause: error,
    });
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof LdapError && (error.result === 'noSuchObject' || error.result === 'aliasProblem');
}

/** Areas that aliases may lead to, at most. */
const MAX_AREAS = 10_000;

/**
 * Adds the areas that aliases in the run's areas lead to. An alias whose entry is gone leads nowhere, one that leads
 * into an area that is searched anyway adds none.
 */
export async function followAliases(run: SearchRun, places: Places): Promise<void> {
  const { areas } = run;
  for (let i = 0; i < areas.length; i++) {
    const area = areas.at(i);
    if (area.scope === 'base') continue;
    const scope = area.scope === 'one' ? 'base' : 'sub';
    for (const alias of places.below('alias', area.node, area.scope === 'one')) {
      run.looked++;
      const target = await targetOf(run.context, run.params.viewer, alias);
      if (target && !areas.hold(target, scope)) areas.add({ node: target, scope });
      if (areas.length > MAX_AREAS)
        throw new LdapError('adminLimitExceeded', `the search leads through more than ${MAX_AREAS} aliases`);
      const pause = run.lookUp();
      if (isPromise(pause)) await pause;
    }
  }
}

/** Undefined when the alias or the entry that it names is gone, or not there for the viewer. */
async function targetOf(context: SearchContext, viewer: Viewer, alias: Node): Promise<Node | undefined> {
  const row = await context.store.get(MASTER_TABLE.name, alias.id);
  const text = row && (await isSeen(viewer, alias, () => row)) && aliasTarget(context, row);
  if (!text) return undefined;
  try {
    return (await followSeen(context, viewer, context.schema.parseDn(text), true, 1)).node;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Continuation references for the referral objects in the areas (RFC 3296 §5.4, RFC 4511 §4.5.3). */
export async function giveReferences(run: SearchRun, places: Places): Promise<void> {
  const { areas, context } = run;
  for (let i = 0; i < areas.length; i++) {
    const area = areas.at(i);
    if (area.scope === 'base') continue;
    const scope = area.scope === 'one' ? 'base' : 'sub';
    for (const node of places.below('referral', area.node, area.scope === 'one')) {
      if (areas.coverBefore(i, node.id, node.parent!)) continue;
      const row = await run.reader.get(MASTER_TABLE.name, node.id);
      const isThere = row && (await isSeen(run.params.viewer, node, () => row));
      const urls = isThere
        ? referralUrls(context, row).map((url) => referralTo(url, [], node.dn.toString(), scope))
        : [];
      const done = urls.length > 0 ? run.giveReference(urls) : run.lookUp();
      if (isPromise(done)) await done;
    }
  }
}
