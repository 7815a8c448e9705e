import { sameBytes } from '../../bytes/compare.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Maybe, PlanStep } from '../../store/contract.js';
import { isPromise, markHandled } from '../../store/maybe.js';
import { guardsHold, StoreError } from '../../store/store-error.js';
import { isComputed } from '../model/computed.js';
import type { Actor, LoadEntry, LoadProgress, LoadReject, LoadSource, WriteRequest } from '../model/directory-types.js';
import { type Draft, draftFromAttributes } from '../model/draft.js';
import { toLdapError } from '../model/store-errors.js';
import type { Node } from '../model/tables.js';
import { noAncestorMessage } from '../tree/locate.js';
import { normText, ROOT, suffixRdnIndex } from '../tree/nodes.js';
import { addDraft, additionOf, completeEntry } from '../write/add.js';
import type { Change, WriteContext } from '../write/context.js';
import { newLargeSources } from '../write/large-ahead.js';
import { applyRules, requireRequestAllowed } from '../write/rules/apply.js';
import { asksForNumber } from '../write/rules/numbers.js';
import { BulkBatch } from './batch.js';
import { Layouts } from './layout.js';

export interface LoadOptions {
  onReject(reject: LoadReject): void;
  /** Reports an attribute that is not stored, because the server computes it. */
  onLeftOut?(entry: LoadSource, attribute: string): void;
  onLoaded?(entry: LoadSource): void;
  onProgress?(progress: LoadProgress): void;
  /** Whether the load continues after a rejected entry with this result. Earlier entries are stored in any case. */
  readonly continue: boolean | ((result: LoadReject['result']) => boolean);
}

interface PreparedEntry {
  readonly entry: LoadEntry;
  readonly dn: Dn;
  readonly normText: string;
  /** entryUUID set by the source, as latin-1 text. */
  readonly uuid: string | undefined;
}

/** The most batches that are written while the next one is prepared. */
const MAX_WRITING = 2;

/**
 * Loads entries in bulk. Checks each entry like an add and writes the same rows, but in sorted batches: one transaction
 * for some thousands of entries. A batch is stored completely or not at all. Parents must come before their children.
 */
export async function load(
  context: WriteContext,
  entries: AsyncIterable<readonly LoadEntry[]>,
  actor: Actor,
  options: LoadOptions,
): Promise<{ loaded: number; rejected: number }> {
  await context.references.settle();
  const loader = new BulkLoader(context, { ...actor, system: true }, options);
  for await (const batch of entries) {
    const pending = loader.addAll(batch, 0);
    if (isPromise(pending)) await pending;
    if (loader.hasEnded) break;
  }
  await loader.end();
  return { loaded: loader.loadedCount, rejected: loader.rejectedCount };
}

class BulkLoader {
  readonly #context: WriteContext;
  readonly #actor: Actor;
  readonly #options: LoadOptions;
  #layouts: Layouts;
  #batch: BulkBatch;
  /** Batches being written, the oldest first. */
  readonly #batchesInWriting: BulkBatch[] = [];
  #whenWritten: Promise<void> = Promise.resolve();
  /** Parent of the last entry, and its normalized DN. Consecutive entries mostly have the same parent. */
  #lastParent: { readonly norm: Buffer; readonly node: Node } | undefined;
  /** Whether an entry of an earlier batch was refused when it was written. Later entries are then not loaded. */
  #isAborted = false;
  loadedCount = 0;
  rejectedCount = 0;
  hasEnded = false;

  constructor(context: WriteContext, actor: Actor, options: LoadOptions) {
    this.#context = context;
    this.#actor = actor;
    this.#options = options;
    this.#layouts = new Layouts(context.shared.indexes);
    this.#batch = this.#newBatch();
  }

  #newBatch(): BulkBatch {
    return new BulkBatch(this.#actor, this.#layouts, this.#context.shared);
  }

  /** Adds the entries from index `start` on. Keeps no reference to `entries` after the call. */
  addAll(entries: readonly LoadEntry[], start: number): Maybe<void> {
    for (let i = start; i < entries.length && !this.hasEnded; i++) {
      const pending = this.#addEntry(entries[i]!);
      if (pending) return pending.then(() => this.addAll(entries, i + 1));
    }
  }

  /** Checks an entry and adds it to the batch. Returns a promise if the next entry has to wait. */
  #addEntry(entry: LoadEntry): Promise<void> | undefined {
    try {
      const dn = this.#context.schema.parseNewDn(entry.dn);
      if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be added');
      const name = normText(dn, 0);
      const parent = this.#findParent(dn, name);
      if (isPromise(parent)) return this.#addEntryLater(entry, dn, name, parent);
      const pending = this.#prepare(entry, dn, name, parent);
      if (pending) return pending;
    } catch (error) {
      this.#reject(entry.source ?? entry, error);
    }
    return this.#batch.isFull ? this.startWriting() : undefined;
  }

  async #addEntryLater(entry: LoadEntry, dn: Dn, name: string, parent: Promise<Node | undefined>): Promise<void> {
    try {
      await this.#prepare(entry, dn, name, await parent);
    } catch (error) {
      this.#reject(entry.source ?? entry, error);
    }
    if (this.#batch.isFull) await this.startWriting();
  }

  #findParent(dn: Dn, name: string): Maybe<Node | undefined> {
    const { shared, nodes } = this.#context;
    if (shared.suffixNormTexts.has(name)) return ROOT;
    const lastParent = this.#lastParent;
    if (lastParent && sameBytes(lastParent.norm, dn.norm, dn.rdns[0]!.norm.length + 1)) return lastParent.node;
    const parent = this.#findUnstored(normText(dn, 1)) ?? nodes.byDn(dn, 1, shared.suffixes);
    if (!parent || isPromise(parent)) return parent;
    this.#lastParent = { norm: Buffer.from(dn.norm.subarray(dn.rdns[0]!.norm.length + 1)), node: parent };
    return parent;
  }

  /** Returns the node of an entry of this load that may not be stored yet; undefined if there is none. */
  #findUnstored(name: string): Node | undefined {
    const node = this.#batch.nodes.get(name);
    if (node) return node;
    for (const batch of this.#batchesInWriting) {
      const unstored = batch.nodes.get(name);
      if (unstored) return unstored;
    }
    return undefined;
  }

  /** Checks an entry and adds it to the batch. Returns a promise if the entry is added alone, in a plan of its own. */
  #prepare(entry: LoadEntry, dn: Dn, name: string, parent: Node | undefined): Promise<void> | undefined {
    if (!parent || (parent === ROOT && !this.#context.shared.suffixNormTexts.has(name))) {
      throw this.#orphanError(dn);
    }
    if (this.#findUnstored(name)) throw new LdapError('entryAlreadyExists', 'an entry with this name came before');
    requireRequestAllowed(this.#context, this.#requestFor(dn));
    const draft = draftFromAttributes(this.#context.schema, entry.attributes);
    this.#removeComputed(entry, draft);
    const hasUuid = draft.valueText('entryUUID') !== undefined;
    const id = completeEntry(this.#context, draft, dn);
    const uuid = hasUuid ? id.toString('latin1') : undefined;
    // The store finds entryUUIDs that entries of earlier batches have.
    if (uuid !== undefined && this.#batch.entryUuids.has(uuid))
      throw new LdapError('entryAlreadyExists', 'an entry with this entryUUID came before');
    const { values, nameChanges: names } = this.#context.shared;
    // An add may have to wait for pending changes of names. A batch cannot wait, so the entry is added alone.
    if (asksForNumber(values, draft) || !names.isEmpty) return this.#addAlone(entry.source ?? entry, dn, draft);
    const change = additionOf(draft, dn, parent, id, this.#actor, undefined, true);
    const steps = applyRules(this.#context, change);
    if (isPromise(steps))
      return steps.then((resolved) => this.#addToBatch({ entry, dn, normText: name, uuid }, change, resolved));
    return this.#addToBatch({ entry, dn, normText: name, uuid }, change, steps);
  }

  #addToBatch(
    { entry, dn, normText: name, uuid }: PreparedEntry,
    change: Change,
    steps: readonly PlanStep[],
  ): Promise<void> | undefined {
    if (newLargeSources(change.after!)) return this.#addAlone(entry.source ?? entry, dn, change.after!);
    this.#batch.add(entry, name, change, steps);
    if (uuid !== undefined) this.#batch.entryUuids.add(uuid);
    return undefined;
  }

  #orphanError(dn: Dn): LdapError {
    const { shared } = this.#context;
    const reason =
      suffixRdnIndex(dn, shared.suffixes) > 1
        ? 'the entry above it does not exist; parents come before their children'
        : noAncestorMessage(this.#context, dn);
    return new LdapError('noSuchObject', reason);
  }

  /** Removes attributes that the server computes. Dumps of other servers often contain them. */
  #removeComputed(entry: LoadEntry, draft: Draft): void {
    for (let i = draft.attributes.length - 1; i >= 0; i--) {
      const { description } = draft.attributes[i]!;
      if (!description.type.noUserModification || !isComputed(description.type)) continue;
      draft.remove(description);
      this.#options.onLeftOut?.(entry.source ?? entry, description.type.name);
    }
  }

  /** Adds an entry in a plan of its own, after all earlier entries. */
  async #addAlone(source: LoadSource, dn: Dn, draft: Draft): Promise<void> {
    await this.end();
    if (this.#isAborted) return;
    try {
      await this.#add(dn, draft);
      this.#countLoaded(source);
    } catch (error) {
      this.#reject(source, error);
    }
    this.#options.onProgress?.({ loaded: this.loadedCount, rejected: this.rejectedCount });
  }

  #add(dn: Dn, draft: Draft): Promise<Buffer> {
    return addDraft(this.#context, draft, dn, this.#requestFor(dn), { manageDsaIT: true });
  }

  /** Returns the request for access checks. It lists no attributes, since a load may write every stored attribute. */
  #requestFor(dn: Dn): WriteRequest {
    return { op: 'add', actor: this.#actor, changes: [], rdn: dn.rdns[0]! };
  }

  #countLoaded(source: LoadSource): void {
    this.loadedCount++;
    this.#options.onLoaded?.(source);
  }

  /** Reports the entry as rejected. Returns whether the load ends. Rethrows errors of the store. */
  #reject(entry: LoadSource, error: unknown): boolean {
    const ldapError = toLdapError(error);
    if (!(ldapError instanceof LdapError) || error instanceof StoreError) throw error;
    this.rejectedCount++;
    const { result, message } = ldapError;
    this.#options.onReject({ entry, reason: message ? `${result}: ${message}` : result, result });
    const continues = this.#options.continue;
    const isLast = typeof continues === 'boolean' ? !continues : !continues(result);
    this.hasEnded ||= isLast;
    return isLast;
  }

  /** Starts writing the batch. Resolves when the next batch may be prepared. */
  async startWriting(): Promise<void> {
    while (this.#batchesInWriting.length >= MAX_WRITING) await this.#batchesInWriting[0]!.whenWritten;
    const batch = this.#batch;
    const { indexes } = this.#context.shared;
    if (indexes !== this.#layouts.indexes) this.#layouts = new Layouts(indexes);
    this.#batch = this.#newBatch();
    if (batch.size === 0 || this.#isAborted) return;
    this.#batchesInWriting.push(batch);
    batch.whenWritten = markHandled(this.#write(batch, this.#whenWritten));
    this.#whenWritten = batch.whenWritten;
  }

  async end(): Promise<void> {
    await this.startWriting();
    await this.#whenWritten;
  }

  /** Writes the batch; if its plan fails, entry by entry. Waits for the batch before, which may contain parents. */
  async #write(batch: BulkBatch, earlier: Promise<void>): Promise<void> {
    await earlier;
    if (!this.#isAborted && (batch.hasOrphans || !(await this.#ingest(batch)))) await this.#writeOneByOne(batch);
    this.#batchesInWriting.shift();
    this.#options.onProgress?.({ loaded: this.loadedCount, rejected: this.rejectedCount });
    await this.#context.shared.refresh();
  }

  /** Stores the batch. Returns false if a guard failed and nothing was stored. */
  async #ingest(batch: BulkBatch): Promise<boolean> {
    const { store } = this.#context;
    // `rows` may throw `guard`, too.
    const write = async () => store.ingest(...batch.rows());
    if (!(await guardsHold(write()))) return false;
    for (const source of batch.sources()) this.#countLoaded(source);
    return true;
  }

  async #writeOneByOne(batch: BulkBatch): Promise<void> {
    const { schema, shared, nodes } = this.#context;
    nodes.clear();
    await shared.refresh();
    const refusedNodes = new Set<Node>();
    for (const { source, node, dn, draft } of batch.entries(this.#context)) {
      if (this.#isAborted) return;
      try {
        await this.#add(schema.parseDn(dn), draft);
        this.#countLoaded(source);
      } catch (error) {
        this.#isAborted = this.#reject(source, error);
        refusedNodes.add(node);
      }
    }
    // Later batches may contain children of refused entries. Entries that are prepared after this find no stored
    // parent.
    for (const laterBatch of [...this.#batchesInWriting, this.#batch]) laterBatch.markOrphans(refusedNodes);
    batch.nodes.clear();
    this.#lastParent = undefined;
  }
}
