import type { Maybe } from '../../../store/contract.js';
import { awaitedLater, isPromise } from '../../../store/maybe.js';
import { UUID_BYTES } from '../../model/tables.js';
import type { Viewer } from '../../model/viewer.js';
import type { Chain } from '../filter/compiled-filter.js';
import { IdSet } from '../plan/id-set.js';
import type { SearchParams, Until } from '../search-params.js';

/** Ids, rising, of the entries in a chain, as far as the viewer may search for what leads from one to the next. */
export type InChain = (chain: Chain, viewer: Viewer, bounds: WalkBounds) => Maybe<Buffer>;

/** How far a walk from entry to entry may go. */
export interface WalkBounds extends Until {
  /** Entries that it may meet as yet. */
  entries: number;
  /** Steps that it may take as yet. */
  steps: number;
}

/** Entries that all chains of one search may lead to, and steps that they may take. */
const MOST_ENTRIES = 200_000;
const MOST_STEPS = 2000;

interface Known {
  readonly ids: Maybe<Buffer>;
  set?: IdSet;
}

/** The chains that one search asks for. Each is worked out once, when it is first needed. */
export class Chains {
  readonly #inChain: InChain;
  readonly #params: SearchParams;
  readonly #bounds: WalkBounds;
  readonly #known = new Map<string, Known>();

  constructor(inChain: InChain, params: SearchParams) {
    const { deadline, signal } = params;
    this.#inChain = inChain;
    this.#params = params;
    this.#bounds = { deadline, signal, entries: MOST_ENTRIES, steps: MOST_STEPS };
  }

  /** Ids, rising, of the entries in a chain. */
  readonly idsIn = (chain: Chain): Maybe<Buffer> => this.#find(chain).ids;

  /** Tells of an entry in which of the chains it is. */
  async testOf(chains: readonly Chain[], id: Buffer): Promise<(chain: Chain) => boolean> {
    for (const chain of chains) {
      const known = this.#find(chain);
      known.set ??= setOf(await known.ids);
    }
    return (chain) => this.#find(chain).set!.has(id, 0);
  }

  #find(chain: Chain): Known {
    const { by, type, ends } = chain;
    const key = [by, type.oid, ...ends.map((end) => end.toString('latin1'))].join('\0');
    let known = this.#known.get(key);
    if (!known) {
      const ids = this.#inChain(chain, this.#params.viewer, this.#bounds);
      known = { ids: isPromise(ids) ? awaitedLater(ids) : ids };
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
