import { LdapError } from '../ldap/ldap-error.js';
import type { Filter, Modification, PartialAttribute } from '../ldap/ldap-types.js';
import type { Schema } from '../schema/schema.js';
import type { Dn } from '../schema/schema-types.js';
import type { Maybe, Store } from '../store/contract.js';
import { chain, isPromise } from '../store/maybe.js';
import { StoreError } from '../store/store-error.js';
import { type LoadOptions, load } from './bulk/load.js';
import type { Directory } from './directory.js';
import { latestCsn, trimChanges } from './feed/history.js';
import { directGroups } from './groups/direct.js';
import { findsMember, withMembers } from './groups/dynamic-members.js';
import { inChain } from './groups/in-chain.js';
import { membersOf } from './groups/members.js';
import { groupsOf, membershipsOf } from './groups/memberships.js';
import { groupsVersion } from './groups/version.js';
import { type AddIndexOptions, addIndex, dropIndex } from './index/index-admin.js';
import { buildIndexes } from './index/index-build.js';
import { accessHistory, readAccess, type StoredAccess } from './model/access-rows.js';
import type { StoredState } from './model/account-state.js';
import { CsnClock } from './model/csn.js';
import { DescriptionTable } from './model/descriptions.js';
import type {
  Actor,
  Breach,
  ChangesOf,
  CompareOptions,
  DeletedEntry,
  DirectorySettings,
  Entry,
  IndexInfo,
  LoadEntry,
  ModifyOptions,
  WriteOptions,
} from './model/directory-types.js';
import { EntryReader } from './model/entry-reader.js';
import { untilStill } from './model/large.js';
import { LargeReader } from './model/large-reader.js';
import type { Node } from './model/node.js';
import { Outage } from './model/outage.js';
import type { Piecework } from './model/piecework.js';
import { presentRow } from './model/present-row.js';
import { seenRow } from './model/seen-row.js';
import { toLdapError } from './model/store-errors.js';
import { MASTER_TABLE, STATE_TABLE, versionOf } from './model/tables.js';
import type { Unique } from './model/value-rules.js';
import type { Viewer } from './model/viewer.js';
import { compare } from './read/compare.js';
import { explain } from './read/explain.js';
import { evaluate, TRUE } from './read/filter/compiled-filter.js';
import { draftFits } from './read/filter/draft-fits.js';
import { FilterCompiler } from './read/filter/filter-compiler.js';
import { readById, toEntry, virtualRow } from './read/read-entry.js';
import { search } from './read/run/search.js';
import type { SearchContext } from './read/run/search-context.js';
import type { Explanation, SearchOutcome, SearchParams } from './read/search-params.js';
import type { Hit, SearchSink } from './read/sink.js';
import { type Dangling, dangling } from './references/dangling.js';
import { ReferenceKeeper } from './references/keeper.js';
import { changeSchema, type SchemaChange } from './schema-change.js';
import { EntryIds } from './tree/entry-ids.js';
import { findEntry, type Located, requireEntry } from './tree/locate.js';
import { NodeCache, ROOT } from './tree/nodes.js';
import { SharedState } from './tree/shared-state.js';
import { isSeen, seenError, Unseen } from './tree/sight.js';
import { check } from './upkeep/check/check.js';
import { type Sampled, sampleCheck } from './upkeep/check/sample.js';
import type { OnPasswords } from './upkeep/check/survey.js';
import { recount } from './upkeep/recount.js';
import { type OnRepaired, repair } from './upkeep/repair.js';
import { type Warmed, warm } from './upkeep/warm.js';
import { type GivenRange, givenRanges, removeNumbers, setNumbers } from './values/number-admin.js';
import { setReferences } from './values/reference-admin.js';
import { addUnique, removeUnique, type UniqueGiven } from './values/unique-admin.js';
import { finishUnique, type UniqueTold } from './values/unique-build.js';
import { changeNobodysState, changeState, clearState, readState, type StateEdit } from './write/account-state.js';
import { add } from './write/add.js';
import type { WriteContext } from './write/context.js';
import { remove } from './write/delete.js';
import { modify, requireAllowed } from './write/modify.js';
import { NumberPools } from './write/number-pools.js';
import { deletedEntries, purge } from './write/purge.js';
import { type RenameTarget, rename } from './write/rename.js';
import { restore } from './write/restore.js';
import { restoreSubtree, type SubtreeRestore } from './write/restore-subtree.js';
import { RetryLines } from './write/retry-lines.js';
import { RULES } from './write/rules/index.js';

export interface PartitionOptions {
  /** Milliseconds since 1970. */
  readonly now?: () => number;
  /** Number of this process among those that write to the directory, which goes into each entryCSN. */
  readonly process?: number;
  /** Nothing is to be written. */
  readonly readOnly?: boolean;
}

/** An entry that was found by its name. */
export interface FoundRow {
  readonly id: Buffer;
  readonly row: Buffer;
  readonly node: Node;
}

/** An entry that no store holds. */
export interface Virtual {
  readonly id: Buffer;
  /** UTF-8. */
  readonly dn: Buffer;
  /** Normalized, of the whole DN. */
  readonly normRdn?: Buffer;
  readonly row: Buffer;
}

/** A directory over a store: what the server, the command line and embedding programs work with. */
export class Partition implements Directory {
  readonly store: Store;
  readonly schema: Schema;
  readonly descriptions: DescriptionTable;
  /** For the room's own files: everything an operation needs. */
  readonly context: SearchContext & WriteContext;
  readonly outage = new Outage();
  /** `groupsVersion` as it was answered last, of a store that answers at once. */
  #groups: { readonly moment: number | undefined; readonly version: bigint } | undefined;

  private constructor(context: SearchContext & WriteContext) {
    this.context = context;
    this.store = context.store;
    this.schema = context.schema;
    this.descriptions = context.descriptions;
  }

  /** Opens the directory in `store`; `StoreError` `format` when there is none. */
  static async open(store: Store, schema: Schema, options: PartitionOptions = {}): Promise<Partition> {
    const descriptions = new DescriptionTable(schema);
    const nodes = new NodeCache(store);
    const shared = new SharedState(store, schema, () => nodes.clear());
    await shared.fresh();
    const csn = new CsnClock(await latestCsn(store), options.now, options.process);
    const compiler = new FilterCompiler(schema, descriptions, { descriptions, shared });
    const context: SearchContext & WriteContext = {
      store,
      schema,
      descriptions,
      reader: new EntryReader(descriptions),
      nodes,
      ids: new EntryIds(),
      shared,
      csn,
      compiler,
      membersOf: (group) => membersOf(context, group),
      inChain: (chain, viewer, bounds) => inChain(context, chain, viewer, bounds),
      directGroups: (entry, groups, viewer) => directGroups(context, entry, groups, viewer),
      findsMember: (row, name, viewer) => findsMember(context, row, name, viewer),
      withMembers: (row, viewer, until, most) => withMembers(context, row, viewer, until, most),
      membershipsOf: (member, viewer, use, own) => membershipsOf(context, member, viewer, use, own),
      rules: RULES,
      lines: new RetryLines(),
      hasStates: await hasStates(store, options.readOnly ?? false),
      fits: draftFits(compiler),
      numbers: new NumberPools(),
      references: new ReferenceKeeper(() => context),
    };
    return new Partition(context);
  }

  /** What is read from now on is as new as this moment, whichever process wrote it. */
  renewReads(): void {
    if (!this.store.renewReads) return;
    this.store.renewReads();
    this.context.shared.expire();
  }

  /** Takes over the settings and indexes that others have changed; every operation does so by itself. */
  async refresh(): Promise<void> {
    await this.#translatedMaybe(() => this.context.shared.refresh());
  }

  get settings(): DirectorySettings {
    return this.context.shared.settings;
  }
  get suffixes(): readonly Dn[] {
    return this.context.shared.suffixes;
  }
  /** False once the directory has been given another schema than the one this process works with. */
  get schemaIsCurrent(): boolean {
    return this.context.shared.schemaIsCurrent;
  }
  indexes(): IndexInfo[] {
    return this.context.shared.indexes.info();
  }

  search(params: SearchParams, sink: SearchSink): Maybe<SearchOutcome> {
    return this.#translatedMaybe(() => this.#asSeen(params.viewer, () => search(this.context, params, sink)));
  }

  async explain(params: SearchParams): Promise<Explanation> {
    return this.#translated(explain(this.context, params));
  }

  async read(dn: Dn, options: WriteOptions & { large?: boolean } = {}): Promise<Entry> {
    return this.#translated(this.#read(dn, options));
  }

  async #read(dn: Dn, options: WriteOptions & { large?: boolean }): Promise<Entry> {
    await this.context.shared.fresh();
    return untilStill(async () => {
      const found = await requireEntry(this.context, this.store, dn, options.manageDsaIT ?? false);
      return toEntry(this.context, found, options.large ?? false);
    });
  }

  async readById(id: Buffer): Promise<Entry | undefined> {
    return this.#translated(readById(this.context, id));
  }

  /**
   * The entry's id and packed master row, without a promise on an embedded store: for bind. Store errors come
   * translated.
   */
  findRow(dn: Dn): Maybe<FoundRow | undefined> {
    const find = () => findEntry(this.context, this.store, dn);
    return this.#translatedMaybe(() =>
      chain(
        this.context.shared.ahead(find),
        (found) => found && { id: found.node.id, row: found.row, node: found.node },
      ),
    );
  }

  /** The entry, read whole, if it is there for the viewer; else `noSuchObject`, `referral`. */
  async findVisible(dn: Dn, viewer: Viewer): Promise<Located> {
    const find = async (): Promise<Located> => {
      await this.context.shared.fresh();
      const found = await requireEntry(this.context, this.store, dn, false);
      const seen = isSeen(viewer, found.node, () => found.row);
      if (isPromise(seen) ? await seen : seen) return found;
      throw new Unseen(found.node);
    };
    return this.#translatedMaybe(() => this.#asSeen(viewer, find));
  }

  /** Throws what refuses changes of an entry to who wants to make them, as far as the entry is now. */
  async requireAllowed(dn: Dn, changes: readonly Modification[], actor: Actor, options?: WriteOptions): Promise<void> {
    return this.#translated(requireAllowed(this.context, dn, changes, actor, options));
  }

  /** Normalized DNs (Latin-1) of the groups that an entry is in, also of those that its groups are in. */
  groupsOf(user: { readonly id: Buffer; readonly dn: Dn }): Maybe<ReadonlySet<string>> {
    return this.#translatedMaybe(() => groupsOf(this.context, user));
  }

  /**
   * Another number whenever a group may have another member or another name, by whichever process. Whether a dynamic
   * group finds an entry depends on the entry, too: `versionOf` tells. Means nothing to other processes and threads.
   */
  groupsVersion(): Maybe<bigint> {
    const { moment } = this;
    if (moment !== undefined && this.#groups?.moment === moment) return this.#groups.version;
    const version = this.#translatedMaybe(() => groupsVersion(this.context));
    if (!isPromise(version)) this.#groups = { moment: this.moment, version };
    return version;
  }

  /** The version counter of an entry as of now; undefined when it is gone. */
  versionOf(id: Buffer): Maybe<bigint | undefined> {
    const head = () => this.store.getHead(MASTER_TABLE.name, id, true);
    return this.#translatedMaybe(() => chain(this.context.shared.ahead(head), (row) => row && versionOf(row)));
  }

  /**
   * What a store that answers at once has been asked under this number holds for as long as the number stands here;
   * undefined: nothing holds. It lasts a turn of the event loop at most, and no longer than until a plan is committed.
   */
  get moment(): number | undefined {
    return this.context.shared.moment;
  }

  /**
   * Another number whenever an entry may have been renamed or moved, by whichever process: a DN that was read under the
   * number that stands here after `versionOf` or `findRow` is the entry's still. Means nothing to other processes and
   * threads.
   */
  get treeGeneration(): number {
    return this.context.shared.generation;
  }

  /** The entry's values over 64 KiB, piece by piece. To be closed. */
  async openLarge(id: Buffer): Promise<LargeReader> {
    return this.#translated(LargeReader.open(this.store, id));
  }

  /**
   * A virtual entry as a search finds it: its row as the viewer may read it; undefined where the filter is not true.
   */
  findVirtual(virtual: Virtual, filter: Filter, viewer: Viewer): Pick<Hit, 'id' | 'row' | 'dn' | 'sight'> | undefined {
    const sight = viewer.sightOf?.({ ...virtual, parent: ROOT });
    if (viewer.sightOf && !sight) return undefined;
    const { filter: compiled } = this.context.compiler.compile(filter, viewer);
    const row = seenRow(this.descriptions, virtual.row, sight, 'search');
    const candidate = { row, dn: virtual.dn, hasSubordinates: false, numSubordinates: 0, sight, large: undefined };
    if (evaluate(compiled, candidate) !== TRUE) return undefined;
    return { ...virtual, row: seenRow(this.descriptions, virtual.row, sight, 'read'), sight };
  }

  virtualRow(attributes: readonly { readonly type: string; readonly values: readonly Buffer[] }[]): Buffer {
    return virtualRow(this.context, attributes);
  }

  compare(dn: Dn, attribute: string, value: Buffer, viewer: Viewer, options?: CompareOptions): Maybe<boolean> {
    const work = () => compare(this.context, dn, attribute, value, viewer, options);
    return this.#translatedMaybe(() => this.#asSeen(viewer, work));
  }

  /** What the work ends with names entries alone that are there for the viewer. */
  #asSeen<T>(viewer: Viewer, work: () => Maybe<T>): Maybe<T> {
    if (!viewer.sightOf) return work();
    const told = async (error: unknown): Promise<never> => {
      throw await seenError(this.context, this.store, viewer, error);
    };
    try {
      const result = work();
      return isPromise(result) ? result.catch(told) : result;
    } catch (error) {
      return told(error);
    }
  }

  async add(dn: Dn, attributes: readonly PartialAttribute[], actor: Actor, options?: WriteOptions): Promise<Buffer> {
    return this.#translated(add(this.context, dn, attributes, actor, options));
  }

  async modify(
    dn: Dn,
    changes: readonly Modification[] | ChangesOf,
    actor: Actor,
    options?: ModifyOptions,
  ): Promise<void> {
    return this.#translated(modify(this.context, dn, changes, actor, options));
  }

  async rename(dn: Dn, to: RenameTarget, actor: Actor, options?: WriteOptions): Promise<void> {
    return this.#translated(rename(this.context, dn, to, actor, options));
  }

  async delete(dn: Dn, actor: Actor, options?: WriteOptions): Promise<void> {
    return this.#translated(remove(this.context, dn, actor, options));
  }

  /** Loads entries in bulk; see `bulk/`. */
  async load(
    entries: AsyncIterable<readonly LoadEntry[]>,
    actor: Actor,
    options: LoadOptions,
  ): Promise<{ loaded: number; rejected: number }> {
    return this.#translated(load(this.context, entries, actor, options));
  }

  /** Registers an index, which `buildIndexes` then completes; searches use it from then on. */
  async addIndex(attribute: string, options: AddIndexOptions = {}): Promise<void> {
    return this.#translated(addIndex(this.context, attribute, options));
  }

  /** Completes the indexes that are not; a process that serves calls it at start. May run in several processes. */
  async buildIndexes(onProgress?: (done: number) => void): Promise<void> {
    return this.#translated(buildIndexes(this.context, onProgress));
  }

  async dropIndex(attribute: string): Promise<void> {
    return this.#translated(dropIndex(this.context, attribute));
  }

  /** The uniqueness constraints as they are listed. */
  uniqueConstraints(): readonly Unique[] {
    return this.context.shared.values.unique;
  }

  /** Lists a uniqueness constraint, which `finishUnique` then puts in force; resolves with its number. */
  async addUnique(given: UniqueGiven): Promise<number> {
    return this.#translated(addUnique(this.context, given));
  }

  /** Puts constraints in force that are not, and tells what is in their way. May run in several processes. */
  async finishUnique(told?: UniqueTold): Promise<void> {
    return this.#translated(finishUnique(this.context, told));
  }

  async removeUnique(number: number): Promise<void> {
    return this.#translated(removeUnique(this.context, number));
  }

  /** Of which attributes numbers are given out, and how far that is. */
  async numberRanges(): Promise<GivenRange[]> {
    return this.#translated(givenRanges(this.context));
  }

  /** Has the numbers from `first` to `last` given out to whoever asks for a value of the attribute. */
  async setNumbers(attribute: string, first: number, last: number): Promise<void> {
    return this.#translated(setNumbers(this.context, attribute, first, last));
  }

  async removeNumbers(attribute: string): Promise<void> {
    return this.#translated(removeNumbers(this.context, attribute));
  }

  /** Gives the directory another schema, which counts for those who open it from now on. */
  async changeSchema(next: Schema): Promise<SchemaChange> {
    return this.#translated(changeSchema(this.context, next));
  }

  /** Reads what searches with an index read, so that the system has it in its cache. */
  async warm(onProgress: (what: string, entries: number) => void): Promise<Warmed> {
    return this.#translated(warm(this.store, this.context.shared.indexes, onProgress));
  }

  /** Verifies every invariant; resolves with the number of breaches. */
  async check(
    onBreach: (breach: Breach) => void,
    onProgress?: (done: number, table?: string) => void,
    onPasswords?: OnPasswords,
  ): Promise<number> {
    return this.#translated(check(this.context, onBreach, onProgress, onPasswords));
  }

  /** Restores what follows from the entries; resolves with the number of breaches mended. See `check/repair.ts`. */
  async repair(onBreach?: OnRepaired, onProgress?: (done: number) => void): Promise<number> {
    return this.#translated(repair(this.context, onBreach, onProgress));
  }

  deletedEntries(): AsyncIterable<DeletedEntry> {
    return deletedEntries(this.store);
  }

  /** Brings a deleted entry back; resolves with its DN. */
  async restore(id: Buffer, actor: Actor): Promise<string> {
    return this.#translated(restore(this.context, id, actor));
  }

  /** Brings back an entry and what was deleted below it. */
  async restoreSubtree(id: Buffer, actor: Actor, options: SubtreeRestore): Promise<void> {
    return this.#translated(restoreSubtree(this.context, id, actor, options));
  }

  /** Forgets entries deleted before `before` (ms since 1970); resolves with their number. */
  async purge(before: number, piecework?: Piecework): Promise<number> {
    return this.#translated(purge(this.context, before, piecework));
  }

  /** Removes the change records from before `before` (ms since 1970) but the last; resolves with their number. */
  async trimChanges(before: number, piecework?: Piecework): Promise<number> {
    return this.#translated(trimChanges(this.store, before, piecework));
  }

  /** Sets counters of entries that are wrong, beside writers; resolves with their number. See `upkeep/recount.ts`. */
  async recount(piecework?: Piecework): Promise<number> {
    return this.#translated(recount(this.context, piecework));
  }

  /** Checks about `entries` entries, drawn at random. See `upkeep/check/sample.ts`. */
  async sampleCheck(entries: number, piecework?: Piecework): Promise<Sampled> {
    return this.#translated(sampleCheck(this.context, entries, piecework));
  }

  /** What binds have left behind about the account of an entry; undefined: nothing. */
  accountState(id: Buffer): Maybe<StoredState['state'] | undefined> {
    return this.#translatedMaybe(() => chain(readState(this.context, id), (stored) => stored?.state));
  }

  /** Changes that, exactly, whoever else does so; see `changeState`. */
  async changeAccountState(id: Buffer, edit: StateEdit): Promise<void> {
    return this.#translated(changeState(this.context, id, edit));
  }

  /** Forgets failed binds of an account, their lock and its grace logins. */
  async clearAccountState(id: Buffer): Promise<void> {
    return this.#translated(clearState(this.context, id));
  }

  /** Does as much work as `changeAccountState`, for an entry that is not there. */
  async changeNobodysState(): Promise<void> {
    return this.#translated(changeNobodysState(this.context));
  }

  /** Version of the access rules in force, as far as is known; `freshAccess` asks. 0: none were given. */
  get accessVersion(): number {
    return this.context.shared.accessVersion;
  }

  /** `accessVersion` as of now. */
  freshAccess(): Maybe<number> {
    return this.#translatedMaybe(() => chain(this.context.shared.fresh(), () => this.accessVersion));
  }

  /** The access rules in force, or those of a version; undefined where there are none. */
  async accessRules(version = this.accessVersion): Promise<StoredAccess | undefined> {
    return this.#translated(readAccess(this.store, version));
  }

  /** All versions of the access rules, the latest first. */
  async accessHistory(): Promise<StoredAccess[]> {
    return this.#translated(accessHistory(this.store, this.accessVersion));
  }

  /** Puts access rules in force in place of version `instead`; resolves with their version. */
  async setAccess(text: string, by: string, instead: number): Promise<number> {
    return this.#translated(this.#setAccess(text, by, instead));
  }

  async #setAccess(text: string, by: string, instead: number): Promise<number> {
    try {
      return await this.context.shared.setAccess(text, by, instead);
    } catch (error) {
      if (!(error instanceof StoreError) || error.code !== 'guard') throw error;
      throw new LdapError('busy', 'somebody else has changed the access rules meanwhile; look at them and try again');
    }
  }

  /** The administrator's stored password as of now. */
  adminPassword(): Maybe<Buffer> {
    return this.#translatedMaybe(() => chain(this.context.shared.fresh(), () => this.settings.adminPassword));
  }

  /** With `instead` only in place of that one; false where it is another. */
  async setAdminPassword(stored: Buffer, instead?: Buffer): Promise<boolean> {
    return this.#translated(this.context.shared.setAdminPassword(stored, instead));
  }

  async addSuffix(dn: string): Promise<void> {
    return this.#translated(this.context.shared.addSuffix(dn));
  }

  /**
   * Brings references up to date where a process has ended before it did. Resolves with the number of changes of names
   * that were pending.
   */
  async settleReferences(): Promise<number> {
    return this.#translated(this.#settleReferences());
  }

  /**
   * Tells every reference to an entry that is not there, and removes it where that is asked; resolves with their
   * number.
   */
  async danglingReferences(onDangling: (found: Dangling) => void, remove?: boolean): Promise<number> {
    return this.#translated(dangling(this.context, onDangling, remove));
  }

  /** A packed master row with references as the entries are called now; see `model/present-row.ts`. */
  presentRow(row: Buffer): Buffer {
    return presentRow(this.context, row);
  }

  /** Attributes whose values follow the names of the entries that they name. */
  references(): string[] {
    return [...this.context.shared.references].map(({ name }) => name);
  }

  /** Has these attributes, and those below them, follow names, and no others. */
  async setReferences(attributes: readonly string[]): Promise<void> {
    return this.#translated(setReferences(this.context, attributes));
  }

  async #settleReferences(): Promise<number> {
    await this.context.shared.refresh();
    const { length } = this.context.shared.names.records;
    if (length > 0) await this.context.references.settle();
    await this.context.references.follow();
    return length;
  }

  async close(): Promise<void> {
    await this.context.references.close();
    await this.store.close();
  }

  #translatedMaybe<T>(work: () => Maybe<T>): Maybe<T> {
    const { failures } = this.outage;
    try {
      const result = work();
      if (isPromise(result)) return this.#translated(result);
      this.outage.succeeded(failures);
      return result;
    } catch (error) {
      this.outage.failed(error);
      throw toLdapError(error);
    }
  }

  async #translated<T>(work: Promise<T>): Promise<T> {
    const { failures } = this.outage;
    try {
      const result = await work;
      this.outage.succeeded(failures);
      return result;
    } catch (error) {
      this.outage.failed(error);
      throw toLdapError(error);
    }
  }
}

/** Whether the directory has the table of account states, which older versions did not make: it is made now. */
async function hasStates(store: Store, readOnly: boolean): Promise<boolean> {
  if ((await store.tables()).some(({ name }) => name === STATE_TABLE.name)) return true;
  if (!readOnly) await store.createTable(STATE_TABLE);
  return !readOnly;
}
