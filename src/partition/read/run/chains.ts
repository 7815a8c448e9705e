import type { Maybe } from '../../../store/contract.js';
import { isPromise, markHandled } from '../../../store/maybe.js';
import { UUID_BYTES } from '../../model/tables.js';
import type { Viewer } from '../../model/viewer.js';
import type { Chain } from '../filter/compiled-filter.js';
import { IdSet } from '../plan/id-set.js';
import type { SearchParams, Until } from '../search-params.js';

/** Returns the sorted ids of the entries in a chain. Follows only values that the viewer may search by. */
export type InChain = (chain: Chain, viewer: Viewer, bounds: WalkBounds) => Maybe<Buffer>;

/** Limits of a walk along references from entry to entry. The walk counts the numbers down. */
export interface WalkBounds extends Until {
  /** Number of entries that the walk may still visit. */
  entries: number;
  /** Number of steps that the walk may still take. */
  steps: number;
}

/** Limits of all chains of one search together. */
const MAX_ENTRIES = 200_000;
const MAX_STEPS = 2000;

/** A chain that has been followed. */
interface KnownChain {
  readonly ids: Maybe<Buffer>;
  /** The ids as a set, built when `membershipTest` first needs it. */
  set?: IdSet;
}

/** The chains that the filter of one search names. Each chain is followed once, when first needed. */
export class Chains {
  readonly #inChain: InChain;
  readonly #params: SearchParams;
  readonly #bounds: WalkBounds;
  readonly #known = new Map<string, KnownChain>();

  constructor(inChain: InChain, params: SearchParams) {
    const { deadline, signal } = params;
    this.#inChain = inChain;
    this.#params = params;
    this.#bounds = { deadline, signal, entries: MAX_ENTRIES, steps: MAX_STEPS };
  }

  /** Returns the sorted ids of the entries in a chain. */
  readonly idsIn = (chain: Chain): Maybe<Buffer> => this.#find(chain).ids;

  /** Returns a function that tells whether a chain contains the entry. */
  async membershipTest(chains: readonly Chain[], id: Buffer): Promise<(chain: Chain) => boolean> {
    for (const chain of chains) {
      const known = this.#find(chain);
      known.set ??= setOf(await known.ids);
    }
    return (chain) => this.#find(chain).set!.has(id, 0);
  }

  #find(chain: Chain): KnownChain {
    const { by, type, ends } = chain;
    const key = [by, type.oid, ...ends.map((end) => end.toString('latin1'))].join('\0');
    let known = this.#known.get(key);
    if (!known) {
      const ids = this.#inChain(chain, this.#params.viewer, this.#bounds);
      known = { ids: isPromise(ids) ? markHandled(ids) : ids };
      this.#known.set(key, known);
    }
    return known;
  }
}

function setOf(ids: Buffer): IdSet {
  const set = new IdSet();
  for (let at = 0; at < ids.length; at += UUID_BYTES) set.add(ids, at);
  return set;
}
