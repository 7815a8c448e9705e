import { LdapError } from '../../../ldap/ldap-error.js';
import type { Scope } from '../../../ldap/ldap-types.js';
import type { Maybe } from '../../../store/contract.js';
import { chain, isPromise } from '../../../store/maybe.js';
import type { Node } from '../../model/node.js';
import { MASTER_TABLE } from '../../model/tables.js';
import { isWhole } from '../../model/wide.js';
import { findEntry, requireEntry } from '../../tree/locate.js';
import { ROOT } from '../../tree/nodes.js';
import { withScope } from '../../tree/referrals.js';
import { HiddenEntry, isSeen } from '../../tree/sight.js';
import type { Places, Specials } from '../../tree/specials.js';
import type { SearchParams } from '../search-params.js';
import { followPath } from './aliases.js';
import type { Area, Base } from './area.js';
import type { SearchContext } from './search-context.js';
import type { SearchRun } from './search-run.js';

/** The base entry is not there any more. */
export class BaseGone extends LdapError {
  constructor() {
    super('noSuchObject', 'the entry at the base was deleted while it was searched');
  }
}

/** The base of a search: its node, aliases followed if asked for; throws `noSuchObject`, `referral`, `aliasProblem`. */
export function resolveBase(
  context: SearchContext,
  params: SearchParams,
  specials: Specials,
  places: Places | undefined,
): Maybe<Base> {
  if (params.base.rdns.length === 0) return { node: ROOT };
  const found = findBase(context, params);
  if (isPromise(found))
    return found.then(
      (base) => seenBase(context, params, plainBase(base, places)) ?? resolveSlowly(context, params, specials),
    );
  return seenBase(context, params, plainBase(found, places)) ?? resolveSlowly(context, params, specials);
}

/** Throws where the base is not there for who asks. */
function seenBase(context: SearchContext, { viewer }: SearchParams, base: Base): Maybe<Base>;
function seenBase(context: SearchContext, params: SearchParams, base: Base | undefined): Maybe<Base> | undefined;
function seenBase(
  context: SearchContext,
  { viewer, ofUrl }: SearchParams,
  base: Base | undefined,
): Maybe<Base> | undefined {
  if (!base || !viewer.sightOf || ofUrl) return base;
  // Of a split row `row` is the head alone.
  const row = () => (base.row && isWhole(base.row) ? base.row : context.store.get(MASTER_TABLE.name, base.node.id));
  return chain(isSeen(viewer, base.node, row), (seen) => {
    if (!seen) throw new HiddenEntry(base.node);
    return base;
  });
}

function findBase(context: SearchContext, { base, scope }: SearchParams): Maybe<Base | undefined> {
  if (scope === 'base') return findEntry(context, context.store, base, 'getHead');
  return chain(context.nodes.byDn(base, 0, context.shared.suffixes), (node) => node && { node });
}

/** The base where it is an entry that is no alias and no referral. */
function plainBase(base: Base | undefined, places: Places | undefined): Base | undefined {
  return base && base.node !== ROOT && !places?.has(base.node.id) ? base : undefined;
}

async function resolveSlowly(context: SearchContext, params: SearchParams, specials: Specials): Promise<Base> {
  const finding = params.deref === 'finding' || params.deref === 'always';
  try {
    const found =
      finding && specials.aliases
        ? await followPath(context, params.viewer, params.base, params.manageDsaIT, 0)
        : await requireEntry(context, context.store, params.base, params.manageDsaIT);
    return await seenBase(context, params, found);
  } catch (error) {
    throw scopedReferral(error, params.scope);
  }
}

/**
 * A referral of a search tells the scope, too (RFC 4511 §4.1.10). RFC 4516 has no word for `subordinate`: without one
 * the client goes on with the scope that it asked for.
 */
function scopedReferral(error: unknown, scope: Scope): unknown {
  if (!(error instanceof LdapError) || error.result !== 'referral' || scope === 'subordinate') return error;
  const { message, matchedDN } = error;
  const referrals = error.referrals.map((url) => withScope(url, scope));
  return new LdapError('referral', message, { referrals, matchedDN, cause: error });
}

/** The scope `base`: looks at the one entry. Its row is not read again where finding the base brought it along. */
export function searchBase(run: SearchRun, { node, row }: Area): Maybe<void> {
  if (!row) return run.fetch(node.id);
  run.looked++;
  return run.considerHead(node.id, row, 'b', node.id);
}

/** Where nothing was found: throws `BaseGone` unless the base itself is still there. A cached node does not tell. */
export function requireBase(run: SearchRun, node: Node): Maybe<void> {
  if (node === ROOT) return;
  return chain(run.context.store.getHead(MASTER_TABLE.name, node.id, true), (row) => {
    if (!row) throw new BaseGone();
  });
}
