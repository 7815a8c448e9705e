import { LdapError } from '../ldap/error.js';
import type { Maybe, Reader } from '../store/contract.js';
import { chain, isPromise } from '../store/maybe.js';
import { EMPTY } from '../store/row.js';
import { aliasTargets, emitReferences } from './aliases.js';
import {
  type Area,
  BATCH,
  type Base,
  choosePlan,
  covers,
  formatResume,
  type PlanKind,
  parseResume,
  type Resume,
  SCAN_FACTOR,
  wholeTable,
} from './area.js';
import { type Candidate, type CompiledFilter, evaluate, type Needs, TRUE } from './filter.js';
import { Found } from './hit.js';
import { IdSet } from './id-set.js';
import { largeCellsOf, readAllLarge } from './large.js';
import { childCount, dnOf, isOfClass, parentIdOffset } from './master-row.js';
import { type Node, ROOT, type Specials } from './nodes.js';
import { rideAlong } from './passes.js';
import { type IndexPlan, planIndexes } from './plan.js';
import { resumeArea, scanArea } from './scan.js';
import type { Prepared, SearchContext } from './search.js';
import { idBatches, sortIds, sourceIds } from './sources.js';
import { MASTER_TABLE, UUID_BYTES } from './tables.js';
import { firstTurn, nextTurn, TURN_MS } from './turns.js';
import type { SearchOutcome, SearchParams, SearchSink } from './types.js';
import { isWhole } from './wide.js';
import { isSameVersion, partForFilter, returnsWide } from './wide-read.js';

/** The base entry is not there any more. */
export class BaseGone extends LdapError {
  constructor() {
    super('noSuchObject', 'the entry at the base was deleted while it was searched');
  }
}

/** One search under way. */
export class SearchRun {
  readonly context: SearchContext;
  readonly params: SearchParams;
  readonly filter: CompiledFilter;
  readonly #sink: SearchSink;
  readonly #needs: Needs;
  readonly #flags: Specials;
  #plan: Promise<IndexPlan | undefined> | undefined;
  #reader: Reader;
  #areas: Area[] = [];
  #area = 0;
  entries = 0;
  looked = 0;
  #resume: Buffer | undefined;
  /** The entry given last. */
  #last: Resume | undefined;
  #referred = false;
  #given: IdSet | undefined;
  #turnBegan = performance.now();
  readonly #candidate: Candidate = {
    row: EMPTY,
    dn: EMPTY,
    hasSubordinates: false,
    numSubordinates: 0,
    large: undefined,
  };

  constructor(context: SearchContext, params: SearchParams, sink: SearchSink, prepared: Omit<Prepared, 'base'>) {
    this.context = context;
    this.params = params;
    this.#sink = sink;
    this.filter = prepared.filter;
    this.#needs = prepared.needs;
    this.#flags = prepared.flags;
    this.#plan = prepared.plan;
    this.#reader = context.store;
  }

  /** Whether the sink has got anything. */
  get gave(): boolean {
    return this.entries > 0 || this.#referred;
  }

  get reader(): Reader {
    return this.#reader;
  }

  search(base: Base): Maybe<SearchOutcome> {
    const { params } = this;
    const area = { node: base.node, row: base.row, scope: params.scope };
    if (params.resume || this.#flags.aliases || this.#flags.referrals) return this.#searchAreas(area);
    this.#areas = [area];
    return chain(this.#searchArea(area, undefined), () => this.#end(area));
  }

  #end(first: Area): Maybe<SearchOutcome> {
    const outcome = { entries: this.entries, looked: this.looked, resume: this.#resume };
    if (this.entries > 0 || this.params.resume) return outcome;
    return chain(this.#requireBase(first.node), () => outcome);
  }

  /** With the areas that aliases lead to, one after another; an entry that lies in an earlier one is not given again. */
  async #searchAreas(first: Area): Promise<SearchOutcome> {
    const { params } = this;
    const derefs = params.deref === 'searching' || params.deref === 'always';
    const follow = this.#flags.aliases && derefs && params.scope !== 'base';
    this.#areas = follow ? await aliasTargets(this.context, this.#reader, [first]) : [first];
    const resume = params.resume && parseResume(params.resume);
    if (this.#flags.referrals && !params.manageDsaIT && !resume) {
      this.#referred = await emitReferences(this.context, this.#reader, this.#areas, this.#sink);
    }
    for (this.#area = resume?.area ?? 0; this.#area < this.#areas.length && !this.#resume; this.#area++) {
      const done = this.#searchArea(this.#areas[this.#area]!, resume?.area === this.#area ? resume : undefined);
      if (isPromise(done)) await done;
    }
    return this.#end(first);
  }

  /** Nothing was found: is the base itself still there? A cached node does not tell. */
  #requireBase(node: Node): Maybe<void> {
    if (node === ROOT) return;
    return chain(this.context.store.getHead(MASTER_TABLE.name, node.id), (row) => {
      if (!row) throw new BaseGone();
    });
  }

  #searchArea(area: Area, resume: Resume | undefined): Maybe<void> {
    if (area.scope === 'base') return resume ? undefined : this.#searchBase(area);
    if (resume)
      return resume.kind === 'i'
        ? this.#resumeIndex(resume.key)
        : this.#withSnapshot(async () => resumeArea(this, area, resume.kind as 's' | 't', resume.key));
    const plan = this.#plan ?? planIndexes(this.filter, this.context.shared.indexes, this.#reader);
    // Of one area alone.
    this.#plan = undefined;
    return isPromise(plan) ? plan.then((p) => this.#choose(area, p)) : this.#choose(area, plan);
  }

  #searchBase({ node, row }: Area): Maybe<void> {
    if (!row) return this.fetch(node.id);
    this.looked++;
    return this.#considerHead(node.id, row, 'b', node.id);
  }

  #choose(area: Area, plan: IndexPlan | undefined): Maybe<void> {
    // A handful of candidates is read within one turn, which is one state of the store already.
    if (plan && plan.count * SCAN_FACTOR <= BATCH) return this.#byIndex(plan);
    return this.#chooseLong(area, plan);
  }

  async #chooseLong(area: Area, plan: IndexPlan | undefined): Promise<void> {
    if ((await choosePlan(this.#reader, area, plan)) === 'index')
      return this.#withSnapshot(async () => this.#byIndex(plan!));
    return this.#scan(area);
  }

  /** The first range together with other searches that look at it, the rest on the same state. */
  async #scan(area: Area): Promise<void> {
    let release = (): void => {};
    try {
      await scanArea(this, area, wholeTable(area) ? 't' : 's', async (range, filter, kind) => {
        const ride = await rideAlong(this, range, filter, kind);
        release = ride.release;
        return ride.containers;
      });
    } finally {
      this.#reader = this.context.store;
      release();
    }
  }

  /** What it reads from now on. */
  readFrom(reader: Reader): void {
    this.#reader = reader;
  }

  async #resumeIndex(after: Buffer): Promise<void> {
    const planned = planIndexes(this.filter, this.context.shared.indexes, this.#reader);
    const plan = isPromise(planned) ? await planned : planned;
    if (!plan)
      throw new LdapError(
        'unwillingToPerform',
        'the index that this paged search was using is gone; start the search again',
      );
    return this.#withSnapshot(async () => this.#byIndex(plan, after));
  }

  /** Long searches read one state, where the engine offers it. */
  async #withSnapshot(work: () => Promise<void>): Promise<void> {
    const turn = firstTurn();
    if (isPromise(turn)) await turn;
    this.#turnBegan = performance.now();
    const snapshot = this.context.store.snapshot();
    this.#reader = snapshot;
    try {
      await work();
    } finally {
      this.#reader = this.context.store;
      snapshot.close();
    }
  }

  /** Candidates of an index plan, in the order of their ids. */
  #byIndex(plan: IndexPlan, after?: Buffer): Maybe<void> {
    if (plan.ids && !after) return this.#fetchAll(plan.ids);
    const only = plan.sources.length === 1 ? plan.sources[0]! : undefined;
    if (only && 'prefix' in only) {
      const ids = sourceIds(only, this.#reader, BATCH, after);
      if (!isPromise(ids) && ids.length < BATCH * UUID_BYTES) return this.#fetchAll(ids);
      return this.#inBatches(ids, (last) => sourceIds(only, this.#reader, BATCH, last));
    }
    return this.params.pageSize === undefined ? this.#streamed(plan) : this.#gathered(plan, after);
  }

  /** Several sources, or a range, as they come; entries that are indexed under several values are looked at once. */
  async #streamed(plan: IndexPlan): Promise<void> {
    const seen = new IdSet();
    for (const source of plan.sources) {
      for await (const ids of idBatches(source, this.#reader, BATCH)) {
        const done = this.#fetchAll(ids, 0, seen);
        if (isPromise(done)) await done;
        const pause = this.breathe();
        if (isPromise(pause)) await pause;
      }
    }
  }

  async #inBatches(first: Maybe<Buffer>, more: (last: Buffer) => Maybe<Buffer>): Promise<void> {
    let ids = isPromise(first) ? await first : first;
    while (ids.length > 0) {
      const done = this.#fetchAll(ids);
      if (isPromise(done)) await done;
      if (this.#resume || ids.length < BATCH * UUID_BYTES) return;
      await this.breathe();
      const next = more(ids.subarray(ids.length - UUID_BYTES));
      ids = isPromise(next) ? await next : next;
    }
  }

  /** The same for pages, which go on where the last one ended: sorted by id. */
  async #gathered(plan: IndexPlan, after?: Buffer): Promise<void> {
    const parts: Buffer[] = [];
    for (const source of plan.sources) {
      const ids = sourceIds(source, this.#reader, Number.MAX_SAFE_INTEGER);
      parts.push(isPromise(ids) ? await ids : ids);
      await this.breathe();
    }
    const ids = sortIds(Buffer.concat(parts));
    let from = 0;
    if (after)
      while (from < ids.length && ids.compare(after, 0, UUID_BYTES, from, from + UUID_BYTES) <= 0) from += UUID_BYTES;
    for (; from < ids.length && !this.#resume; from += BATCH * UUID_BYTES) {
      const done = this.#fetchAll(ids.subarray(from, from + BATCH * UUID_BYTES));
      if (isPromise(done)) await done;
      await this.breathe();
    }
  }

  #fetchAll(ids: Buffer, from = 0, seen?: IdSet): Maybe<void> {
    for (let at = from; at < ids.length && !this.#resume; at += UUID_BYTES) {
      if (seen && !seen.add(ids, at)) continue;
      const id = ids.length === UUID_BYTES ? ids : ids.subarray(at, at + UUID_BYTES);
      const done = this.fetch(id, 'i', id);
      if (isPromise(done)) return done.then(() => this.#fetchAll(ids, at + UUID_BYTES, seen));
    }
  }

  /** Reads an entry and considers it. */
  fetch(id: Buffer, kind: PlanKind = 'b', key: Buffer = id): Maybe<void> {
    this.looked++;
    const head = this.#reader.getHead(MASTER_TABLE.name, id);
    return isPromise(head)
      ? head.then((h) => h && this.#considerHead(id, h, kind, key))
      : head && this.#considerHead(id, head, kind, key);
  }

  /** Of a long row the head alone has come. */
  #considerHead(id: Buffer, head: Buffer, kind: PlanKind, key: Buffer): Maybe<void> {
    if (isWhole(head)) return this.consider(id, head, kind, key);
    const lacking = returnsWide(this.context, head, this.params.selects);
    return chain(partForFilter(this.context, this.#reader, id, head, this.filter), (part) =>
      part
        ? this.consider(id, part, kind, key, lacking)
        : chain(this.#reader.get(MASTER_TABLE.name, id), (row) => row && this.consider(id, row, kind, key)),
    );
  }

  /**
   * Checks one candidate against scope and filter and hands it out; `key` is where a page that ends here goes on. A row
   * that is `lacking` has all that the filter needs and not all that is to be returned.
   */
  consider(id: Buffer, row: Buffer, kind: PlanKind, key: Buffer, lacking = false): Maybe<void> {
    const parent = this.context.nodes.byIdAt(row, parentIdOffset(row));
    return isPromise(parent)
      ? parent.then((p) => this.#inScope(id, row, p, kind, key, lacking))
      : this.#inScope(id, row, parent, kind, key, lacking);
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
    const area = this.#areas[this.#area]!;
    if (!covers(area, id, parent)) return;
    for (let i = 0; i < this.#area; i++) if (covers(this.#areas[i]!, id, parent)) return;
    if ((this.#flags.aliases || this.#flags.referrals) && this.#isHidden(row)) return;
    const candidate = this.#candidate;
    candidate.row = row;
    const needs = this.#needs;
    if (needs.dn) candidate.dn = dnOf(row, parent);
    if (needs.subordinates || largeCellsOf(this.context.descriptions, row, needs.values).length > 0)
      return this.#prepared(id, row, parent, kind, key, lacking);
    candidate.large = undefined;
    if (evaluate(this.filter, candidate) !== TRUE) return;
    return lacking ? this.#giveWhole(id, row, parent, kind, key) : this.#give(id, row, parent, kind, key);
  }

  /** Reads the row of which a part has matched. One that has changed since is looked at anew. */
  #giveWhole(id: Buffer, part: Buffer, parent: Node, kind: PlanKind, key: Buffer): Maybe<void> {
    return chain(this.#reader.get(MASTER_TABLE.name, id), (row) => {
      if (!row) return;
      return isSameVersion(row, part) ? this.#give(id, row, parent, kind, key) : this.consider(id, row, kind, key);
    });
  }

  /** With what has to be read first; a candidate of its own, as others may be looked at meanwhile. */
  async #prepared(id: Buffer, row: Buffer, parent: Node, kind: PlanKind, key: Buffer, lacking: boolean): Promise<void> {
    const cells = largeCellsOf(this.context.descriptions, row, this.#needs.values);
    const large = await readAllLarge(this.#reader, MASTER_TABLE.name, id, row, cells);
    const count = this.#needs.subordinates ? childCount(this.#reader, row) : 0;
    const children = isPromise(count) ? await count : count;
    const candidate: Candidate = {
      row,
      dn: dnOf(row, parent),
      hasSubordinates: children > 0,
      numSubordinates: children,
      large,
    };
    if (evaluate(this.filter, candidate) !== TRUE) return;
    await (lacking ? this.#giveWhole(id, row, parent, kind, key) : this.#give(id, row, parent, kind, key));
  }

  /** Aliases that were followed and referrals that became references are not entries of the result. */
  #isHidden(row: Buffer): boolean {
    const { params, context } = this;
    const derefs =
      this.#flags.aliases && params.scope !== 'base' && (params.deref === 'searching' || params.deref === 'always');
    const refers = this.#flags.referrals && !params.manageDsaIT;
    if (!derefs && !refers) return false;
    return isOfClass(context, row, derefs, refers);
  }

  #give(id: Buffer, row: Buffer, parent: Node, kind: PlanKind, key: Buffer): Maybe<void> {
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
    if (params.pageSize !== undefined) this.#last = { area: this.#area, kind, key: Buffer.from(key) };
    return this.#sink.entry(new Found(this.context.store, id, row, dnOf(row, parent)));
  }

  /** Where a scan does not read one state, an entry that is moved meanwhile is met again at its new place. */
  #wasGiven(id: Buffer): boolean {
    if (this.context.store.supports.snapshot) return false;
    this.#given ??= new IdSet();
    return !this.#given.add(id, 0);
  }

  /** The page is full and one more entry is known to follow: goes on behind the last one given. */
  #endPage(): void {
    this.#resume = formatResume(this.#last ?? { area: 0, kind: 'b', key: Buffer.alloc(0) });
  }

  get ended(): boolean {
    return this.#resume !== undefined;
  }

  /** Between batches: checks the limits and, when this search has had its turn, lets others through. */
  breathe(): Maybe<void> {
    this.checkLimits();
    if (performance.now() - this.#turnBegan < TURN_MS) return;
    return this.#nextTurn();
  }

  /** Throws what ends the search before its end. */
  checkLimits(): void {
    const { params } = this;
    if (params.signal?.aborted) throw new LdapError('canceled', 'the search was ended');
    if (this.looked > params.lookLimit) {
      throw new LdapError(
        'adminLimitExceeded',
        `the search looked at ${this.looked} entries without an index that helps; ask for less, or have an index added`,
      );
    }
    if (Date.now() > params.deadline) throw new LdapError('timeLimitExceeded', 'the search took longer than it may');
  }

  async #nextTurn(): Promise<void> {
    await nextTurn();
    this.#turnBegan = performance.now();
  }
}
