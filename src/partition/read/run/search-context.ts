import type { Dn } from '../../../schema/schema-types.js';
import type { Maybe, Store } from '../../../store/contract.js';
import { isPromise, markHandled } from '../../../store/maybe.js';
import { type Node, UUID_BYTES } from '../../model/tables.js';
import type { Use, Viewer } from '../../model/viewer.js';
import type { Places } from '../../tree/specials.js';
import type { TreeContext } from '../../tree/tree-context.js';
import type { Chain, CompiledFilter, FilterInputs } from '../filter/compiled-filter.js';
import type { FilterCompiler } from '../filter/filter-compiler.js';
import { IdSet } from '../plan/id-set.js';
import type { IndexPlan, PlanContext } from '../plan/index-plan.js';
import type { AbortConditions, SearchParams } from '../search-params.js';
import type { MembersRow } from '../sink.js';
import type { Base } from './area.js';

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
  readonly hasSubentries: boolean;
  /** The index plan, if planning began before the base was found. */
  readonly earlyPlan: Promise<IndexPlan | undefined> | undefined;
}

/** Returns the sorted ids of the entries in a chain. Follows only values that the viewer may search by. */
type FindChainIds = (chain: Chain, viewer: Viewer, bounds: WalkBounds) => Maybe<Buffer>;

/** Limits of a walk from entry to entry by references. The walk decrements the numbers. */
export interface WalkBounds extends AbortConditions {
  entriesLeft: number;
  stepsLeft: number;
}

/** Limits for all chains of a search together. */
const MAX_ENTRIES = 200_000;
const MAX_STEPS = 2000;

interface FollowedChain {
  readonly ids: Maybe<Buffer>;
  /** `ids` as a set, made when `membershipTest` first needs it. */
  idSet?: IdSet;
}

/** The chains in the filter of one search. Each chain is followed once, when it is first needed. */
export class Chains {
  readonly #findChainIds: FindChainIds;
  readonly #params: SearchParams;
  readonly #bounds: WalkBounds;
  readonly #followedChains = new Map<string, FollowedChain>();

  constructor(findChainIds: FindChainIds, params: SearchParams) {
    const { deadline, signal } = params;
    this.#findChainIds = findChainIds;
    this.#params = params;
    this.#bounds = { deadline, signal, entriesLeft: MAX_ENTRIES, stepsLeft: MAX_STEPS };
  }

  /** Returns the sorted ids of the entries in a chain. */
  readonly idsInChain = (chain: Chain): Maybe<Buffer> => this.#find(chain).ids;

  /** Returns a function that tells whether a chain contains the entry. */
  async membershipTest(chains: readonly Chain[], id: Buffer): Promise<(chain: Chain) => boolean> {
    for (const chain of chains) {
      const followedChain = this.#find(chain);
      followedChain.idSet ??= toIdSet(await followedChain.ids);
    }
    return (chain) => this.#find(chain).idSet!.has(id, 0);
  }

  #find(chain: Chain): FollowedChain {
    const { kind, type, endDns } = chain;
    const key = [kind, type.oid, ...endDns.map((end) => end.toString('latin1'))].join('\0');
    let followedChain = this.#followedChains.get(key);
    if (!followedChain) {
      const ids = this.#findChainIds(chain, this.#params.viewer, this.#bounds);
      followedChain = { ids: isPromise(ids) ? markHandled(ids) : ids };
      this.#followedChains.set(key, followedChain);
    }
    return followedChain;
  }
}

function toIdSet(ids: Buffer): IdSet {
  const set = new IdSet();
  for (let offset = 0; offset < ids.length; offset += UUID_BYTES) set.add(ids, offset);
  return set;
}
