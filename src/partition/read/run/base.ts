import { LdapError } from '../../../ldap/ldap-error.js';
import type { Scope } from '../../../ldap/ldap-types.js';
import type { Maybe } from '../../../store/contract.js';
import { chain } from '../../../store/maybe.js';
import type { Node } from '../../model/node.js';
import { MASTER_TABLE } from '../../model/tables.js';
import { isWhole } from '../../model/wide.js';
import { findEntry, requireEntry } from '../../tree/locate.js';
import { ROOT } from '../../tree/nodes.js';
import { withScope } from '../../tree/referrals.js';
import { HiddenEntry, isVisible } from '../../tree/sight.js';
import type { Places, Specials } from '../../tree/specials.js';
import type { SearchParams } from '../search-params.js';
import { followPath } from './aliases.js';
import type { Area, Base } from './area.js';
import { checkHead } from './entry-check.js';
import { examineEntry } from './entry-fetch.js';
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
