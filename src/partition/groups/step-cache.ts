import type { AttributeType } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { awaitMaybe, chain, runWork, type Work } from '../../store/maybe.js';
import { groupTypes } from '../model/group-rows.js';
import type { SearchContext } from '../read/run/search-context.js';
import { type NamedEntry, readNamedEntry } from './names.js';
import { findReferrers, indexedReferrers, type ReferrerLookup, type Referrers, referrerLookup } from './referrers.js';

/** Approximate maximum size of the cache in bytes. */
const MAX_BYTES = 8 * 1024 * 1024;
/** Estimated bytes of a cached object and its place in a map. */
const OBJECT_BYTES = 200;

const NONE: ReadonlyMap<string, readonly Referrers[]> = new Map();

/** Caches, for one version of the groups, the entries that name an entry, and the names of groups. */
export class StepCache {
  readonly #context: SearchContext;
  readonly #version: bigint;
  readonly #referrersByName = new Map<string, readonly Referrers[]>();
  readonly #namedById = new Map<string, NamedEntry>();
  #lookup: ReferrerLookup | undefined;
  #bytes = 0;

  private constructor(context: SearchContext, version: bigint) {
    this.#context = context;
    this.#version = version;
  }

  /** Returns the cache for a version. Caches nothing while incomplete plans may be visible: data may be outdated. */
  static forVersion(context: SearchContext, version: bigint): StepCache {
    if (context.store.waitUntilQuiet) return new StepCache(context, version);
    const cached = cachesByContext.get(context);
    if (cached && cached.#version === version) return cached;
    const cache = new StepCache(context, version);
    cachesByContext.set(context, cache);
    return cache;
  }

  /** Returns the types by which members were named at the last look-up. */
  static lastMemberTypes(context: SearchContext): readonly AttributeType[] {
    return lastTypesByContext.get(context) ?? groupTypes(context.schema).memberTypes;
  }

  /** Like `referrerLookup`, for all types that name members. */
  lookup(mayHaveUids: boolean): Maybe<ReferrerLookup> {
    if (this.#lookup) return this.#lookup;
    return chain(referrerLookup(this.#context, groupTypes(this.#context.schema).memberTypes, mayHaveUids), (lookup) => {
      this.#lookup = lookup;
      lastTypesByContext.set(this.#context, lookup.types);
      return lookup;
    });
  }

  /** Like `findReferrers`. Looks up only names that are not cached. */
  referrers(lookup: ReferrerLookup, names: readonly string[]): Maybe<Referrers[]> {
    if (lookup.unindexedTypes.size > 0) return findReferrers(this.#context, lookup, names);
    return runWork(this.#referrers(lookup, names));
  }

  *#referrers(lookup: ReferrerLookup, names: readonly string[]): Work<Referrers[]> {
    const uncachedNames = names.filter((name) => !this.#referrersByName.has(name));
    const newReferrers =
      uncachedNames.length > 0 ? yield* awaitMaybe(indexedReferrers(this.#context, lookup, uncachedNames)) : NONE;
    const allReferrers = names.flatMap((name) => this.#referrersByName.get(name) ?? newReferrers.get(name)!);
    for (const [name, referrers] of newReferrers) {
      this.#addBytes(
        referrers.reduce((bytes, { ids }) => bytes + OBJECT_BYTES + ids.length, OBJECT_BYTES + name.length),
      );
      this.#referrersByName.set(name, referrers);
    }
    return allReferrers;
  }

  namedEntry(id: Buffer): Maybe<NamedEntry | undefined> {
    const key = id.toString('latin1');
    const cached = this.#namedById.get(key);
    if (cached) return cached;
    return chain(readNamedEntry(this.#context, id), (named) => {
      if (!named) return undefined;
      this.#addBytes(3 * OBJECT_BYTES + 3 * named.dn.length);
      this.#namedById.set(key, named);
      return named;
    });
  }

  #addBytes(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= MAX_BYTES) return;
    this.#referrersByName.clear();
    this.#namedById.clear();
    this.#bytes = bytes;
  }
}

const cachesByContext = new WeakMap<SearchContext, StepCache>();
const lastTypesByContext = new WeakMap<SearchContext, readonly AttributeType[]>();
