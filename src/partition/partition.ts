import { KeyedLock } from '../fair/keyed-lock.js';
import type { Filter, Modification, PartialAttribute } from '../ldap/ldap-types.js';
import type { Schema } from '../schema/schema.js';
import type { Dn } from '../schema/schema-types.js';
import type { CellName, Maybe, Store } from '../store/contract.js';
import { chain, isPromise } from '../store/maybe.js';
import { EMPTY, packRow, unpackRow } from '../store/row.js';
import { TrialStore } from '../store/trial.js';
import { type LoadOptions, load } from './bulk/load.js';
import type { Directory } from './directory.js';
import { ChangeFeed } from './feed/change-feed.js';
import { latestCsn, trimChanges } from './feed/history.js';
import { isDynamicMember, membersOf, withMembers } from './groups/members.js';
import { directGroups, groupsOf, inChain, membershipsOf } from './groups/memberships.js';
import { groupsVersion } from './groups/version.js';
import { type FormerHit, searchAsOf } from './history/search-as-of.js';
import { type AddIndexOptions, addIndex, dropIndex } from './index/index-admin.js';
import { buildIndexes, estimateCosts, type IndexCost } from './index/index-build.js';
import { addTallies, forgetProposals, type IndexTally, readProposals } from './index/proposals.js';
import { type TendedIndexes, tendIndexes } from './index/self-made.js';
import { accessHistory, readAccess, type StoredAccess } from './model/access-rows.js';
import type { StoredState } from './model/account-state.js';
import { CsnClock } from './model/csn.js';
import { DescriptionTable } from './model/descriptions.js';
import type {
  Actor,
  Breach,
  CompareOptions,
  DeletedEntry,
  DirectorySettings,
  Entry,
  IndexInfo,
  LoadEntry,
  Modifier,
  ModifyOptions,
  WriteOptions,
  WrittenEntry,
} from './model/directory-types.js';
import { valueQualifier } from './model/entry-cells.js';
import { EntryReader } from './model/entry-reader.js';
import { LargeReader, retryWhileReplaced } from './model/large.js';
import { Outage } from './model/outage.js';
import type { Piecework } from './model/piecework.js';
import { presentRow } from './model/present-row.js';
import { toLdapError } from './model/store-errors.js';
import {
  DELETED,
  DELETED_TABLE,
  largeQualifiers,
  MASTER,
  MASTER_TABLE,
  META_TABLE,
  type Node,
  normRdnOf,
  parentIdOf,
  Q,
  STATE_TABLE,
  versionOf,
} from './model/tables.js';
import type { Constraint } from './model/value-rules.js';
import { seenRow, type Viewer } from './model/viewer.js';
import { isWhole } from './model/wide.js';
import { compare, compareVirtual, readById, toEntry, virtualRow } from './read/compare.js';
import { explain } from './read/explain.js';
import { type CompiledFilter, evaluate, TRUE } from './read/filter/compiled-filter.js';
import { draftMatcher } from './read/filter/draft-matcher.js';
import { FilterCompiler } from './read/filter/filter-compiler.js';
import { type ValueFilter, valueFilter } from './read/matched-values.js';
import { search } from './read/run/search.js';
import type { SearchContext } from './read/run/search-context.js';
import { SearchHit } from './read/run/search-run.js';
import type { Explanation, SearchOutcome, SearchParams } from './read/search-params.js';
import type { Hit, SearchSink } from './read/sink.js';
import { type DanglingReference, reportDangling } from './references/dangling.js';
import { ReferenceKeeper } from './references/keeper.js';
import { changeSchema, type SchemaChange } from './schema-change.js';
import { EntryIds } from './tree/entry-ids.js';
import { errorAsSeen, findEntry, HiddenEntry, isVisible, type LocatedEntry, requireEntry } from './tree/locate.js';
import { dnOf, parentIdOffset } from './tree/master-row.js';
import { missingTables, noteMissing } from './tree/missing-tables.js';
import { formerParent, NodeCache, ROOT } from './tree/nodes.js';
import { SHARED_KEY } from './tree/shared-row.js';
import { SharedState } from './tree/shared-state.js';
import { check, type SampleResult, sampleCheck } from './upkeep/check/check.js';
import type { OnPasswords } from './upkeep/check/survey.js';
import { type OnRepaired, recount, repair } from './upkeep/repair.js';
import { type WarmResult, warm } from './upkeep/warm.js';
import { type AssignedRange, assignedRanges, removeNumbers, setNumbers } from './values/number-admin.js';
import { setReferences } from './values/reference-admin.js';
import { addUnique, removeUnique, type UniqueDefinition } from './values/unique-admin.js';
import { finishUnique, type UniqueListener } from './values/unique-build.js';
import { changeState, clearState, commitDecoy, lockedIds, readState, type StateEdit } from './write/account-state.js';
import { add } from './write/add.js';
import type { WriteContext } from './write/context.js';
import { remove, restore, restoreSubtree, type SubtreeRestore } from './write/delete.js';
import { finishTrees, removeTree } from './write/delete-tree.js';
import { deletedEntries, purge } from './write/deleted-rows.js';
import { modify, requireModifyAllowed } from './write/modify.js';
import { NumberPools } from './write/number-pools.js';
import { type RenameTarget, rename } from './write/rename.js';
import { RULES } from './write/rules/index.js';
import { runTransaction } from './write/transaction.js';

export interface PartitionOptions {
  /** Returns the time in milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
  /** Number that distinguishes this process from other writers of the directory. Part of each entryCSN. */
  readonly process?: number;
  /** Whether the partition must not write. */
  readonly readOnly?: boolean;
  /** For a trial directory: the directory below, whose caches and clock are shared. */
  readonly base?: WriteContext;
}

/** An entry that was found by its DN. */
export interface FoundRow {
  readonly id: Buffer;
  readonly row: Buffer;
  readonly node: Node;
}

/** An entry that is in no table, such as the root DSE. Filters are evaluated on it in memory. */
export interface VirtualEntry {
  readonly id: Buffer;
  /** DN as the client wrote it, UTF-8. */
  readonly dn: Buffer;
  readonly normRdn?: Buffer;
  /** Absent: the root. */
  readonly parent?: Node | undefined;
  readonly row: Buffer;
}

/** An entry as a viewer sees it. */
type FoundEntry = Pick<Hit, 'id' | 'row' | 'dn' | 'sight'>;

/** A stored entry for `findStored`. `isComplete`: the row is short and has all values; else it is left out. */
export type StoredEntry = VirtualEntry & { readonly name: Dn; readonly isComplete: boolean };

/** The longest row of a `StoredEntry`, in bytes. */
const MAX_STORED_ROW = 8 * 1024;

/** A directory over a store, for the server, the command line and embedding programs. */
export class Partition implements Directory {
  readonly store: Store;
  readonly schema: Schema;
  readonly descriptions: DescriptionTable;
  /** The shared state of the operations, for code within `src/partition`. */
  readonly context: SearchContext & WriteContext;
  readonly outage: Outage;
  readonly feed: ChangeFeed;
  /** The last result of `groupsVersion`, valid at one `moment`. */
  #lastGroupsVersion: { readonly moment: number | undefined; readonly version: bigint } | undefined;

  private constructor(context: SearchContext & WriteContext) {
    this.context = context;
    this.store = context.store;
    this.schema = context.schema;
    this.descriptions = context.descriptions;
    this.outage = context.outage;
    this.feed = new ChangeFeed(context.store, () => {
      context.store.renewReads?.();
      context.shared.expire();
    });
    context.onCommit = () => this.feed.noteCommit();
  }

  /** Opens the directory in `store`. Throws `StoreError` `format` if there is none. */
  static async open(store: Store, schema: Schema, options: PartitionOptions = {}): Promise<Partition> {
    const { base } = options;
    const descriptions = base?.descriptions ?? new DescriptionTable(schema, store.rowLayout);
    const nodes = new NodeCache(store);
    const shared = new SharedState(store, schema, () => nodes.clear());
    await shared.fresh();
    const csn = base?.csn ?? new CsnClock(await latestCsn(store), options.now, options.process);
    const compiler = new FilterCompiler(schema, descriptions, { descriptions, shared });
    const context: SearchContext & WriteContext = {
      store,
      schema,
      outage: base?.outage ?? new Outage(() => store.get(META_TABLE.name, SHARED_KEY)),
      descriptions,
      reader: new EntryReader(descriptions),
      nodes,
      ids: base?.ids ?? new EntryIds(),
      shared,
      csn,
      compiler,
      membersOf: (group) => membersOf(context, group),
      findChainIds: (chain, viewer, bounds) => inChain(context, chain, viewer, bounds),
      directGroups: (entry, groups, viewer) => directGroups(context, entry, groups, viewer),
      isDynamicMember: (row, name, viewer) => isDynamicMember(context, row, name, viewer),
      rowWithMembers: (row, viewer, until, maxMembers) => withMembers(context, row, viewer, until, maxMembers),
      membershipsOf: (member, viewer, use, directOnly) => membershipsOf(context, member, viewer, use, directOnly),
      rules: RULES,
      locks: new KeyedLock(),
      hasStates: base?.hasStates ?? (await hasStates(store, options.readOnly ?? false)),
      fits: draftMatcher(compiler),
      numbers: new NumberPools(),
      references: new ReferenceKeeper(() => context),
      finishTrees: () => finishTrees(context),
    };
    return new Partition(context);
  }

  /** Makes later reads see all data that any process had written before this call. */
  renewReads(): void {
    if (!this.store.renewReads) return;
    this.store.renewReads();
    this.context.shared.expire();
  }

  /** Reads the settings and indexes that other processes have changed. Every operation does this by itself. */
  async refresh(): Promise<void> {
    await this.#translateMaybe(() => this.context.shared.refresh());
  }

  get settings(): DirectorySettings {
    return this.context.shared.settings;
  }
  get suffixes(): readonly Dn[] {
    return this.context.shared.suffixes;
  }
  /** Whether the directory has the schema of this process. False after another process has changed the schema. */
  get schemaIsCurrent(): boolean {
    return this.context.shared.schemaIsCurrent;
  }
  indexes(): IndexInfo[] {
    return this.context.shared.indexes.info();
  }

  search(params: SearchParams, sink: SearchSink): Maybe<SearchOutcome> {
    // A search that has begun may send entries, so it is not ended before its reads are.
    return this.#translateMaybe(() => this.#maskErrors(params.viewer, () => search(this.context, params, sink)), false);
  }

  /** See `history/search-as-of.ts`. */
  async searchAsOf(
    params: SearchParams,
    atMs: number,
    onHit: (hit: FormerHit) => Maybe<void>,
    maxChanges?: number,
  ): Promise<number> {
    return this.#translate(searchAsOf(this, params, atMs, onHit, maxChanges));
  }

  async explain(params: SearchParams): Promise<Explanation> {
    return this.#translate(explain(this.context, params));
  }

  async read(dn: Dn, options: WriteOptions & { large?: boolean } = {}): Promise<Entry> {
    return this.#translate(this.#read(dn, options));
  }

  async #read(dn: Dn, options: WriteOptions & { large?: boolean }): Promise<Entry> {
    await this.context.shared.fresh();
    return retryWhileReplaced(async () => {
      const entry = await requireEntry(this.context, this.store, dn, options.manageDsaIT ?? false);
      return toEntry(this.context, entry, options.large ?? false);
    });
  }

  async readById(id: Buffer, large = false): Promise<Entry | undefined> {
    return this.#translate(readById(this.context, id, large));
  }

  /** Returns an entry as it is stored now; undefined if the entry is gone. */
  readStored(id: Buffer): Maybe<StoredEntry | undefined> {
    const { shared, store, nodes } = this.context;
    const head = () => store.getHead(MASTER_TABLE.name, id);
    return this.#translateMaybe(() =>
      chain(
        shared.readFresh(head),
        (row) =>
          row && chain(nodes.byIdAt(row, parentIdOffset(row)), (parent) => parent && this.#stored(id, row, parent)),
      ),
    );
  }

  #stored(id: Buffer, head: Buffer, parent: Node): StoredEntry {
    const isComplete = head.length <= MAX_STORED_ROW && isWhole(head) && !largeQualifiers(head);
    const row = isComplete ? presentRow(this.context, head) : EMPTY;
    const dn = dnOf(head, parent);
    const name = this.schema.parseDnBytes(dn);
    return { id: Buffer.from(id), dn, name, row, normRdn: normRdnOf(head), parent, isComplete };
  }

  /** Returns entryUUID of the parent and normalized RDN, as Latin-1, of an entry; of a deleted entry its last ones. */
  placeById(id: Buffer): Maybe<string | undefined> {
    const { store } = this;
    const place = (row: Buffer) => parentIdOf(row).toString('latin1') + normRdnOf(row).toString('latin1');
    return this.#translateMaybe(() =>
      chain(store.getHead(MASTER_TABLE.name, id, true), (row) =>
        chain(row ?? store.getHead(DELETED_TABLE.name, id, true), (found) => found && place(found)),
      ),
    );
  }

  /**
   * Returns a deleted entry for `findVirtual`, without large values; undefined if it is gone. `dn`: its last DN, UTF-8.
   * `isMarked`: with the attribute isDeleted.
   */
  async findDeleted(id: Buffer, dn: Buffer, isMarked = false): Promise<VirtualEntry | undefined> {
    const row = await this.#translateMaybe(() => this.store.get(DELETED_TABLE.name, id));
    if (!row) return undefined;
    const large = largeQualifiers(row);
    const isKept = ({ family, qualifier }: CellName): boolean =>
      family !== DELETED.deletion && !qualifier.equals(Q.large) && !large?.has(qualifier.toString('latin1'));
    const mark = { family: MASTER.upAttributes, qualifier: valueQualifier('isDeleted', 0), value: Buffer.from('TRUE') };
    const masterRow = packRow([...unpackRow(row).filter(isKept), ...(isMarked ? [mark] : [])]);
    const stored = await this.#translateMaybe(() => this.context.nodes.byIdAt(masterRow, parentIdOffset(masterRow)));
    const parent = stored ?? formerParent(this.schema.parseDnBytes(dn), this.suffixes);
    return parent && { id, dn, row: masterRow, normRdn: normRdnOf(masterRow), parent };
  }

  /** Returns the id, master row and node of an entry. Binds call it: an embedded store answers synchronously. */
  findRow(dn: Dn): Maybe<FoundRow | undefined> {
    const find = () => findEntry(this.context, this.store, dn);
    return this.#translateMaybe(() =>
      chain(
        this.context.shared.readFresh(find),
        (entry) => entry && { id: entry.node.id, row: entry.row, node: entry.node },
      ),
    );
  }

  /** Returns the whole entry. Throws `noSuchObject` or `referral` if the viewer must not see it. */
  async findVisible(dn: Dn, viewer: Viewer): Promise<LocatedEntry> {
    const find = async (): Promise<LocatedEntry> => {
      await this.context.shared.fresh();
      const entry = await requireEntry(this.context, this.store, dn, false);
      const isSeen = isVisible(viewer, entry.node, () => entry.row);
      if (isPromise(isSeen) ? await isSeen : isSeen) return entry;
      throw new HiddenEntry(entry.node);
    };
    return this.#translateMaybe(() => this.#maskErrors(viewer, find));
  }

  /** Throws the error with which the entry, in its current state, would refuse these changes. */
  async requireAllowed(dn: Dn, changes: readonly Modification[], actor: Actor, options?: WriteOptions): Promise<void> {
    return this.#translate(requireModifyAllowed(this.context, dn, changes, actor, options));
  }

  /** Returns the normalized DNs (Latin-1) of the groups of an entry, including nested groups. */
  groupsOf(user: { readonly id: Buffer; readonly dn: Dn }): Maybe<ReadonlySet<string>> {
    return this.#translateMaybe(() => groupsOf(this.context, user));
  }

  /**
   * Returns a number that changes whenever members or names of groups may have changed. Comparable only within this
   * process and thread. Members of dynamic groups also depend on the entries: see `versionOf`.
   */
  groupsVersion(): Maybe<bigint> {
    const { moment } = this;
    if (moment !== undefined && this.#lastGroupsVersion?.moment === moment) return this.#lastGroupsVersion.version;
    const version = this.#translateMaybe(() => groupsVersion(this.context));
    if (!isPromise(version)) this.#lastGroupsVersion = { moment: this.moment, version };
    return version;
  }

  /** Returns the version of an entry, which every change of the entry increments; undefined if the entry is gone. */
  versionOf(id: Buffer): Maybe<bigint | undefined> {
    const head = () => this.store.getHead(MASTER_TABLE.name, id, true);
    return this.#translateMaybe(() => chain(this.context.shared.readFresh(head), (row) => row && versionOf(row)));
  }

  /**
   * Identifies the current moment of a store that answers synchronously. Results that were read at the same moment are
   * still valid. A moment ends at a commit, at the latest with the current turn of the event loop. Undefined: no result
   * is valid for longer than its read.
   */
  get moment(): number | undefined {
    return this.context.shared.moment;
  }

  /**
   * A number that changes whenever any process may have renamed or moved an entry. A DN stays valid while the number,
   * read after `versionOf` or `findRow`, is unchanged. Comparable only within this process and thread.
   */
  get treeGeneration(): number {
    return this.context.shared.generation;
  }

  /** Opens a reader for the values over 64 KiB of an entry. The caller has to close the reader. */
  async openLarge(id: Buffer): Promise<LargeReader> {
    return this.#translate(LargeReader.open(this.store, id));
  }

  /** Evaluates the filter on a virtual entry. Returns the entry, as far as the viewer may read it, if it matches. */
  findVirtual(virtual: VirtualEntry, filter: Filter, viewer: Viewer): FoundEntry | undefined {
    return this.#findRow(virtual, this.context.compiler.compile(filter, viewer).filter, viewer);
  }

  /**
   * Returns an entry as a write will leave it, as far as the viewer may read it. Its groups and the number of its
   * children are those before the write.
   */
  findWritten(written: WrittenEntry, params: SearchParams): Hit | undefined {
    const found = this.findVirtual(written, { type: 'and', filters: [] }, params.viewer);
    if (!found) return undefined;
    const { id, row, dn, sight } = found;
    const hit = new SearchHit(this.context, params, id, row, dn, sight);
    const { former } = written;
    const stored = former ? new SearchHit(this.context, params, id, former.row, former.dn, sight) : hit;
    return {
      ...{ id, row, dn, sight },
      hasSubordinates: () => stored.hasSubordinates(),
      numSubordinates: () => stored.numSubordinates(),
      memberOf: () => stored.memberOf(),
      withMembers: (limit) => hit.withMembers(limit),
    };
  }

  /** Like `findVirtual`, for a stored entry. `unknown`: only a search can tell. */
  findStored(stored: StoredEntry, filter: Filter, viewer: Viewer): FoundEntry | 'unknown' | undefined {
    const { filter: compiled, inputs } = this.context.compiler.compile(filter, viewer);
    const { needsSubordinates, needsGroups, needsDirectGroups, needsLockTimes, chains } = inputs;
    const needsMore = needsSubordinates || needsGroups || needsDirectGroups || needsLockTimes || chains.length > 0;
    return stored.isComplete && !needsMore ? this.#findRow(stored, compiled, viewer) : 'unknown';
  }

  #findRow(virtual: VirtualEntry, compiled: CompiledFilter, viewer: Viewer): FoundEntry | undefined {
    const sight = viewer.sightOf?.({ ...virtual, parent: virtual.parent ?? ROOT });
    if (viewer.sightOf && !sight) return undefined;
    const row = seenRow(this.descriptions, virtual.row, sight, 'search');
    const candidate = {
      row,
      dn: virtual.dn,
      hasSubordinates: false,
      numSubordinates: 0,
      sight,
      largeValues: undefined,
    };
    if (evaluate(compiled, candidate) !== TRUE) return undefined;
    return { ...virtual, row: seenRow(this.descriptions, virtual.row, sight, 'read'), sight };
  }

  /** See `read/matched-values.ts`. */
  valueFilter(filter: Filter): ValueFilter {
    return valueFilter(this.context, filter);
  }

  virtualRow(attributes: readonly { readonly type: string; readonly values: readonly Buffer[] }[]): Buffer {
    return virtualRow(this.context, attributes);
  }

  compare(dn: Dn, attribute: string, value: Buffer, viewer: Viewer, options?: CompareOptions): Maybe<boolean> {
    const work = () => compare(this.context, dn, attribute, value, viewer, options);
    return this.#translateMaybe(() => this.#maskErrors(viewer, work));
  }

  /** Like `compare`, for a virtual entry, which the viewer sees. */
  compareVirtual(entry: LocatedEntry, attribute: string, value: Buffer, viewer: Viewer): Maybe<boolean> {
    return compareVirtual(this.context, entry, attribute, value, viewer);
  }

  /** Runs the work. Its errors must not name entries that the viewer cannot see. */
  #maskErrors<T>(viewer: Viewer, work: () => Maybe<T>): Maybe<T> {
    if (!viewer.sightOf) return work();
    const throwMasked = async (error: unknown): Promise<never> => {
      throw await errorAsSeen(this.context, this.store, viewer, error);
    };
    try {
      const result = work();
      return isPromise(result) ? result.catch(throwMasked) : result;
    } catch (error) {
      return throwMasked(error);
    }
  }

  async add(dn: Dn, attributes: readonly PartialAttribute[], actor: Actor, options?: WriteOptions): Promise<Buffer> {
    return this.#translate(add(this.context, dn, attributes, actor, options));
  }

  async modify(
    dn: Dn,
    changes: readonly Modification[] | Modifier,
    actor: Actor,
    options?: ModifyOptions,
  ): Promise<void> {
    return this.#translate(modify(this.context, dn, changes, actor, options));
  }

  async rename(dn: Dn, target: RenameTarget, actor: Actor, options?: WriteOptions): Promise<void> {
    return this.#translate(rename(this.context, dn, target, actor, options));
  }

  async delete(dn: Dn, actor: Actor, options?: WriteOptions): Promise<void> {
    return this.#translate((options?.tree ? removeTree : remove)(this.context, dn, actor, options ?? {}));
  }

  /**
   * Runs `work` on a trial directory, which sees its own writes, and commits all its writes as one plan. Nothing is
   * changed if `work` rejects. `work` runs again, on a new trial directory, if others have changed what it depends on.
   */
  async transaction<T>(work: (trial: Partition) => Promise<T>): Promise<T> {
    const openTrial = (store: Store) => Partition.open(store, this.schema, { base: this.context });
    return this.#translate(runTransaction(this.context, openTrial, work));
  }

  /** Whether this is the trial directory of a transaction. */
  get isTrial(): boolean {
    return this.store instanceof TrialStore;
  }

  async load(
    entries: AsyncIterable<readonly LoadEntry[]>,
    actor: Actor,
    options: LoadOptions,
  ): Promise<{ loaded: number; rejected: number }> {
    return this.#translate(load(this.context, entries, actor, options));
  }

  /** Adds an index to the list. `buildIndexes` completes the index, and searches use it from then on. */
  async addIndex(attribute: string, options: AddIndexOptions = {}): Promise<void> {
    return this.#translate(addIndex(this.context, attribute, options));
  }

  /** Completes unfinished indexes. A server does this when it starts. Several processes may run this at once. */
  async buildIndexes(onProgress?: (entriesRead: number) => void): Promise<void> {
    return this.#translate(buildIndexes(this.context, onProgress));
  }

  async dropIndex(attribute: string): Promise<void> {
    return this.#translate(dropIndex(this.context, attribute));
  }

  /** Returns the indexes that searches of all processes lacked, the greatest gain first, with estimated costs. */
  async indexProposals(): Promise<(IndexTally & IndexCost)[]> {
    return this.#translate(this.#indexProposals());
  }

  async #indexProposals(): Promise<(IndexTally & IndexCost)[]> {
    const { proposals } = await readProposals(this.context);
    const costs = await estimateCosts(this.context, proposals);
    return proposals.map((proposal, i) => ({ ...proposal, ...costs[i]! }));
  }

  /** Adds the searches of this process that lacked an index, and the attributes whose index searches have used. */
  async addTallies(tallies: readonly IndexTally[], usedNames: ReadonlySet<string>, now: number): Promise<void> {
    return this.#translate(addTallies(this.context, tallies, usedNames, now));
  }

  async forgetProposals(): Promise<void> {
    return this.#translate(forgetProposals(this.context));
  }

  /** Makes a proposed index, and drops unused made ones. `now`: ms since 1970. See `index/self-made.ts`. */
  async tendIndexes(maxIndexes: number, now: number, piecework?: Piecework): Promise<TendedIndexes> {
    return this.#translate(tendIndexes(this.context, maxIndexes, now, piecework));
  }

  uniqueConstraints(): readonly Constraint[] {
    return this.context.shared.values.constraints;
  }

  /** Adds a uniqueness constraint and resolves with its number. `finishUnique` puts it in force. */
  async addUnique(definition: UniqueDefinition): Promise<number> {
    return this.#translate(addUnique(this.context, definition));
  }

  /** Puts new constraints in force, or reports conflicts. Several processes may run this at once. */
  async finishUnique(listener?: UniqueListener): Promise<void> {
    return this.#translate(finishUnique(this.context, listener));
  }

  async removeUnique(number: number): Promise<void> {
    return this.#translate(removeUnique(this.context, number));
  }

  /** Returns the ranges from which the server assigns numbers, each with its next number and how many are left. */
  async numberRanges(): Promise<AssignedRange[]> {
    return this.#translate(assignedRanges(this.context));
  }

  /** Sets the range from which the server assigns numbers to entries that request a value `auto` of the attribute. */
  async setNumbers(attribute: string, first: number, last: number, except?: readonly number[]): Promise<void> {
    return this.#translate(setNumbers(this.context, attribute, first, last, except));
  }

  async removeNumbers(attribute: string): Promise<void> {
    return this.#translate(removeNumbers(this.context, attribute));
  }

  /** Replaces the schema of the directory. Processes use the new schema when they open the directory again. */
  async changeSchema(newSchema: Schema): Promise<SchemaChange> {
    return this.#translate(changeSchema(this.context, newSchema));
  }

  /** Reads the rows that indexed searches will read, so that the operating system caches them. */
  async warm(onProgress: (what: string, entries: number) => void): Promise<WarmResult> {
    return this.#translate(warm(this.store, this.context.shared.indexes, onProgress));
  }

  /** Looks for missing tables and reports them. Indexes without a table are lost from then on. */
  async noteMissingTables(): Promise<void> {
    for (const error of await missingTables(this.store)) await noteMissing(this.context, error);
  }

  /** Verifies all invariants. Resolves with the number of breaches. */
  async check(
    onBreach: (breach: Breach) => void,
    onProgress?: (entriesRead: number, table?: string) => void,
    onPasswords?: OnPasswords,
  ): Promise<number> {
    return this.#translate(check(this.context, onBreach, onProgress, onPasswords));
  }

  /** Restores rows and cells that derive from entries (`upkeep/repair.ts`). Resolves with the number of repairs. */
  async repair(onBreach?: OnRepaired, onProgress?: (entriesRead: number) => void): Promise<number> {
    return this.#translate(repair(this.context, onBreach, onProgress));
  }

  async *deletedEntries(): AsyncIterable<DeletedEntry> {
    // What may not be written now is deleted later.
    await this.context.finishTrees().catch(() => undefined);
    yield* deletedEntries(this.store);
  }

  /** Restores a deleted entry. Resolves with its DN. */
  async restore(id: Buffer, actor: Actor): Promise<string> {
    return this.#translate(this.context.finishTrees().then(() => restore(this.context, id, actor)));
  }

  /** Restores an entry and the entries deleted below it. */
  async restoreSubtree(id: Buffer, actor: Actor, options: SubtreeRestore): Promise<void> {
    return this.#translate(this.context.finishTrees().then(() => restoreSubtree(this.context, id, actor, options)));
  }

  /** Purges the entries deleted before `beforeMs` (ms since 1970). Resolves with their number. */
  async purge(beforeMs: number, piecework?: Piecework): Promise<number> {
    return this.#translate(purge(this.context, beforeMs, piecework));
  }

  /** Removes the change records from before `beforeMs` (ms since 1970) except the last. Resolves with their number. */
  async trimChanges(beforeMs: number, piecework?: Piecework): Promise<number> {
    return this.#translate(trimChanges(this.store, beforeMs, piecework));
  }

  /** Corrects wrong counters of entries while writers continue. Resolves with their number. See `upkeep/repair.ts`. */
  async recount(piecework?: Piecework): Promise<number> {
    return this.#translate(recount(this.context, piecework));
  }

  /** Checks about `entries` randomly drawn entries. See `upkeep/check/check.ts`. */
  async sampleCheck(entries: number, piecework?: Piecework): Promise<SampleResult> {
    return this.#translate(sampleCheck(this.context, entries, piecework));
  }

  /** Returns the account state that binds have recorded; undefined if there is none. */
  accountState(id: Buffer): Maybe<StoredState['state'] | undefined> {
    return this.#translateMaybe(() => chain(readState(this.context, id), (stored) => stored?.state));
  }

  /** Returns the entryUUIDs of accounts that failed binds have locked until after `now`; see `lockedIds`. */
  async lockedAccounts(now: number, pause: () => Maybe<void>): Promise<Buffer[]> {
    return this.#translate(lockedIds(this.context, now, pause));
  }

  /** Changes the state of an account atomically; see `changeState`. */
  async changeAccountState(id: Buffer, edit: StateEdit): Promise<void> {
    return this.#translate(changeState(this.context, id, edit));
  }

  /** Clears the failed binds, the lock that they caused, and the grace logins of an account. */
  async clearAccountState(id: Buffer): Promise<void> {
    return this.#translate(clearState(this.context, id));
  }

  /** Takes as long as `changeAccountState`, for a bind with an unknown name: timing must not tell which names exist. */
  async changeDecoyState(): Promise<void> {
    return this.#translate(commitDecoy(this.context));
  }

  /** Newest version of the access rules that this process has read; 0: none. See `freshAccessVersion`. */
  get accessVersion(): number {
    return this.context.shared.accessVersion;
  }

  freshAccessVersion(): Maybe<number> {
    return this.#translateMaybe(() => chain(this.context.shared.fresh(), () => this.accessVersion));
  }

  /** Returns the access rules of a version, by default of the version in force; undefined if there are none. */
  async accessRules(version = this.accessVersion): Promise<StoredAccess | undefined> {
    return this.#translate(readAccess(this.store, version));
  }

  /** Returns all versions of the access rules, the latest first. */
  async accessHistory(): Promise<StoredAccess[]> {
    return this.#translate(accessHistory(this.store, this.accessVersion));
  }

  /** Sets new access rules, if `replacedVersion` is the version in force. Resolves with the new version. */
  async setAccess(text: string, author: string, replacedVersion: number): Promise<number> {
    return this.#translate(this.context.shared.setAccess(text, author, replacedVersion));
  }

  adminPassword(): Maybe<Buffer> {
    return this.#translateMaybe(() => chain(this.context.shared.fresh(), () => this.settings.adminPassword));
  }

  /** Sets the administrator's stored password. Returns false if `replacedHash` is given and not the stored one. */
  async setAdminPassword(hash: Buffer, replacedHash?: Buffer): Promise<boolean> {
    return this.#translate(this.context.shared.setAdminPassword(hash, replacedHash));
  }

  async addSuffix(dn: string): Promise<void> {
    return this.#translate(this.context.shared.addSuffix(dn));
  }

  /** Updates references after changes of names. Resolves with the number of changes that were pending. */
  async settleReferences(): Promise<number> {
    return this.#translate(this.#settleReferences());
  }

  /** Reports every reference to a missing entry, and deletes it with `remove`. Resolves with their number. */
  async danglingReferences(onDangling: (reference: DanglingReference) => void, remove?: boolean): Promise<number> {
    return this.#translate(reportDangling(this.context, onDangling, remove));
  }

  /** Returns a packed master row in which references have current names; see `model/present-row.ts`. */
  presentRow(row: Buffer): Buffer {
    return presentRow(this.context, row);
  }

  /** Returns the attributes whose values follow the names of entries. */
  references(): string[] {
    return [...this.context.shared.references].map(({ name }) => name);
  }

  /** Sets the attributes whose values, and those of subtypes, follow the names of entries. */
  async setReferences(attributes: readonly string[]): Promise<void> {
    return this.#translate(setReferences(this.context, attributes));
  }

  async #settleReferences(): Promise<number> {
    await this.context.shared.refresh();
    const { length } = this.context.shared.nameChanges.records;
    if (length > 0) await this.context.references.settle();
    await this.context.references.follow();
    await this.context.finishTrees();
    return length;
  }

  async close(): Promise<void> {
    this.feed.close();
    await this.context.references.close();
    await this.store.close();
  }

  /** Refuses the work during an outage. `endsEarly`: also ends work that waits already. */
  #translateMaybe<T>(work: () => Maybe<T>, endsEarly = true): Maybe<T> {
    const { failureCount: failures, refusal } = this.outage;
    if (refusal) return Promise.reject(refusal);
    try {
      const result = work();
      if (isPromise(result)) return this.#translate(endsEarly ? this.outage.untilRefused(result) : result);
      this.outage.recordSuccess(failures);
      return result;
    } catch (error) {
      this.outage.recordFailure(error);
      throw toLdapError(error);
    }
  }

  async #translate<T>(work: Promise<T>): Promise<T> {
    const { failureCount: failures } = this.outage;
    try {
      const result = await work;
      this.outage.recordSuccess(failures);
      return result;
    } catch (error) {
      this.outage.recordFailure(error);
      await noteMissing(this.context, error).catch(() => false);
      throw toLdapError(error);
    }
  }
}

/** Whether the directory has the table of account states. Creates the table if an older version did not. */
async function hasStates(store: Store, readOnly: boolean): Promise<boolean> {
  if ((await store.tables()).some(({ name }) => name === STATE_TABLE.name)) return true;
  if (!readOnly) await store.createTable(STATE_TABLE);
  return !readOnly;
}
