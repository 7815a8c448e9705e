import type { Dn } from '../../../schema/schema-types.js';
import type { Maybe, Store } from '../../../store/contract.js';
import type { Node } from '../../model/node.js';
import type { Use, Viewer } from '../../model/viewer.js';
import type { Places } from '../../tree/specials.js';
import type { TreeContext } from '../../tree/tree-context.js';
import type { CompiledFilter, FilterInputs } from '../filter/compiled-filter.js';
import type { FilterCompiler } from '../filter/filter-compiler.js';
import type { IndexPlan, PlanContext } from '../plan/index-plan.js';
import type { AbortConditions } from '../search-params.js';
import type { MembersRow } from '../sink.js';
import type { Base } from './area.js';
import type { Chains, FindChainIds } from './chains.js';

/** The services that all searches of a partition use. */
export interface SearchContext extends TreeContext {
  readonly store: Store;
  readonly compiler: FilterCompiler;
  readonly membershipsOf: MembershipsOf;
  /**
   * Returns those of the named groups (`Dn.norm`, Latin-1) that have the entry among their values, if the viewer may
   * search by these values.
   */
  readonly directGroups: (
    entry: { readonly id: Buffer; readonly parent: Node; readonly row: Buffer },
    groups: readonly string[],
    viewer: Viewer,
  ) => Maybe<ReadonlySet<string>>;
  readonly membersOf: PlanContext['membersOf'];
  readonly findChainIds: FindChainIds;
  /** Whether a URL in the row of a dynamic group selects the entry with this name (`Dn.norm`). */
  readonly isDynamicMember: (row: Buffer, name: Buffer, viewer: Viewer) => Promise<boolean>;
  readonly rowWithMembers: RowWithMembers;
}

/** Returns the row of a dynamic group extended by the members that its URLs select, at most `limit`. */
export type RowWithMembers = (
  row: Buffer,
  viewer: Viewer,
  until: AbortConditions,
  limit: number,
) => Promise<MembersRow>;

/**
 * Returns the groups of an entry: name (`Dn.norm` as Latin-1) and DN of each group that the viewer sees and whose
 * members it may see. `isDirect`: without nested groups.
 */
export type MembershipsOf = (
  member: { readonly id: Buffer; readonly dn: Dn },
  viewer: Viewer,
  use: Use,
  isDirect?: boolean,
) => Maybe<ReadonlyMap<string, { readonly dn: Buffer }>>;

export interface PreparedSearch {
  /** The positions of aliases and referrals; undefined if the search does not need them. */
  readonly places: Places | undefined;
  readonly filter: CompiledFilter;
  readonly inputs: FilterInputs;
  readonly chains: Chains | undefined;
  readonly base: Base;
  /** The index plan, if planning began before the base was found. */
  readonly earlyPlan: Promise<IndexPlan | undefined> | undefined;
}
