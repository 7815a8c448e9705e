import type { Maybe } from '../../../store/contract.js';
import { isPromise, markHandled } from '../../../store/maybe.js';
import { UUID_BYTES } from '../../model/tables.js';
import type { Viewer } from '../../model/viewer.js';
import type { Chain } from '../filter/compiled-filter.js';
import { IdSet } from '../plan/id-set.js';
import type { AbortConditions, SearchParams } from '../search-params.js';

/** Returns the sorted ids of the entries in a chain. Follows only values that the viewer may search by. */
export type FindChainIds = (chain: Chain, viewer: Viewer, bounds: WalkBounds) => Maybe<Buffer>;

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
