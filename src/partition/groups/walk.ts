import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Maybe } from '../../store/contract.js';
import { awaitMaybe, isPromise, runWork, type Work } from '../../store/maybe.js';
import { UUID_BYTES } from '../model/tables.js';
import type { Use, Viewer } from '../model/viewer.js';
import { IdSet } from '../read/plan/id-set.js';
import type { WalkBounds } from '../read/run/chains.js';
import type { SearchContext } from '../read/run/search-context.js';
import { requireTime } from '../read/search-params.js';
import { maySee } from './group-sight.js';
import { type NamedEntry, readNamedEntry } from './names.js';
import type { Referrers } from './referrers.js';

type ReadNamedEntry = (id: Buffer) => Maybe<NamedEntry | undefined>;

const ENTRIES_PER_READ = 64;

/**
 * Walk from a name up to the entries that name it, to their referrers, and so on. Each entry is visited once, so cycles
 * end. A hidden entry, or an entry whose referring values the viewer may not use, is skipped with its referrers.
 */
export class Walk {
  /** The visited entries by name (`Dn.norm` as Latin-1). */
  readonly visitedEntries = new Map<string, NamedEntry>();
  readonly #context: SearchContext;
  readonly #viewer: Viewer;
  readonly #use: Use;
  readonly #bounds: WalkBounds | undefined;
  readonly #ids = new IdSet();
  readonly #slice = new TimeSlice();

  constructor(context: SearchContext, viewer: Viewer, use: Use, bounds?: WalkBounds) {
    this.#context = context;
    this.#viewer = viewer;
    this.#use = use;
    this.#bounds = bounds;
  }

  /** Goes up one level. Returns the names of the entries that were not visited before. */
  goUp(
    referrers: readonly Referrers[],
    readNamed: ReadNamedEntry = (id) => readNamedEntry(this.#context, id),
  ): Maybe<string[]> {
    return runWork(this.#goUp(referrers, readNamed));
  }

  *#goUp(groups: readonly Referrers[], readNamed: ReadNamedEntry): Work<string[]> {
    const bounds = this.#bounds;
    if (bounds && bounds.stepsLeft-- <= 0) throw limitError();
    const newNames: string[] = [];
    for (const referrers of groups) {
      const { ids } = referrers;
      for (let i = 0; i < ids.length; i += ENTRIES_PER_READ * UUID_BYTES) {
        if (bounds) requireTime(bounds);
        yield* this.#visit(referrers, i, readNamed, newNames);
        const pause = this.#slice.yieldIfOver();
        if (isPromise(pause)) yield pause;
      }
    }
    return newNames;
  }

  *#visit(referrers: Referrers, start: number, readNamed: ReadNamedEntry, newNames: string[]): Work<void> {
    const { ids } = referrers;
    const reads: ReturnType<ReadNamedEntry>[] = [];
    let mustWait = false;
    for (let i = start; i < ids.length && i < start + ENTRIES_PER_READ * UUID_BYTES; i += UUID_BYTES) {
      if (this.#ids.has(ids, i)) continue;
      const named = readNamed(ids.subarray(i, i + UUID_BYTES));
      mustWait ||= isPromise(named);
      reads.push(named);
    }
    const entries = mustWait ? yield* awaitMaybe(Promise.all(reads)) : (reads as (NamedEntry | undefined)[]);
    for (const named of entries) {
      if (!named || this.visitedEntries.has(named.normText)) continue;
      // The entry is not marked as visited: the viewer may be allowed to use another attribute that names it.
      const { sightOf } = this.#viewer;
      if (sightOf && !(yield* awaitMaybe(maySee(this.#context, this.#viewer, this.#use, named.node, referrers.type))))
        continue;
      if (this.#bounds && this.#bounds.entriesLeft-- <= 0) throw limitError();
      this.#ids.add(named.node.id, 0);
      this.visitedEntries.set(named.normText, named);
      newNames.push(named.normText);
    }
  }
}

function limitError(): LdapError {
  return new LdapError(
    'adminLimitExceeded',
    'an in-chain match leads to more entries than it may, or over more of them; ask for one nearer to what is wanted',
  );
}
