import type { Filter, Modification, PartialAttribute } from '../ldap/ldap-types.js';
import type { Schema } from '../schema/schema.js';
import type { Dn } from '../schema/schema-types.js';
import type { Maybe, Store } from '../store/contract.js';
import { chain, isPromise } from '../store/maybe.js';
import { type LoadOptions, load } from './bulk/load.js';
import type { Directory } from './directory.js';
import { latestCsn } from './feed/history.js';
import { type AddIndexOptions, addIndex, dropIndex } from './index/index-admin.js';
import { buildIndexes } from './index/index-build.js';
import { CsnClock } from './model/csn.js';
import { DescriptionTable } from './model/descriptions.js';
import type {
  Actor,
  Breach,
  ChangesOf,
  DeletedEntry,
  DirectorySettings,
  Entry,
  IndexInfo,
  LoadEntry,
  ModifyOptions,
  WriteOptions,
} from './model/directory.js';
import { EntryReader } from './model/entry-reader.js';
import { untilStill } from './model/large.js';
import { LargeReader } from './model/large-reader.js';
import { toLdapError } from './model/store-errors.js';
import { MASTER_TABLE, versionOf } from './model/tables.js';
import { compare } from './read/compare.js';
import { explain } from './read/explain.js';
import { evaluate, TRUE } from './read/filter/compiled-filter.js';
import { FilterCompiler } from './read/filter/filter-compiler.js';
import { readById, toEntry, virtualRow } from './read/read-entry.js';
import { search } from './read/run/search.js';
import type { SearchContext } from './read/run/search-context.js';
import type { Explanation, SearchOutcome, SearchParams } from './read/search-params.js';
import type { Hit, SearchSink } from './read/sink.js';
import { seenRow } from './read/viewer/seen-row.js';
import type { Viewed, Viewer } from './read/viewer/viewer.js';
import { changeSchema, type SchemaChange } from './schema-change.js';
import { EntryIds } from './tree/entry-ids.js';
import { findEntry, requireEntry } from './tree/locate.js';
import { NodeCache } from './tree/nodes.js';
import { SharedState } from './tree/shared.js';
import { check } from './upkeep/check/check.js';
import type { OnPasswords } from './upkeep/check/survey.js';
import { type Maintained, maintain } from './upkeep/maintain.js';
import { type OnRepaired, repair } from './upkeep/repair.js';
import { type Warmed, warm } from './upkeep/warm.js';
import { add } from './write/add.js';
import type { WriteContext } from './write/context.js';
import { remove } from './write/delete.js';
import { modify } from './write/modify.js';
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
}

/** An entry that was found by its name. */
export interface FoundRow {
  readonly id: Buffer;
  readonly row: Buffer;
  /** `dn`: as stored, UTF-8; made when it is asked for. */
  readonly node: { readonly dn: Buffer };
}

/** A directory over a store: what the server, the command line and embedding programs work with. */
export class Partition implements Directory {
  readonly store: Store;
  readonly schema: Schema;
  readonly descriptions: DescriptionTable;
  /** For the room's own files: everything an operation needs. */
  readonly context: SearchContext & WriteContext;

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
    const compiler = new FilterCompiler(schema, descriptions);
    return new Partition({
      store,
      schema,
      descriptions,
      reader: new EntryReader(descriptions),
      nodes,
      ids: new EntryIds(),
      shared,
      csn,
      compiler,
      rules: RULES,
      lines: new RetryLines(),
    });
  }

  /** What is read from now on is as new as this moment, whichever process wrote it. */
  renewReads(): void {
    if (!this.store.renewReads) return;
    this.store.renewReads();
    this.context.shared.expire();
  }

  /** Takes over the settings and indexes that others have changed; every operation does so by itself. */
  async refresh(): Promise<void> {
    await translatedMaybe(() => this.context.shared.refresh());
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
    return translatedMaybe(() => search(this.context, params, sink));
  }

  async explain(params: SearchParams): Promise<Explanation> {
    return translated(explain(this.context, params));
  }

  async read(dn: Dn, options: WriteOptions & { large?: boolean } = {}): Promise<Entry> {
    return translated(this.#read(dn, options));
  }

  async #read(dn: Dn, options: WriteOptions & { large?: boolean }): Promise<Entry> {
    await this.context.shared.fresh();
    return untilStill(async () => {
      const found = await requireEntry(this.context, this.store, dn, options.manageDsaIT ?? false);
      return toEntry(this.context, found, options.large ?? false);
    });
  }

  async readById(id: Buffer): Promise<Entry | undefined> {
    return translated(readById(this.context, id));
  }

  /**
   * The entry's id and packed master row, without a promise on an embedded store: for bind. Store errors come
   * translated.
   */
  findRow(dn: Dn): Maybe<FoundRow | undefined> {
    const find = () => findEntry(this.context, this.store, dn);
    return translatedMaybe(() =>
      chain(
        this.context.shared.ahead(find),
        (found) => found && { id: found.node.id, row: found.row, node: found.node },
      ),
    );
  }

  /** The version counter of an entry as of now; undefined when it is gone. */
  versionOf(id: Buffer): Maybe<bigint | undefined> {
    const head = () => this.store.getHead(MASTER_TABLE.name, id, true);
    return translatedMaybe(() => chain(this.context.shared.ahead(head), (row) => row && versionOf(row)));
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
    return translated(LargeReader.open(this.store, id));
  }

  /**
   * A virtual entry as a search finds it: its row as the viewer may read it; undefined where the filter is not true.
   */
  findVirtual(virtual: Viewed, filter: Filter, viewer: Viewer): Pick<Hit, 'id' | 'row' | 'dn' | 'sight'> | undefined {
    const sight = viewer.sightOf?.(virtual);
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

  compare(dn: Dn, attribute: string, value: Buffer, viewer: Viewer, options?: WriteOptions): Maybe<boolean> {
    return translatedMaybe(() => compare(this.context, dn, attribute, value, viewer, options));
  }

  async add(dn: Dn, attributes: readonly PartialAttribute[], actor: Actor, options?: WriteOptions): Promise<Buffer> {
    return translated(add(this.context, dn, attributes, actor, options));
  }

  async modify(
    dn: Dn,
    changes: readonly Modification[] | ChangesOf,
    actor: Actor,
    options?: ModifyOptions,
  ): Promise<void> {
    return translated(modify(this.context, dn, changes, actor, options));
  }

  async rename(dn: Dn, to: RenameTarget, actor: Actor, options?: WriteOptions): Promise<void> {
    return translated(rename(this.context, dn, to, actor, options));
  }

  async delete(dn: Dn, actor: Actor, options?: WriteOptions): Promise<void> {
    return translated(remove(this.context, dn, actor, options));
  }

  /** Loads entries in bulk; see `bulk/`. */
  async load(
    entries: AsyncIterable<readonly LoadEntry[]>,
    actor: Actor,
    options: LoadOptions,
  ): Promise<{ loaded: number; rejected: number }> {
    return translated(load(this.context, entries, actor, options));
  }

  /** Registers an index, which `buildIndexes` then completes; searches use it from then on. */
  async addIndex(attribute: string, options: AddIndexOptions = {}): Promise<void> {
    return translated(addIndex(this.context, attribute, options));
  }

  /** Completes the indexes that are not; a process that serves calls it at start. May run in several processes. */
  async buildIndexes(onProgress?: (done: number) => void): Promise<void> {
    return translated(buildIndexes(this.context, onProgress));
  }

  async dropIndex(attribute: string): Promise<void> {
    return translated(dropIndex(this.context, attribute));
  }

  /** Gives the directory another schema, which counts for those who open it from now on. */
  async changeSchema(next: Schema): Promise<SchemaChange> {
    return translated(changeSchema(this.context, next));
  }

  /** Reads what searches with an index read, so that the system has it in its cache. */
  async warm(onProgress: (what: string, entries: number) => void): Promise<Warmed> {
    return translated(warm(this.store, this.context.shared.indexes, onProgress));
  }

  /** Verifies every invariant; resolves with the number of breaches. */
  async check(
    onBreach: (breach: Breach) => void,
    onProgress?: (done: number, table?: string) => void,
    onPasswords?: OnPasswords,
  ): Promise<number> {
    return translated(check(this.context, onBreach, onProgress, onPasswords));
  }

  /** Restores what follows from the entries; resolves with the number of breaches mended. See `check/repair.ts`. */
  async repair(onBreach?: OnRepaired, onProgress?: (done: number) => void): Promise<number> {
    return translated(repair(this.context, onBreach, onProgress));
  }

  deletedEntries(): AsyncIterable<DeletedEntry> {
    return deletedEntries(this.store);
  }

  /** Brings a deleted entry back; resolves with its DN. */
  async restore(id: Buffer, actor: Actor): Promise<string> {
    return translated(restore(this.context, id, actor));
  }

  /** Brings back an entry and what was deleted below it. */
  async restoreSubtree(id: Buffer, actor: Actor, options: SubtreeRestore): Promise<void> {
    return translated(restoreSubtree(this.context, id, actor, options));
  }

  /** Forgets entries deleted before `before` (ms since 1970); resolves with their number. */
  async purge(before: number): Promise<number> {
    return translated(purge(this.context, before));
  }

  /**
   * What a serving process does from time to time: purges, trims the change records, finishes indexes left unfinished.
   */
  async maintain(keep: { readonly changesDays: number; readonly deletedDays: number }): Promise<Maintained> {
    return translated(maintain(this.context, keep));
  }

  /** The administrator's stored password as of now. */
  adminPassword(): Maybe<Buffer> {
    return translatedMaybe(() => chain(this.context.shared.fresh(), () => this.settings.adminPassword));
  }

  /** With `instead` only in place of that one; false where it is another. */
  async setAdminPassword(stored: Buffer, instead?: Buffer): Promise<boolean> {
    return translated(this.context.shared.setAdminPassword(stored, instead));
  }

  async addSuffix(dn: string): Promise<void> {
    return translated(this.context.shared.addSuffix(dn));
  }

  async close(): Promise<void> {
    await this.store.close();
  }
}

function translatedMaybe<T>(work: () => Maybe<T>): Maybe<T> {
  try {
    const result = work();
    return isPromise(result) ? translated(result) : result;
  } catch (error) {
    throw toLdapError(error);
  }
}

async function translated<T>(result: Promise<T>): Promise<T> {
  try {
    return await result;
  } catch (error) {
    throw toLdapError(error);
  }
}
