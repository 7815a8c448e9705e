import { sameBytes } from '../../bytes/compare.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Maybe, PlanStep } from '../../store/contract.js';
import { isPromise, markHandled } from '../../store/maybe.js';
import { guardsHold, StoreError } from '../../store/store-error.js';
import { isComputed } from '../model/computed.js';
import type { Actor, LoadEntry, LoadProgress, LoadReject, LoadSource, WriteRequest } from '../model/directory-types.js';
import { type Draft, draftFromAttributes } from '../model/draft.js';
import type { Node } from '../model/node.js';
import { toLdapError } from '../model/store-errors.js';
import { noAncestorMessage } from '../tree/locate.js';
import { normText, ROOT, suffixAt } from '../tree/nodes.js';
import { addDraft, addition, completeEntry } from '../write/add.js';
import type { Change } from '../write/change.js';
import type { WriteContext } from '../write/context.js';
import { newLarge } from '../write/large-ahead.js';
import { applyRules, requireRequestAllowed } from '../write/rules/apply.js';
import { asksForNumber, chosenNumbers, chosenSteps } from '../write/rules/numbers.js';
import { BulkBatch } from './batch.js';
import { Layouts } from './layout.js';

export interface LoadOptions {
  onReject(reject: LoadReject): void;
  /** Called for an attribute that is not stored because the server computes it. */
  onLeftOut?(entry: LoadSource, attribute: string): void;
  onLoaded?(entry: LoadSource): void;
  onProgress?(progress: LoadProgress): void;
  /** True for a result after which the load continues. Otherwise it ends, and the entries before are stored. */
  readonly continue: boolean | ((result: LoadReject['result']) => boolean);
}

interface Prepared {
  readonly entry: LoadEntry;
  readonly dn: Dn;
  readonly name: string;
  /** entryUUID set by the source, as latin-1 text. */
  readonly uuid: string | undefined;
}

/** Number of batches written while the next one is prepared. */
const MAX_WRITING = 2;

/**
 * Loads entries in bulk. The loader makes all checks of an add and writes the same rows. The difference is that rows
 * are written in sorted batches, one transaction for some thousands of entries. A batch is stored completely or not at
 * all. Parents must come before their children.
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
    const taken = loader.takeAll(batch, 0);
    if (isPromise(taken)) await taken;
    if (loader.hasEnded) break;
  }
  await loader.end();
  return { loaded: loader.loaded, rejected: loader.rejected };
}

class BulkLoader {
  readonly #context: WriteContext;
  readonly #actor: Actor;
  readonly #options: LoadOptions;
  #layouts: Layouts;
  #batch: BulkBatch;
  /** Batches being written, the oldest first. */
  readonly #writing: BulkBatch[] = [];
  /** Resolves when all batches are written. */
  #written: Promise<void> = Promise.resolve();
  /** Parent of the last entry, and its normalized DN. */
  #parent: { readonly norm: Buffer; readonly node: Node } | undefined;
  /** True once an entry of an earlier batch was refused during the write. The entries after it are not loaded. */
  #isAborted = false;
  loaded = 0;
  rejected = 0;
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

  /** Takes the entries from index `from` on. References to `entries` end when the call is done. */
  takeAll(entries: readonly LoadEntry[], from: number): Maybe<void> {
    for (let i = from; i < entries.length && !this.hasEnded; i++) {
      const taken = this.#take(entries[i]!);
      if (taken) return taken.then(() => this.takeAll(entries, i + 1));
    }
  }

  /** Checks one entry and adds it to the batch. The promise resolves when the next entry may be taken. */
  #take(entry: LoadEntry): Promise<void> | undefined {
    try {
      const dn = this.#context.schema.parseNewDn(entry.dn);
      if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be added');
      const name = normText(dn, 0);
      const parent = this.#parentOf(dn, name);
      if (isPromise(parent)) return this.#takeLater(entry, dn, name, parent);
      const added = this.#prepare(entry, dn, name, parent);
      if (added) return added;
    } catch (error) {
      this.#reject(entry.source ?? entry, error);
    }
    return this.#batch.full ? this.flush() : undefined;
  }

  async #takeLater(entry: LoadEntry, dn: Dn, name: string, parent: Promise<Node | undefined>): Promise<void> {
    try {
      await this.#prepare(entry, dn, name, await parent);
    } catch (error) {
      this.#reject(entry.source ?? entry, error);
    }
    if (this.#batch.full) await this.flush();
  }

  #parentOf(dn: Dn, name: string): Maybe<Node | undefined> {
    const { shared, nodes } = this.#context;
    if (shared.suffixNorms.has(name)) return ROOT;
    const last = this.#parent;
    if (last && sameBytes(last.norm, dn.norm, dn.rdns[0]!.norm.length + 1)) return last.node;
    const found = this.#nodeOf(normText(dn, 1)) ?? nodes.byDn(dn, 1, shared.suffixes);
    if (!found || isPromise(found)) return found;
    this.#parent = { norm: Buffer.from(dn.norm.subarray(dn.rdns[0]!.norm.length + 1)), node: found };
    return found;
  }

  /** Returns the node of an entry of this load that may not be stored yet. */
  #nodeOf(name: string): Node | undefined {
    const node = this.#batch.nodes.get(name);
    if (node) return node;
    for (const batch of this.#writing) {
      const written = batch.nodes.get(name);
      if (written) return written;
    }
    return undefined;
  }

  /** Returns a promise if the entry cannot go into a batch and is added alone. */
  #prepare(entry: LoadEntry, dn: Dn, name: string, parent: Node | undefined): Promise<void> | undefined {
    if (!parent || (parent === ROOT && !this.#context.shared.suffixNorms.has(name))) {
      throw this.#orphanError(dn);
    }
    if (this.#nodeOf(name)) throw new LdapError('entryAlreadyExists', 'an entry with this name came before');
    requireRequestAllowed(this.#context, this.#requestFor(dn));
    const draft = draftFromAttributes(this.#context.schema, entry.attributes);
    this.#leaveOutComputed(entry, draft);
    const hasUuid = draft.valueText('entryUUID') !== undefined;
    const id = completeEntry(this.#context, draft, dn);
    const uuid = hasUuid ? id.toString('latin1') : undefined;
    // For earlier batches the store checks this.
    if (uuid !== undefined && this.#batch.entryUuids.has(uuid))
      throw new LdapError('entryAlreadyExists', 'an entry with this entryUUID came before');
    const { values, nameChanges: names } = this.#context.shared;
    // Adds wait for pending changes of names where necessary, so the entry is added alone.
    if (asksForNumber(values, draft) || !names.isEmpty) return this.#addAlone(entry.source ?? entry, dn, draft);
    const change = addition(draft, dn, parent, id, this.#actor, undefined, true);
    const steps = applyRules(this.#context, change);
    if (isPromise(steps)) return steps.then((known) => this.#put({ entry, dn, name, uuid }, change, known));
    return this.#put({ entry, dn, name, uuid }, change, steps);
  }

  #put({ entry, dn, name, uuid }: Prepared, change: Change, steps: readonly PlanStep[]): Promise<void> | undefined {
    if (newLarge(change.after!)) return this.#addAlone(entry.source ?? entry, dn, change.after!);
    this.#batch.add(entry, name, change, steps);
    if (uuid !== undefined) this.#batch.entryUuids.add(uuid);
    const { values } = this.#context.shared;
    if (values.numberRanges.length > 0)
      for (const chosen of chosenNumbers(values, change.after!)) this.#batch.addChosen(chosen);
    return undefined;
  }

  #orphanError(dn: Dn): LdapError {
    const { shared } = this.#context;
    const why =
      suffixAt(dn, shared.suffixes) > 1
        ? 'the entry above it does not exist; parents come before their children'
        : noAncestorMessage(this.#context, dn);
    return new LdapError('noSuchObject', why);
  }

  /** Removes computed attributes, which dumps of servers often contain. */
  #leaveOutComputed(entry: LoadEntry, draft: Draft): void {
    for (let i = draft.attributes.length - 1; i >= 0; i--) {
      const { description } = draft.attributes[i]!;
      if (!description.type.noUserModification || !isComputed(description.type)) continue;
      draft.remove(description);
      this.#options.onLeftOut?.(entry.source ?? entry, description.type.name);
    }
  }

  /** Adds one entry outside of a batch, after all entries before it. */
  async #addAlone(source: LoadSource, dn: Dn, draft: Draft): Promise<void> {
    await this.end();
    if (this.#isAborted) return;
    try {
      await this.#add(dn, draft);
      this.#count(source);
    } catch (error) {
      this.#reject(source, error);
    }
    this.#options.onProgress?.({ loaded: this.loaded, rejected: this.rejected });
  }

  #add(dn: Dn, draft: Draft): Promise<Buffer> {
    return addDraft(this.#context, draft, dn, this.#requestFor(dn), { manageDsaIT: true });
  }

  /** A load may write every stored attribute, so the request lists no attributes for the access check. */
  #requestFor(dn: Dn): WriteRequest {
    return { op: 'add', actor: this.#actor, changes: [], rdn: dn.rdns[0]! };
  }

  #count(source: LoadSource): void {
    this.loaded++;
    this.#options.onLoaded?.(source);
  }

  /** Reports the entry as rejected. Returns true if the load ends. Rethrows store errors. */
  #reject(entry: LoadSource, error: unknown): boolean {
    const shown = toLdapError(error);
    if (!(shown instanceof LdapError) || error instanceof StoreError) throw error;
    this.rejected++;
    const { result, message } = shown;
    this.#options.onReject({ entry, reason: message ? `${result}: ${message}` : result, result });
    const goesOn = this.#options.continue;
    const ends = typeof goesOn === 'boolean' ? !goesOn : !goesOn(result);
    this.hasEnded ||= ends;
    return ends;
  }

  /** Starts writing the batch. Resolves when the next batch may be prepared. */
  async flush(): Promise<void> {
    while (this.#writing.length >= MAX_WRITING) await this.#writing[0]!.written;
    const batch = this.#batch;
    const { indexes } = this.#context.shared;
    if (indexes !== this.#layouts.indexes) this.#layouts = new Layouts(indexes);
    this.#batch = this.#newBatch();
    if (batch.size === 0 || this.#isAborted) return;
    this.#writing.push(batch);
    batch.written = markHandled(this.#write(batch, this.#written));
    this.#written = batch.written;
  }

  async end(): Promise<void> {
    await this.flush();
    await this.#written;
  }

  /** Writes the batch, or entry by entry if its plan fails. Waits for the batch before, which may contain parents. */
  async #write(batch: BulkBatch, before: Promise<void>): Promise<void> {
    await before;
    if (!this.#isAborted && (batch.hasOrphans || !(await this.#ingest(batch)))) await this.#writeOneByOne(batch);
    this.#writing.shift();
    this.#options.onProgress?.({ loaded: this.loaded, rejected: this.rejected });
    await this.#context.shared.refresh();
  }

  /** Returns false if a guard failed and nothing was stored. */
  async #ingest(batch: BulkBatch): Promise<boolean> {
    const { store } = this.#context;
    // `rows` throws `guard`, too.
    const write = async () => store.ingest(...batch.rows(await chosenSteps(store, batch.chosen)));
    if (!(await guardsHold(write()))) return false;
    for (const source of batch.sources()) this.#count(source);
    return true;
  }

  async #writeOneByOne(batch: BulkBatch): Promise<void> {
    const { schema, shared, nodes } = this.#context;
    nodes.clear();
    await shared.refresh();
    const refused = new Set<Node>();
    for (const { source, node, dn, draft } of batch.entries(this.#context)) {
      if (this.#isAborted) return;
      try {
        await this.#add(schema.parseDn(dn), draft);
        this.#count(source);
      } catch (error) {
        this.#isAborted = this.#reject(source, error);
        refused.add(node);
      }
    }
    // Later batches may contain children of refused entries. Entries prepared from now on see the stored state.
    for (const later of [...this.#writing, this.#batch]) later.markOrphans(refused);
    batch.nodes.clear();
    this.#parent = undefined;
  }
}
