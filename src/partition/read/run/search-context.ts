import type { Store } from '../../../store/contract.js';
import type { Context } from '../../tree/locate.js';
import type { Places } from '../../tree/specials.js';
import type { CompiledFilter, Needs } from '../filter/compiled-filter.js';
import type { FilterCompiler } from '../filter/filter-compiler.js';
import type { IndexPlan } from '../plan/index-plan.js';
import type { Base } from './area.js';

/** What searches share. */
export interface SearchContext extends Context {
  readonly store: Store;
  readonly compiler: FilterCompiler;
}

/** What a search begins with. */
export interface Prepared {
  /** Where aliases and referrals are; undefined where there are none. */
  readonly places: Places | undefined;
  readonly filter: CompiledFilter;
  readonly needs: Needs;
  readonly base: Base;
  /** The index plan, where it was asked for together with the rest. */
  readonly plan: Promise<IndexPlan | undefined> | undefined;
}
