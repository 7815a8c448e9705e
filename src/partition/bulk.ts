import { LdapError } from '../ldap/error.js';
import type { Dn } from '../schema/types.js';
import type { LoadRow, LoadTable, PlanStep } from '../store/contract.js';
import { StoreError } from '../store/errors.js';
import { isPromise } from '../store/maybe.js';
import { counterBytes, EMPTY, packRow, packSorted } from '../store/row.js';
import { addPrepared, entryId, newNode, prepareEntry } from './add.js';
import { BulkRows } from './bulk-rows.js';
import { type Draft, draftFromAttributes, entryCells } from './entry.js';
import { implyEntry } from './implied.js';
import { type Node, nodeTreeKey, normText, ROOT } from './nodes.js';
import { toLdapError } from './store-errors.js';
import { CHANGES_TABLE, MASTER_TABLE, TREE_TABLE } from './tables.js';
import type { Actor, LoadEntry, LoadProgress, LoadReject } from './types.js';
import { changeCells, countSteps, isSpecial, type WriteContext } from './write.js';

/** Entries written in one transaction: it holds the write lock for some tens of milliseconds. */
const BATCH = 2000;
/** Or so many bytes of values. */
const BATCH_BYTES = 8 * 1024 * 1024;

export interface LoadOptions {
  onReject(reject: LoadReject): void;
  onProgress?(progress: LoadProgress): void;
  /** Goes on behind a rejected entry; else the load ends there, with what came before it stored. */
  readonly continue: boolean;
}

/** An entry that was checked and waits for its batch. */
interface Prepared {
  readonly entry: LoadEntry;
  readonly dn: Dn;
  readonly draft: Draft;
  readonly node: Node;
  readonly upRdn: Buffer;
}

/**
 * Loads entries in bulk. Everything that an add checks is checked, and the rows are those that adds would leave; only
 * they are written a batch at a time, sorted, one transaction for some thousands of entries. A batch is wholly there or
 * not at all. Parents come before their children.
 */
export async function load(
  context: WriteContext,
  entries: AsyncIterable<readonly LoadEntry[]>,
  actor: Actor,
  options: LoadOptions,
): Promise<{ loaded: number; rejected: number }> {
  const loader = new BulkLoader(context, { ...actor, system: true }, options);
  for await (const chunk of entries) {
    for (const entry of chunk) {
      const taken = loader.take(entry);
      if (isPromise(taken)) await taken;
      if (loader.ended) break;
    }
    if (loader.ended) break;
  }
  await loader.end();
  await context.store.flush();
  return { loaded: loader.loaded, rejected: loader.rejected };
}

class BulkLoader {
  readonly context: WriteContext;
  readonly #actor: Actor;
  readonly #options: LoadOptions;
  #batch: Prepared[] = [];
  #bytes = 0;
  /** Of the batch, by normalized DN. */
  #nodes = new Map<string, Node>();
  /** Of the batch that is being written while the next one is prepared. */
  #writingNodes = new Map<string, Node>();
  #writing: Promise<void> = Promise.resolve();
  loaded = 0;
  rejected = 0;
  ended = false;

  constructor(context: WriteContext, actor: Actor, options: LoadOptions) {
    this.context = context;
    this.#actor = actor;
    this.#options = options;
  }

  /** Checks one entry and puts it into the batch; a promise when the batch is then written. */
  take(entry: LoadEntry): Promise<void> | undefined {
    try {
      const { schema } = this.context;
      const dn = schema.parseDn(entry.dn);
      if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be added');
      const parent = this.#parentOf(dn);
      if (isPromise(parent)) return parent.then((p) => this.#guarded(entry, () => this.#prepare(entry, dn, p))).then(() => this.#full());
      this.#prepare(entry, dn, parent);
    } catch (error) {
      this.#reject(entry, error);
    }
    return this.#full();
  }

  #full(): Promise<void> | undefined {
    return this.#batch.length >= BATCH || this.#bytes >= BATCH_BYTES ? this.flush() : undefined;
  }

  #guarded(entry: LoadEntry, work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#reject(entry, error);
    }
  }

  #parentOf(dn: Dn): Node | undefined | Promise<Node | undefined> {
    const { shared, nodes } = this.context;
    if (shared.suffixNorms.has(normText(dn, 0))) return ROOT;
    const name = normText(dn, 1);
    return this.#nodes.get(name) ?? this.#writingNodes.get(name) ?? nodes.byDn(dn, 1, shared.suffixNorms);
  }

  #prepare(entry: LoadEntry, dn: Dn, parent: Node | undefined): void {
    const name = normText(dn, 0);
    if (!parent || (parent === ROOT && !this.context.shared.suffixNorms.has(name))) {
      throw new LdapError('noSuchObject', 'the entry above it does not exist; parents come before their children');
    }
    if (this.#nodes.has(name) || this.#writingNodes.has(name)) throw new LdapError('entryAlreadyExists', 'an entry with this name came before');
    const draft = draftFromAttributes(this.context.schema, entry.attributes);
    prepareEntry(this.context, draft, dn, this.#actor);
    const id = entryId(draft);
    const { node, upRdn } = newNode(dn, parent, id);
    this.#nodes.set(name, node);
    this.#batch.push({ entry, dn, draft, node, upRdn });
    for (const { values } of entry.attributes) for (const value of values) this.#bytes += value.length;
  }

  #reject(entry: LoadEntry, error: unknown): void {
    const shown = toLdapError(error);
    if (!(shown instanceof LdapError) || error instanceof StoreError) throw error;
    this.rejected++;
    const { result, message } = shown;
    this.#options.onReject({ entry, reason: message ? `${result}: ${message}` : result, result });
    if (!this.#options.continue) this.ended = true;
  }

  /** Has the batch written once the one before it is; resolves when the next may be prepared. */
  async flush(): Promise<void> {
    const batch = this.#batch;
    const nodes = this.#nodes;
    this.#batch = [];
    this.#nodes = new Map();
    this.#bytes = 0;
    await this.#writing;
    this.#writingNodes = nodes;
    this.#writing = this.#write(batch);
    // Awaited by the next flush; until then a failure must not count as unhandled.
    this.#writing.catch(() => undefined);
  }

  /** Everything is written. */
  async end(): Promise<void> {
    await this.flush();
    await this.#writing;
  }

  /** At once, or entry by entry when something in it is there already or has changed meanwhile. */
  async #write(batch: readonly Prepared[]): Promise<void> {
    if (batch.length === 0) return;
    const { context } = this;
    try {
      await context.store.ingest(...this.#rows(batch));
      this.loaded += batch.length;
    } catch (error) {
      if (!(error instanceof StoreError && error.code === 'guard')) throw error;
      context.nodes.clear();
      await context.shared.refresh();
      await this.#oneByOne(batch);
    }
    this.#options.onProgress?.({ loaded: this.loaded, rejected: this.rejected, phase: 'entries' });
    await context.shared.refresh();
  }

  async #oneByOne(batch: readonly Prepared[]): Promise<void> {
    for (const { entry, dn, draft } of batch) {
      if (this.ended) return;
      try {
        await addPrepared(this.context, draft, dn, this.#actor, { manageDsaIT: true });
        this.loaded++;
      } catch (error) {
        this.#reject(entry, error);
      }
    }
  }

  #rows(batch: readonly Prepared[]): [LoadTable[], { steps: PlanStep[]; decisive: number }] {
    const context = this.context;
    const master: LoadRow[] = [];
    const tree: LoadRow[] = [];
    const changes: LoadRow[] = [];
    const implied = new BulkRows();
    const steps: PlanStep[] = [];
    const counts = new Map<Node, number>();
    let special = false;
    for (const { draft, node, upRdn } of batch) {
      implied.begin(node.id);
      implyEntry(draft, context.shared.indexes, implied);
      tree.push({ key: nodeTreeKey(node), row: implied.end() });
      const info = { parentId: node.parent!.id, normRdn: node.normRdn, upRdn, version: counterBytes(1n) };
      const { cells, separate } = entryCells(draft, info);
      master.push({ key: node.id, row: packSorted(cells), separate: separate.length > 0 ? packRow(separate) : undefined });
      const change = { op: 'add', id: node.id, dn: node.dn, by: this.#actor.dn, csn: draft.text('entryCSN')! } as const;
      changes.push({ key: EMPTY, row: packSorted(changeCells(change)) });
      counts.set(node.parent!, (counts.get(node.parent!) ?? 0) + 1);
      special ||= isSpecial(draft);
    }
    steps.push(context.shared.guardStep(special));
    for (const [parent, count] of counts) steps.push(...countSteps(parent, BigInt(count), BigInt(count)));
    const tables = [
      { table: TREE_TABLE.name, rows: sorted(tree), absent: true },
      { table: MASTER_TABLE.name, rows: sorted(master), absent: true },
      { table: CHANGES_TABLE.name, rows: changes, append: true },
    ];
    return [[...tables, ...implied.indexTables()], { steps, decisive: 0 }];
  }
}

function sorted(rows: LoadRow[]): LoadRow[] {
  const keyed = rows.map((row) => ({ row, name: row.key.toString('latin1') }));
  return keyed.sort((a, b) => (a.name < b.name ? -1 : 1)).map(({ row }) => row);
}
