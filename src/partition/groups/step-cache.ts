import type { AttributeType } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { awaited, chain, done, type Work } from '../../store/maybe.js';
import { groupTypes } from '../model/group-rows.js';
import type { SearchContext } from '../read/run/search-context.js';
import { idsNaming, indexedNaming, type Namers, type NamingEntries, namersIn } from './namers.js';
import { type Named, namedOfId } from './names.js';

/** Approximate maximum size of the cache in bytes. */
const MAX_BYTES = 8 * 1024 * 1024;
/** Approximate overhead of an object and its place in a map, in bytes. */
const OBJECT_BYTES = 200;

const NONE: ReadonlyMap<string, readonly NamingEntries[]> = new Map();

/** Cache of steps from entries up to groups, and of names of groups, valid at one version of the groups. */
export class StepCache {
  readonly #context: SearchContext;
  readonly #version: bigint;
  readonly #namings = new Map<string, readonly NamingEntries[]>();
  readonly #named = new Map<string, Named>();
  #namers: Namers | undefined;
  #bytes = 0;

  private constructor(context: SearchContext, version: bigint) {
    this.#context = context;
    this.#version = version;
  }

  /** Returns the cache for a version. Where incomplete plans are visible, data may be too old, so nothing is kept. */
  static at(context: SearchContext, version: bigint): StepCache {
    if (context.store.quiet) return new StepCache(context, version);
    const before = known.get(context);
    if (before && before.#version === version) return before;
    const steps = new StepCache(context, version);
    known.set(context, steps);
    return steps;
  }

  /** Returns the types that named members at the last look-up. */
  static typesUsed(context: SearchContext): readonly AttributeType[] {
    return lastTypes.get(context) ?? groupTypes(context.schema).members;
  }

  /** Like `namersIn`, for all types that name members. */
  namers(uids: boolean): Maybe<Namers> {
    if (this.#namers) return this.#namers;
    return chain(namersIn(this.#context, groupTypes(this.#context.schema).members, uids), (namers) => {
      this.#namers = namers;
      lastTypes.set(this.#context, namers.types);
      return namers;
    });
  }

  /** Like `idsNaming`. With indexes, only unknown names are looked up. */
  findNaming(namers: Namers, names: readonly string[]): Maybe<NamingEntries[]> {
    if (namers.others.size > 0) return idsNaming(this.#context, namers, names);
    return done(this.#naming(namers, names));
  }

  *#naming(namers: Namers, names: readonly string[]): Work<NamingEntries[]> {
    const unknown = names.filter((name) => !this.#namings.has(name));
    const read = unknown.length > 0 ? yield* awaited(indexedNaming(this.#context, namers, unknown)) : NONE;
    const found = names.flatMap((name) => this.#namings.get(name) ?? read.get(name)!);
    for (const [name, namings] of read) {
      this.#addBytes(namings.reduce((bytes, { ids }) => bytes + OBJECT_BYTES + ids.length, OBJECT_BYTES + name.length));
      this.#namings.set(name, namings);
    }
    return found;
  }

  named(id: Buffer): Maybe<Named | undefined> {
    const key = id.toString('latin1');
    const before = this.#named.get(key);
    if (before) return before;
    return chain(namedOfId(this.#context, id), (named) => {
      if (!named) return undefined;
      this.#addBytes(3 * OBJECT_BYTES + 3 * named.dn.length);
      this.#named.set(key, named);
      return named;
    });
  }

  #addBytes(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= MAX_BYTES) return;
    this.#namings.clear();
    this.#named.clear();
    this.#bytes = bytes;
  }
}

const known = new WeakMap<SearchContext, StepCache>();
const lastTypes = new WeakMap<SearchContext, readonly AttributeType[]>();
