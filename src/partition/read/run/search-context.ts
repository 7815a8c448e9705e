import type { Dn } from '../../../schema/schema-types.js';
import type { Maybe, Store } from '../../../store/contract.js';
import type { Node } from '../../model/node.js';
import type { Use, Viewer } from '../../model/viewer.js';
import type { Places } from '../../tree/specials.js';
import type { TreeContext } from '../../tree/tree-context.js';
import type { CompiledFilter, Needs } from '../filter/compiled-filter.js';
import type { FilterCompiler } from '../filter/filter-compiler.js';
import type { IndexPlan } from '../plan/index-plan.js';
import type { Until } from '../search-params.js';
import type { MembersRow } from '../sink.js';
import type { Base } from './area.js';
import type { Chains, InChain } from './chains.js';

/** What searches share. */
export interface SearchContext extends TreeContext {
  readonly store: Store;
  readonly compiler: FilterCompiler;
  readonly membershipsOf: MembershipsOf;
  /**
   * Names of some of the groups that an entry is in: those of `groups` (`Dn.norm`, Latin-1) that have it among their
   * values, as far as the viewer may search by these.
   */
  readonly directGroups: (
    entry: { readonly id: Buffer; readonly parent: Node; readonly row: Buffer },
    groups: readonly string[],
    viewer: Viewer,
  ) => Maybe<ReadonlySet<string>>;
  /** As `Asking` has it. */
  readonly membersOf: (group: Buffer) => Promise<Buffer | undefined>;
  readonly inChain: InChain;
  /** Whether a URL of a dynamic group, whose row it is, finds the entry of this name (`Dn.norm`). */
  readonly findsMember: (row: Buffer, name: Buffer, viewer: Viewer) => Promise<boolean>;
  readonly withMembers: WithMembers;
}

/** The row of a dynamic group as if the members that its URLs find stood in it, `most` members at most. */
export type WithMembers = (row: Buffer, viewer: Viewer, until: Until, most: number) => Promise<MembersRow>;

/**
 * The groups that an entry is in, by their names (`Dn.norm` as Latin-1), each with its DN: as far as the viewer sees
 * them and may use what makes the entry a member. `own`: none by way of others.
 */
export type MembershipsOf = (
  member: { readonly id: Buffer; readonly dn: Dn },
  viewer: Viewer,
  use: Use,
  own?: boolean,
) => Maybe<ReadonlyMap<string, { readonly dn: Buffer }>>;

/** What a search begins with. */
export interface Prepared {
  /** Where aliases and referrals are; undefined where there are none. */
  readonly places: Places | undefined;
  readonly filter: CompiledFilter;
  readonly needs: Needs;
  /** Undefined where the filter asks for none. */
  readonly chains: Chains | undefined;
  readonly base: Base;
  /** The index plan, where it was asked for together with the rest. */
  readonly plan: Promise<IndexPlan | undefined> | undefined;
}
