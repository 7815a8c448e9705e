import type { Change, Filter, PartialAttribute } from '../ldap/types.js';
import type { Schema } from '../schema/schema.js';
import type { Dn } from '../schema/types.js';
import type { Maybe, Store } from '../store/contract.js';
import { chain, isPromise } from '../store/maybe.js';
import { cellCounter } from '../store/row.js';
import { add } from './add.js';
import { type LoadOptions, load } from './bulk.js';
import { check } from './check/check.js';
import { repair } from './check/repair.js';
import { compare } from './compare.js';
import { CsnClock } from './csn.js';
import { remove } from './delete.js';
import { deletedEntries, purge, restore } from './deleted.js';
import { DescriptionTable } from './descriptions.js';
import { EntryIds } from './entry-ids.js';
import { explain } from './explain.js';
import { evaluate, TRUE, UNDEFINED } from './filter.js';
import { FilterCompiler } from './filter-compiler.js';
import { latestCsn } from './history.js';
import { addIndex, dropIndex } from './index-admin.js';
import { buildIndexes } from './index-build.js';
import { untilStill } from './large.js';
import { LargeReader } from './large-reader.js';
import { findEntry, type ReadRow, requireEntry } from './locate.js';
import { type Maintained, maintain } from './maintain.js';
import { modify } from './modify.js';
import { NodeCache } from './nodes.js';
import { readById, toEntry, virtualRow } from './read.js';
import { type RenameTarget, rename } from './rename.js';
import { type SearchContext, search } from './search.js';
import { SharedState } from './shared.js';
import { toLdapError } from './store-errors.js';
import { MASTER, MASTER_TABLE, Q } from './tables.js';
import type {
  Actor,
  Breach,
  DeletedEntry,
  Directory,
  DirectorySettings,
  Entry,
  Explanation,
  IndexInfo,
  LoadEntry,
  SearchOutcome,
  SearchParams,
  SearchSink,
  View,
  WriteOptions,
} from './types.js';
import { type Warmed, warm } from './warm.js';
import type { WriteContext } from './write.js';

export interface PartitionOptions {
  /** Milliseconds since 1970. */
  readonly now?: () => number;
  /** Number of this process among those that write to the directory, which goes into each entryCSN. */
  readonly process?: number;
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
    return new Partition({ store, schema, descriptions, nodes, ids: new EntryIds(), shared, csn, compiler });
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

  /** The entry's id and packed master row, without a promise on an embedded store: for bind and compare. Store errors come translated. */
  findRow(dn: Dn): Maybe<{ id: Buffer; row: Buffer } | undefined> {
    return translatedMaybe(() => this.context.shared.ahead(() => this.#findRow(dn)));
  }

  /** The same, but of a long row the head alone may come. */
  findHead(dn: Dn): Maybe<{ id: Buffer; row: Buffer } | undefined> {
    return translatedMaybe(() => this.context.shared.ahead(() => this.#findRow(dn, 'getHead')));
  }

  #findRow(dn: Dn, how: ReadRow = 'get'): Maybe<{ id: Buffer; row: Buffer } | undefined> {
    return chain(
      findEntry(this.context, this.store, dn, how),
      (found) => found && { id: found.node.id, row: found.row },
    );
  }

  /** The version counter of an entry as of now; undefined when it is gone. */
  versionOf(id: Buffer): Maybe<bigint | undefined> {
    return translatedMaybe(() =>
      chain(
        this.store.getHead(MASTER_TABLE.name, id, true),
        (row) => row && cellCounter(row, MASTER.treeInfo, Q.version),
      ),
    );
  }

  /** The entry's values over 64 KiB, piece by piece. To be closed. */
  async openLarge(id: Buffer): Promise<LargeReader> {
    return translated(LargeReader.open(this.store, id));
  }

  /** Three-valued: undefined is neither true nor false. For virtual entries. */
  matchesFilter(row: Buffer, filter: Filter, view: View, dn: Buffer = Buffer.alloc(0)): boolean | undefined {
    const compiled = this.context.compiler.compile(filter, view);
    const result = evaluate(compiled.filter, { row, dn, hasSubordinates: false, numSubordinates: 0, large: undefined });
    return result === UNDEFINED ? undefined : result === TRUE;
  }

  virtualRow(attributes: readonly { readonly type: string; readonly values: readonly Buffer[] }[]): Buffer {
    return virtualRow(this.context, attributes);
  }

  async compare(dn: Dn, attribute: string, value: Buffer, view: View, options?: WriteOptions): Promise<boolean> {
    return translated(compare(this.context, dn, attribute, value, view, options));
  }

  async add(dn: Dn, attributes: readonly PartialAttribute[], actor: Actor, options?: WriteOptions): Promise<Buffer> {
    return translated(add(this.context, dn, attributes, actor, options));
  }

  async modify(dn: Dn, changes: readonly Change[], actor: Actor, options?: WriteOptions): Promise<void> {
    return translated(modify(this.context, dn, changes, actor, options));
  }

  async rename(dn: Dn, to: RenameTarget, actor: Actor, options?: WriteOptions): Promise<void> {
    return translated(rename(this.context, dn, to, actor, options));
  }

  async delete(dn: Dn, actor: Actor, options?: WriteOptions): Promise<void> {
    return translated(remove(this.context, dn, actor, options));
  }

  /** Loads entries in bulk; see `bulk.ts`. */
  async load(
    entries: AsyncIterable<readonly LoadEntry[]>,
    actor: Actor,
    options: LoadOptions,
  ): Promise<{ loaded: number; rejected: number }> {
    return translated(load(this.context, entries, actor, options));
  }

  /** Registers an index, which `buildIndexes` then completes; searches use it from then on. */
  async addIndex(attribute: string, options: { readonly substring?: boolean } = {}): Promise<void> {
    return translated(addIndex(this.context, attribute, options));
  }

  /** Completes the indexes that are not; a process that serves calls it at start. May run in several processes. */
  async buildIndexes(onProgress?: (done: number) => void): Promise<void> {
    return translated(buildIndexes(this.context, onProgress));
  }

  async dropIndex(attribute: string): Promise<void> {
    return translated(dropIndex(this.context, attribute));
  }

  /** Reads what searches with an index read, so that the system has it in its cache. */
  async warm(onProgress: (what: string, entries: number) => void): Promise<Warmed> {
    return translated(warm(this.store, this.context.shared.indexes, onProgress));
  }

  /** Verifies every invariant; resolves with the number of breaches. */
  async check(onBreach: (breach: Breach) => void, onProgress?: (done: number) => void): Promise<number> {
    return translated(check(this.context, onBreach, onProgress));
  }

  /** Restores what follows from the entries; resolves with the number of breaches mended. See `check/repair.ts`. */
  async repair(onBreach?: (breach: Breach) => void, onProgress?: (done: number) => void): Promise<number> {
    return translated(repair(this.context, onBreach, onProgress));
  }

  deletedEntries(): AsyncIterable<DeletedEntry> {
    return deletedEntries(this.store);
  }

  /** Brings a deleted entry back; resolves with its DN. */
  async restore(id: Buffer, actor: Actor): Promise<string> {
    return translated(restore(this.context, id, actor));
  }

  /** Forgets entries deleted before `before` (ms since 1970); resolves with their number. */
  async purge(before: number): Promise<number> {
    return translated(purge(this.context, before));
  }

  /** What a serving process does from time to time: purges, trims the change records, finishes indexes left unfinished. */
  async maintain(keep: { readonly changesDays: number; readonly deletedDays: number }): Promise<Maintained> {
    return translated(maintain(this.context, keep));
  }

  /** The administrator's stored password as of now. */
  adminPassword(): Maybe<Buffer> {
    return translatedMaybe(() => chain(this.context.shared.fresh(), () => this.settings.adminPassword));
  }

  async setAdminPassword(stored: Buffer): Promise<void> {
    return translated(this.context.shared.setAdminPassword(stored));
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
