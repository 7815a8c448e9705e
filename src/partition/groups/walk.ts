import { LdapError } from '../../ldap/ldap-error.js';
import type { Maybe } from '../../store/contract.js';
import { awaited, done, isPromise, type Work } from '../../store/maybe.js';
import { UUID_BYTES } from '../model/tables.js';
import type { Use, Viewer } from '../model/viewer.js';
import { IdSet } from '../read/plan/id-set.js';
import type { WalkBounds } from '../read/run/chains.js';
import type { SearchContext } from '../read/run/search-context.js';
import { Turns } from '../read/run/turns.js';
import { requireTime } from '../read/search-params.js';
import { maySee } from './group-sight.js';
import type { Naming } from './namers.js';
import { type Named, namedOfId } from './names.js';

/** Reads the name of an entry. */
type NamedOf = (id: Buffer) => Maybe<Named | undefined>;

/** Entries that are read together. */
const TOGETHER = 64;

/**
 * The way up from a name to those that name it, and to those that name these. Each entry is met once, so that circles
 * end. One that the viewer does not see, or of which it may not use the values that name, is not met, nor what it
 * leads to.
 */
export class Walk {
  /** By their names (`Dn.norm` as Latin-1). */
  readonly met = new Map<string, Named>();
  readonly #context: SearchContext;
  readonly #viewer: Viewer;
  readonly #use: Use;
  readonly #bounds: WalkBounds | undefined;
  readonly #ids = new IdSet();
  readonly #turns = new Turns();

  constructor(context: SearchContext, viewer: Viewer, use: Use, bounds?: WalkBounds) {
    this.#context = context;
    this.#viewer = viewer;
    this.#use = use;
    this.#bounds = bounds;
  }

  /** A step up: names of those that were not met before. */
  take(found: readonly Naming[], named: NamedOf = (id) => namedOfId(this.#context, id)): Maybe<string[]> {
    return done(this.#take(found, named));
  }

  *#take(found: readonly Naming[], named: NamedOf): Work<string[]> {
    const bounds = this.#bounds;
    if (bounds && bounds.steps-- <= 0) throw tooLong();
    const fresh: string[] = [];
    for (const naming of found) {
      const { ids } = naming;
      for (let at = 0; at < ids.length; at += TOGETHER * UUID_BYTES) {
        if (bounds) requireTime(bounds);
        yield* this.#takeSome(naming, at, named, fresh);
        const pause = this.#turns.pass();
        if (isPromise(pause)) yield pause;
      }
    }
    return fresh;
  }

  *#takeSome(naming: Naming, from: number, namedOf: NamedOf, fresh: string[]): Work<void> {
    const { ids } = naming;
    const asked: ReturnType<NamedOf>[] = [];
    let waits = false;
    for (let at = from; at < ids.length && at < from + TOGETHER * UUID_BYTES; at += UUID_BYTES) {
      if (this.#ids.has(ids, at)) continue;
      const named = namedOf(ids.subarray(at, at + UUID_BYTES));
      waits ||= isPromise(named);
      asked.push(named);
    }
    const all = waits ? yield* awaited(Promise.all(asked)) : (asked as (Named | undefined)[]);
    for (const named of all) {
      if (!named || this.met.has(named.name)) continue;
      // Another attribute may name the entry, too, that may be seen.
      const { sightOf } = this.#viewer;
      if (sightOf && !(yield* awaited(maySee(this.#context, this.#viewer, this.#use, named.node, naming.type))))
        continue;
      if (this.#bounds && this.#bounds.entries-- <= 0) throw tooLong();
      this.#ids.add(named.node.id, 0);
      this.met.set(named.name, named);
      fresh.push(named.name);
    }
  }
}

function tooLong(): LdapError {
  return new LdapError(
    'adminLimitExceeded',
    'an in-chain match leads to more entries than it may, or over more of them; ask for one nearer to what is wanted',
  );
}
