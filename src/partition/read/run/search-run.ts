import { TimeSlice, waitForFirstSlice } from '../../../fair/time-slice.js';
import { LdapError } from '../../../ldap/ldap-error.js';
import type { Maybe, Reader } from '../../../store/contract.js';
import { awaited, chain, done, isPromise, type Work } from '../../../store/maybe.js';
import { EMPTY } from '../../../store/row.js';
import { isReplaced, largeCellsOf, readAllLarge } from '../../model/large.js';
import { LongWork, leaveLong } from '../../model/long-work.js';
import type { Node } from '../../model/node.js';
import { presentRow } from '../../model/present-row.js';
import { seenRow } from '../../model/seen-row.js';
import { MASTER_TABLE } from '../../model/tables.js';
import type { Sight } from '../../model/viewer.js';
import { isWhole } from '../../model/wide.js';
import { isSameVersion, wideOf } from '../../model/wide-read.js';
import { dnOf, isOfClass, parentIdOffset } from '../../tree/master-row.js';
import type { Places } from '../../tree/specials.js';
import {
  type Candidate,
  type CompiledFilter,
  emptyCandidate,
  evaluate,
  type Needs,
  TRUE,
  UNDEFINED,
} from '../filter/compiled-filter.js';
import { IdSet } from '../plan/id-set.js';
import type { Asking } from '../plan/index-plan.js';
import { requireTime, type SearchParams, type SearchPlan } from '../search-params.js';
import type { SearchSink } from '../sink.js';
import { Areas } from './area.js';
import type { Chains } from './chains.js';
import { Found } from './hit.js';
import { lostRow, requireDeleted } from './lost-rows.js';
import { formatResume, type PlanKind, type Resume, wayTo } from './page.js';
import type { Prepared, SearchContext } from './search-context.js';
import { countVisible } from './visible-children.js';
import { partForFilter, returnsWide } from './wide-part.js';

/** Between two looks at the clock: one may cost a filter of thousands of terms a millisecond. */
export const LOOK_ENTRIES = 4;

/** Rows that are read at first when a search has waited for its client: it may have to wait again. */
export const AFTER_WAIT = 16;

/** Candidates of an index that take some milliseconds. */
const MANY = 256;

function lookedEnough(): LdapError {
  return new LdapError(
    'adminLimitExceeded',
    'the search looked at more entries than it may, without an index that helps; ask for less, or have an index added',
  );
}

/** Searches with many candidates that are under way in this thread. */
let manyHere = 0;

/**
 * One search under way: each candidate is checked against scope and filter, and what matches is handed out, as far as
 * the limits allow. Where candidates come from is said in `search.ts`.
 */
export class SearchRun {
  readonly context: SearchContext;
  readonly params: SearchParams;
  readonly filter: CompiledFilter;
  readonly places: Places | undefined;
  readonly #sink: SearchSink;
  readonly needs: Needs;
  readonly #chains: Chains | undefined;
  #reader: Reader;
  readonly areas: Areas;
  /** Which of `areas` is searched; what lies in one before it was looked at there. */
  area = 0;
  /** Aliases that are followed and referrals that become references are not entries of the result. */
  hides: { readonly aliases: boolean; readonly referrals: boolean } | undefined;
  /**
   * Where a page search meets an entry once under each of several index keys: whether this is the one that counts.
   * Asked of entries that match.
   */
  counts: ((candidate: Candidate, key: Buffer) => boolean) | undefined;
  /** What comes before the key in `resume`. */
  resumeHead: Buffer = EMPTY;
  /** How candidates were found. */
  plan: SearchPlan = 'index';
  entries = 0;
  looked = 0;
  /** An index could serve the search, whatever it holds. */
  indexed = false;
  /** Entries that lie in an area and are there for the viewer. */
  #seen = 0;
  #resume: Buffer | undefined;
  /** The entry given last. */
  #last: Resume | undefined;
  #lastParent: Node | undefined;
  #referred = false;
  #given: IdSet | undefined;
  readonly #slice: TimeSlice;
  readonly #candidate = emptyCandidate();

  constructor(
    context: SearchContext,
    params: SearchParams,
    sink: SearchSink,
    { filter, needs, chains, places, base }: Prepared,
  ) {
    this.context = context;
    this.params = params;
    this.#slice = new TimeSlice(params.client);
    this.#sink = sink;
    this.filter = filter;
    this.needs = needs;
    this.#chains = chains;
    this.places = places;
    this.#reader = context.store;
    this.areas = new Areas({ node: base.node, row: base.row, scope: params.scope });
    if (params.scope === 'base') this.plan = 'base';
  }

  /** Whether the sink has got anything. */
  get gave(): boolean {
    return this.entries > 0 || this.#referred;
  }

  /** Where the next page goes on; undefined unless this one is full. */
  get resume(): Buffer | undefined {
    return this.#resume;
  }

  get ended(): boolean {
    return this.#resume !== undefined;
  }

  /** Whether aliases are followed. */
  get followsAliases(): boolean {
    const { scope, deref } = this.params;
    return scope !== 'base' && (deref === 'searching' || deref === 'always');
  }

  /** Whether it waits for its client, if it has to wait. */
  get isHeldUp(): boolean {
    return this.params.client?.full === true;
  }

  get reader(): Reader {
    return this.#reader;
  }

  /** What it reads from now on. */
  readFrom(reader: Reader): void {
    this.#reader = reader;
  }

  /** Long searches read one state, where the engine offers it. */
  async withSnapshot(work: () => Promise<void>): Promise<void> {
    const pause = waitForFirstSlice(this.params.client);
    if (isPromise(pause)) await pause;
    this.#slice.restart();
    const snapshot = this.context.store.snapshot();
    this.#reader = snapshot;
    try {
      await work();
    } finally {
      this.#reader = this.context.store;
      snapshot.close();
    }
  }

  /** Does the work of a search, or throws `LongWork` where it has many candidates and somebody has time for it. */
  async doOrLeave(candidates: number, work: () => Promise<void>): Promise<void> {
    // Where rows are spread over servers, they are what a search waits for.
    if (candidates < MANY || this.context.store.supports.spread) return work();
    if (!this.gave && this.params.leaveMany?.hasTime(manyHere)) throw new LongWork();
    manyHere++;
    try {
      await work();
    } finally {
      manyHere--;
    }
  }

  /** What its index plans are made with. */
  asking(ranges?: Asking['ranges']): Asking {
    const { shared, membersOf } = this.context;
    const inChain = this.#chains?.idsIn;
    return { ranges, indexes: shared.indexes, reader: this.#reader, membersOf, inChain, pause: () => this.lookUp() };
  }

  /** Hands out a continuation reference. */
  giveReference(urls: readonly string[]): Maybe<void> {
    this.#referred = true;
    return this.#sink.reference(urls);
  }

  /** Reads an entry and considers it. Whoever gets its row has it until it was considered (`Hit`). */
  fetch(id: Buffer, kind: PlanKind = 'b', key: Buffer = id): Maybe<void> {
    this.looked++;
    const reader = this.#reader;
    const lends = reader.lendHead && !this.params.order;
    const head = lends ? reader.lendHead!(MASTER_TABLE.name, id) : reader.getHead(MASTER_TABLE.name, id);
    if (isPromise(head)) return head.then((h) => (h ? this.considerHead(id, h, kind, key) : this.#isGone(id, kind)));
    if (!head) return this.#isGone(id, kind);
    const done = this.considerHead(id, head, kind, key);
    if (lends && isPromise(done)) reader.keepLent!();
    return done;
  }

  /** An entry that an index names is not there. */
  #isGone(id: Buffer, kind: PlanKind): Maybe<void> {
    return kind === 'i' || kind === 'r' ? requireDeleted(this.context, id) : undefined;
  }

  /**
   * An entry that a tree row names is not there, in the state that the row was read from where the engine offers
   * states.
   */
  lacks(id: Buffer): void {
    if (this.context.store.supports.snapshot) throw lostRow(id, 'a tree row names its entry');
  }

  /** Reads entries together and considers one after the other. */
  async fetchMany(ids: readonly Buffer[], kind: PlanKind, keys = ids): Promise<void> {
    for (let at = 0, group = ids.length; at < ids.length && !this.ended; ) {
      const end = at + group;
      const waitedAt = await this.#fetchTogether(ids.slice(at, end), kind, keys.slice(at, end));
      at = waitedAt === undefined ? end : at + waitedAt + 1;
      group = waitedAt === undefined ? 2 * group : AFTER_WAIT;
    }
  }

  /** Gives the number of the entry that its client had to be waited for: the rows behind it are given up. */
  async #fetchTogether(ids: readonly Buffer[], kind: PlanKind, keys: readonly Buffer[]): Promise<number | undefined> {
    const rows = await this.#reader.getMany(MASTER_TABLE.name, ids);
    for (let i = 0; i < ids.length && !this.ended; i++) {
      this.looked++;
      const row = rows[i];
      const done = row ? this.consider(ids[i]!, row, kind, keys[i]!) : this.#isGone(ids[i]!, kind);
      if (isPromise(done) && this.isHeldUp) return done.then(() => i);
      const pause = isPromise(done) ? done : i % LOOK_ENTRIES === 0 ? this.lookUp() : undefined;
      if (isPromise(pause)) await pause;
    }
    return undefined;
  }

  /** As `consider`, but of a split row the head alone has come. */
  considerHead(id: Buffer, head: Buffer, kind: PlanKind, key: Buffer): Maybe<void> {
    if (isWhole(head)) return this.consider(id, head, kind, key);
    const { looksInto } = this.params.viewer;
    if (looksInto && wideOf(this.context, head).some(({ description }) => looksInto.has(description.type)))
      return this.#considerWhole(id, head, kind, key);
    const lacking = returnsWide(this.context, head, this.params.selects);
    return chain(partForFilter(this.context, this.#reader, id, head, this.filter), (part) =>
      part ? this.consider(id, part, kind, key, lacking) : this.#considerWhole(id, head, kind, key),
    );
  }

  /** Where the filter needs more of a split row than a part of it. */
  #considerWhole(id: Buffer, head: Buffer, kind: PlanKind, key: Buffer): Maybe<void> {
    leaveLong(this.params.leaveLong && !this.gave, head);
    return chain(this.#reader.get(MASTER_TABLE.name, id), (row) => row && this.consider(id, row, kind, key));
  }

  /**
   * Checks one candidate against scope and filter and hands it out; `key` is where a page that ends here goes on. A row
   * that is `lacking` has all that the filter needs and not all that is to be returned.
   */
  consider(id: Buffer, row: Buffer, kind: PlanKind, key: Buffer, lacking = false): Maybe<void> {
    const present = presentRow(this.context, row);
    const parent = this.context.nodes.byIdAt(present, parentIdOffset(present));
    return isPromise(parent)
      ? parent.then((p) => this.#inScope(id, present, p, kind, key, lacking))
      : this.#inScope(id, present, parent, kind, key, lacking);
  }

  #inScope(
    id: Buffer,
    row: Buffer,
    parent: Node | undefined,
    kind: PlanKind,
    key: Buffer,
    lacking: boolean,
  ): Maybe<void> {
    if (!parent || this.#resume) return;
    if (!this.areas.isOf(this.area, id, parent)) return;
    if (this.hides && isOfClass(this.context, row, this.hides.aliases, this.hides.referrals)) return;
    const { sightOf } = this.params.viewer;
    const sight = sightOf?.({ id, parent, row });
    if (sightOf) {
      if (!sight) return;
      if (!this.indexed && ++this.#seen > this.params.lookLimit) throw lookedEnough();
    }
    const candidate = this.#candidate;
    candidate.row = seenRow(this.context.descriptions, row, sight, 'search');
    candidate.sight = sight;
    candidate.someGroups = undefined;
    const needs = this.needs;
    if (needs.dn) candidate.dn = dnOf(row, parent);
    if (needs.subordinates || largeCellsOf(this.context.descriptions, candidate.row, needs.values).length > 0)
      return this.#prepared({ ...candidate }, id, row, parent, kind, key, lacking);
    candidate.large = undefined;
    const met = evaluate(this.filter, candidate);
    if (met === UNDEFINED && (needs.groups || needs.ownGroups || needs.chains.length > 0)) {
      if (needs.named.length > 0 && needs.chains.length === 0)
        return this.#askNamed(candidate, id, row, parent, kind, key, lacking);
      return this.#prepared({ ...candidate }, id, row, parent, kind, key, lacking);
    }
    if (met !== TRUE || this.counts?.(candidate, key) === false) return;
    return lacking ? this.#giveWhole(id, row, parent, kind, key, sight) : this.#give(id, row, parent, kind, key, sight);
  }

  /** Asks the groups that the filter names, and for all groups of the entry where these leave it open. */
  #askNamed(
    candidate: Candidate,
    id: Buffer,
    row: Buffer,
    parent: Node,
    kind: PlanKind,
    key: Buffer,
    lacking: boolean,
  ): Maybe<void> {
    const direct = this.context.directGroups({ id, row, parent }, this.needs.named, this.params.viewer);
    const own = isPromise(direct) ? { ...candidate } : candidate;
    return chain(direct, (groups) => {
      own.someGroups = groups;
      const met = evaluate(this.filter, own);
      const { sight } = own;
      if (met === UNDEFINED) return this.#prepared({ ...own }, id, row, parent, kind, key, lacking);
      if (met !== TRUE || this.counts?.(own, key) === false) return;
      return lacking
        ? this.#giveWhole(id, row, parent, kind, key, sight)
        : this.#give(id, row, parent, kind, key, sight);
    });
  }

  /** Reads the row of which a part has matched. One that has changed since is looked at anew. */
  #giveWhole(
    id: Buffer,
    part: Buffer,
    parent: Node,
    kind: PlanKind,
    key: Buffer,
    sight: Sight | undefined,
  ): Maybe<void> {
    return chain(this.#reader.get(MASTER_TABLE.name, id), (row) => {
      if (!row) return;
      return isSameVersion(row, part)
        ? this.#give(id, presentRow(this.context, row), parent, kind, key, sight)
        : this.consider(id, row, kind, key);
    });
  }

  /** With what has to be read first; a candidate of its own, as others may be looked at meanwhile. */
  #prepared(
    candidate: Candidate,
    id: Buffer,
    row: Buffer,
    parent: Node,
    kind: PlanKind,
    key: Buffer,
    lacking: boolean,
  ): Maybe<void> {
    return done(this.#prepare(candidate, id, row, parent, kind, key, lacking));
  }

  *#prepare(
    candidate: Candidate,
    id: Buffer,
    row: Buffer,
    parent: Node,
    kind: PlanKind,
    key: Buffer,
    lacking: boolean,
  ): Work<void> {
    try {
      yield* this.#complete(candidate, id, row, parent);
    } catch (error) {
      if (!isReplaced(error)) throw error;
      return yield* awaited(this.fetch(id, kind, key));
    }
    if (evaluate(this.filter, candidate) !== TRUE || this.counts?.(candidate, key) === false) return;
    const { sight } = candidate;
    yield* awaited(
      lacking ? this.#giveWhole(id, row, parent, kind, key, sight) : this.#give(id, row, parent, kind, key, sight),
    );
  }

  *#complete(candidate: Candidate, id: Buffer, row: Buffer, parent: Node): Work<void> {
    const cells = largeCellsOf(this.context.descriptions, candidate.row, this.needs.values);
    if (cells.length > 0)
      candidate.large = yield* awaited(readAllLarge(this.#reader, MASTER_TABLE.name, id, candidate.row, cells));
    candidate.numSubordinates = this.needs.subordinates
      ? yield* awaited(countVisible(this.context, this.#reader, this.params.viewer, { id, row }))
      : 0;
    candidate.hasSubordinates = candidate.numSubordinates > 0;
    candidate.dn = dnOf(row, parent);
    if (this.needs.chains.length > 0 && evaluate(this.filter, candidate) === UNDEFINED)
      candidate.isIn = yield* awaited(this.#chains!.testOf(this.needs.chains, id));
    if ((this.needs.groups || this.needs.ownGroups) && evaluate(this.filter, candidate) === UNDEFINED)
      yield* this.#findGroups(candidate, id, row, parent);
  }

  /** Those that have the entry as a value, where these decide; else all. */
  *#findGroups(candidate: Candidate, id: Buffer, row: Buffer, parent: Node): Work<void> {
    const { context, needs } = this;
    const { viewer } = this.params;
    if (needs.named.length > 0 && !candidate.someGroups) {
      candidate.someGroups = yield* awaited(context.directGroups({ id, row, parent }, needs.named, viewer));
      if (evaluate(this.filter, candidate) !== UNDEFINED) return;
    }
    const dn = context.schema.parseDnBytes(candidate.dn);
    const groups = (own: boolean) => context.membershipsOf({ id, dn }, viewer, 'search', own);
    if (needs.groups) candidate.groups = new Set((yield* awaited(groups(false))).keys());
    if (needs.ownGroups) candidate.ownGroups = new Set((yield* awaited(groups(true))).keys());
  }

  #give(id: Buffer, row: Buffer, parent: Node, kind: PlanKind, key: Buffer, sight: Sight | undefined): Maybe<void> {
    const { params } = this;
    if ((kind === 's' || kind === 't') && this.#wasGiven(id)) return;
    if (params.sizeLimit > 0 && this.entries >= params.sizeLimit) {
      throw new LdapError('sizeLimitExceeded', 'there are more entries than were asked for or are allowed');
    }
    if (params.pageSize !== undefined && this.entries >= params.pageSize) {
      this.#endPage();
      return;
    }
    this.entries++;
    if (params.pageSize !== undefined) {
      this.#last = { area: this.area, kind, key: Buffer.concat([this.resumeHead, key]) };
      this.#lastParent = parent;
    }
    const seen = seenRow(this.context.descriptions, row, sight, 'read');
    return this.#sink.entry(new Found(this.context, params, id, seen, dnOf(row, parent), sight));
  }

  /** Where a scan does not read one state, an entry that is moved meanwhile is met again at its new place. */
  #wasGiven(id: Buffer): boolean {
    if (this.context.store.supports.snapshot) return false;
    this.#given ??= new IdSet();
    return !this.#given.add(id, 0);
  }

  /** The page is full and one more entry is known to follow: goes on behind the last one given. */
  #endPage(): void {
    const last = this.#last ?? { area: 0, kind: 'b', key: EMPTY };
    const isBelow = last.kind === 's' && last.key.length > 0;
    const key = isBelow ? Buffer.concat([wayTo(this.#lastParent!, this.areas.at(last.area).node), last.key]) : last.key;
    this.#resume = formatResume({ ...last, key });
  }

  /** Between candidates: as `breathe`, but that it does nothing before the turn is over. */
  lookUp(): Maybe<void> {
    if (this.#slice.isOver) return this.breathe();
  }

  /** Between batches: checks the limits and, when this search has had its turn, lets others through. */
  breathe(): Maybe<void> {
    this.checkLimits();
    return this.#slice.yieldIfOver();
  }

  /** Throws what ends the search before its end. */
  checkLimits(): void {
    const { params } = this;
    // Of who does not see all of them those are counted that it sees: what others are looked at tells of them.
    if (this.looked > params.lookLimit && !params.viewer.sightOf) throw lookedEnough();
    requireTime(params);
  }
}
