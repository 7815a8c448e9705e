import { LdapError } from '../ldap/error.js';
import type { Maybe, Reader } from '../store/contract.js';
import { chain, isPromise } from '../store/maybe.js';
import { EMPTY } from '../store/row.js';
import { emitReferences } from './aliases.js';
import { type Area, covers, formatResume, type PlanKind, type Resume } from './area.js';
import { type Candidate, type CompiledFilter, evaluate, type Needs, TRUE } from './filter.js';
import { Found } from './hit.js';
import { IdSet } from './id-set.js';
import { isReplaced, largeCellsOf, readAllLarge } from './large.js';
import { leaveLong } from './long-work.js';
import { childCount, dnOf, isOfClass, parentIdOffset } from './master-row.js';
import type { Node, Specials } from './nodes.js';
import type { Prepared, SearchContext } from './search.js';
import { MASTER_TABLE } from './tables.js';
import { firstTurn, Turns } from './turns.js';
import type { SearchParams, SearchSink } from './types.js';
import { isWhole } from './wide.js';
import { isSameVersion, partForFilter, returnsWide } from './wide-read.js';

/**
 * One search under way: each candidate is checked against scope and filter, and what matches is handed out, as far as the
 * limits allow. Where candidates come from is said in `area-search.ts`.
 */
export class SearchRun {
  readonly context: SearchContext;
  readonly params: SearchParams;
  readonly filter: CompiledFilter;
  readonly flags: Specials;
  readonly #sink: SearchSink;
  readonly #needs: Needs;
  #reader: Reader;
  areas: readonly Area[] = [];
  /** Which of `areas` is searched; what lies in one before it was looked at there. */
  area = 0;
  entries = 0;
  looked = 0;
  #resume: Buffer | undefined;
  /** The entry given last. */
  #last: Resume | undefined;
  #referred = false;
  #given: IdSet | undefined;
  readonly #turns = new Turns();
  readonly #candidate: Candidate = {
    row: EMPTY,
    dn: EMPTY,
    hasSubordinates: false,
    numSubordinates: 0,
    large: undefined,
  };

  constructor(
    context: SearchContext,
    params: SearchParams,
    sink: SearchSink,
    { filter, needs, flags }: Omit<Prepared, 'base' | 'plan'>,
  ) {
    this.context = context;
    this.params = params;
    this.#sink = sink;
    this.filter = filter;
    this.#needs = needs;
    this.flags = flags;
    this.#reader = context.store;
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
    return this.flags.aliases && scope !== 'base' && (deref === 'searching' || deref === 'always');
  }

  /** Whether referrals become references. */
  get givesReferences(): boolean {
    return this.flags.referrals && !this.params.manageDsaIT;
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
    const turn = firstTurn();
    if (isPromise(turn)) await turn;
    this.#turns.begin();
    const snapshot = this.context.store.snapshot();
    this.#reader = snapshot;
    try {
      await work();
    } finally {
      this.#reader = this.context.store;
      snapshot.close();
    }
  }

  /** Hands out the references of all areas. */
  async giveReferences(): Promise<void> {
    this.#referred = await emitReferences(this.context, this.#reader, this.areas, this.#sink);
  }

  /** Reads an entry and considers it. */
  fetch(id: Buffer, kind: PlanKind = 'b', key: Buffer = id): Maybe<void> {
    this.looked++;
    const head = this.#reader.getHead(MASTER_TABLE.name, id);
    return isPromise(head)
      ? head.then((h) => h && this.considerHead(id, h, kind, key))
      : head && this.considerHead(id, head, kind, key);
  }

  /** Reads entries together and considers one after the other. */
  async fetchMany(ids: readonly Buffer[], kind: PlanKind): Promise<void> {
    const rows = await this.#reader.getMany(MASTER_TABLE.name, ids);
    for (let i = 0; i < ids.length && !this.ended; i++) {
      this.looked++;
      const row = rows[i];
      const done = row && this.consider(ids[i]!, row, kind, ids[i]!);
      if (isPromise(done)) await done;
    }
  }

  /** As `consider`, but of a long row the head alone has come. */
  considerHead(id: Buffer, head: Buffer, kind: PlanKind, key: Buffer): Maybe<void> {
    if (isWhole(head)) return this.consider(id, head, kind, key);
    const lacking = returnsWide(this.context, head, this.params.selects);
    return chain(partForFilter(this.context, this.#reader, id, head, this.filter), (part) =>
      part ? this.consider(id, part, kind, key, lacking) : this.#considerWhole(id, head, kind, key),
    );
  }

  /** Where the filter needs more of a long row than a part of it. */
  #considerWhole(id: Buffer, head: Buffer, kind: PlanKind, key: Buffer): Maybe<void> {
    leaveLong(this.params.leaveLong && !this.gave, head);
    return chain(this.#reader.get(MASTER_TABLE.name, id), (row) => row && this.consider(id, row, kind, key));
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
    const area = this.areas[this.area]!;
    if (!covers(area, id, parent)) return;
    for (let i = 0; i < this.area; i++) if (covers(this.areas[i]!, id, parent)) return;
    if ((this.flags.aliases || this.flags.referrals) && this.#isHidden(row)) return;
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
    try {
      await this.#whenRead(id, row, parent, kind, key, lacking);
    } catch (error) {
      if (!isReplaced(error)) throw error;
      await this.fetch(id, kind, key);
    }
  }

  async #whenRead(id: Buffer, row: Buffer, parent: Node, kind: PlanKind, key: Buffer, lacking: boolean): Promise<void> {
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
    const aliases = this.followsAliases;
    const referrals = this.givesReferences;
    return (aliases || referrals) && isOfClass(this.context, row, aliases, referrals);
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
    if (params.pageSize !== undefined) this.#last = { area: this.area, kind, key: Buffer.from(key) };
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

  /** Between batches: checks the limits and, when this search has had its turn, lets others through. */
  breathe(): Maybe<void> {
    this.checkLimits();
    return this.#turns.pass();
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
}
