import { LdapError } from '../ldap/error.js';
import type { Dn } from '../schema/types.js';
import type { Maybe } from '../store/contract.js';
import { StoreError } from '../store/errors.js';
import { isPromise } from '../store/maybe.js';
import { addPrepared, prepareEntry } from './add.js';
import { BulkBatch } from './bulk-batch.js';
import { type Draft, draftFromAttributes } from './entry.js';
import { type Node, normText, ROOT } from './nodes.js';
import { toLdapError } from './store-errors.js';
import type { Actor, LoadEntry, LoadProgress, LoadReject } from './types.js';
import type { WriteContext } from './write.js';

export interface LoadOptions {
  onReject(reject: LoadReject): void;
  onProgress?(progress: LoadProgress): void;
  /** Goes on behind a rejected entry; else the load ends there, with what came before it stored. */
  readonly continue: boolean;
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
  readonly #context: WriteContext;
  readonly #actor: Actor;
  readonly #options: LoadOptions;
  #batch: BulkBatch;
  /** Being written while the next one is prepared. */
  #writing: BulkBatch | undefined;
  #written: Promise<void> = Promise.resolve();
  loaded = 0;
  rejected = 0;
  ended = false;

  constructor(context: WriteContext, actor: Actor, options: LoadOptions) {
    this.#context = context;
    this.#actor = actor;
    this.#options = options;
    this.#batch = new BulkBatch(context, actor);
  }

  /** Checks one entry and puts it into the batch; a promise when the batch is then written. */
  take(entry: LoadEntry): Maybe<void> {
    try {
      const { schema } = this.#context;
      const dn = schema.parseDn(entry.dn);
      if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be added');
      const parent = this.#parentOf(dn);
      if (isPromise(parent)) return this.#takeLater(entry, dn, parent);
      this.#prepare(entry, dn, parent);
    } catch (error) {
      this.#reject(entry, error);
    }
    if (this.#batch.full) return this.flush();
  }

  async #takeLater(entry: LoadEntry, dn: Dn, parent: Promise<Node | undefined>): Promise<void> {
    try {
      this.#prepare(entry, dn, await parent);
    } catch (error) {
      this.#reject(entry, error);
    }
    if (this.#batch.full) await this.flush();
  }

  #parentOf(dn: Dn): Maybe<Node | undefined> {
    const { shared, nodes } = this.#context;
    if (shared.suffixNorms.has(normText(dn, 0))) return ROOT;
    const name = normText(dn, 1);
    return this.#batch.nodes.get(name) ?? this.#writing?.nodes.get(name) ?? nodes.byDn(dn, 1, shared.suffixNorms);
  }

  #prepare(entry: LoadEntry, dn: Dn, parent: Node | undefined): void {
    const name = normText(dn, 0);
    if (!parent || (parent === ROOT && !this.#context.shared.suffixNorms.has(name))) {
      throw new LdapError('noSuchObject', 'the entry above it does not exist; parents come before their children');
    }
    if (this.#batch.nodes.has(name) || this.#writing?.nodes.has(name)) {
      throw new LdapError('entryAlreadyExists', 'an entry with this name came before');
    }
    this.#batch.add(entry, dn, name, this.#draft(entry, dn), parent);
  }

  #draft(entry: LoadEntry, dn: Dn): Draft {
    const draft = draftFromAttributes(this.#context.schema, entry.attributes);
    prepareEntry(this.#context, draft, dn, this.#actor);
    return draft;
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
    this.#batch = new BulkBatch(this.#context, this.#actor);
    await this.#written;
    this.#writing = batch;
    this.#written = this.#write(batch);
    // Awaited by the next flush; until then a failure must not count as unhandled.
    this.#written.catch(() => undefined);
  }

  /** Everything is written. */
  async end(): Promise<void> {
    await this.flush();
    await this.#written;
  }

  /** At once, or entry by entry when something in it is there already or has changed meanwhile. */
  async #write(batch: BulkBatch): Promise<void> {
    if (batch.entries.length === 0) return;
    const { store, nodes, shared } = this.#context;
    try {
      await store.ingest(...batch.rows());
      this.loaded += batch.entries.length;
    } catch (error) {
      if (!(error instanceof StoreError && error.code === 'guard')) throw error;
      nodes.clear();
      await shared.refresh();
      await this.#oneByOne(batch);
    }
    this.#options.onProgress?.({ loaded: this.loaded, rejected: this.rejected });
    await shared.refresh();
  }

  async #oneByOne(batch: BulkBatch): Promise<void> {
    for (const { entry, dn } of batch.entries) {
      if (this.ended) return;
      try {
        await addPrepared(this.#context, this.#draft(entry, dn), dn, this.#actor, { manageDsaIT: true });
        this.loaded++;
      } catch (error) {
        this.#reject(entry, error);
      }
    }
  }
}
