import { LdapError } from '../../ldap/ldap-error.js';
import type { Maybe, PlanStep } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import { idsHolding, type Naming } from '../groups/namers.js';
import { entryNamed } from '../groups/names.js';
import { groupsState } from '../groups/version.js';
import { attributeValues } from '../model/entry-cells.js';
import { groupTypes, UNIQUE_MEMBER_MATCH } from '../model/group-rows.js';
import { type NameChange, NameChanges } from '../model/name-changes.js';
import { presentRow, staleValues } from '../model/present-row.js';
import { broughtBackKey, type SavedReference, savedReferences } from '../model/reference-rows.js';
import { MASTER_TABLE, META_TABLE, PRESENCE_PREFIX, UUID_BYTES } from '../model/tables.js';
import { MAX_TRIES } from '../model/thresholds.js';
import { IdSet } from '../read/plan/id-set.js';
import { idBatches } from '../read/plan/sources.js';
import type { SearchContext } from '../read/run/search-context.js';
import { Turns } from '../read/run/turns.js';
import type { References, WriteContext } from '../write/context.js';
import { freshly } from '../write/freshly.js';
import { modify } from '../write/modify.js';
import { changesSince } from './changes-since.js';
import { Overtaken, oneValue, replaceValues, SERVER } from './replace.js';

/** Values of one entry that are replaced in one plan. */
const TOGETHER = 500;
/** Rows that are read together where every entry with references is looked at. */
const ROWS = 16;

/** The entry, or a value of it, has changed meanwhile: it is read again. */
const CHANGED = new Set(['noSuchAttribute', 'attributeOrValueExists', 'noSuchObject']);
/** The store is away, or others keep changing the entry. */
const PASSING = new Set(['busy', 'unavailable']);

type KeeperContext = SearchContext & WriteContext;

/**
 * Brings stored references up to date with the changes of names in the shared row, entry by entry, and takes those out
 * of the row. Several processes may do so at once. Where one ends in the midst, another goes on.
 */
export class ReferenceKeeper implements References {
  readonly #context: () => KeeperContext;
  /** Names that have changed, and were not looked for again. */
  #changed: NameChange[] = [];
  #following: Promise<void> | undefined;
  #settling: Promise<void> | undefined;
  #isClosing = false;

  /** The context is asked for when it is needed, as the keeper is part of it. */
  constructor(context: () => KeeperContext) {
    this.#context = context;
  }

  named(name: string): Maybe<boolean> {
    return chain(this.#holding(this.#context().shared.names.storedForms(name)), (found) => found.length > 0);
  }

  settle(): Promise<void> {
    this.#settling ??= this.#settleAll().finally(() => {
      this.#settling = undefined;
    });
    return this.#settling;
  }

  changed(change: NameChange): void {
    this.#changed.push(change);
    if (this.#following || this.#isClosing) return;
    // What fails here stays in the shared row, for the next who changes a name, and for who looks for what is pending.
    this.#following = this.#follow()
      .catch(() => undefined)
      .finally(() => {
        this.#following = undefined;
      });
  }

  changesSince(id: Buffer, time: Buffer): Promise<NameChanges> {
    return changesSince(this.#context(), id, time);
  }

  /** Ends what does not wait; resolves when it has ended. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.allSettled([this.#following, this.#settling]);
  }

  async #settleAll(): Promise<void> {
    const { shared } = this.#context();
    for (;;) {
      const fresh = shared.refresh();
      if (isPromise(fresh)) await fresh;
      if (shared.names.records.length === 0) return;
      try {
        await this.#settleNow(shared.names);
      } catch (error) {
        if (!(error instanceof Overtaken)) throw error;
      }
    }
  }

  async #settleNow(names: NameChanges): Promise<void> {
    const context = this.#context();
    await context.store.quiet?.();
    if (names.records.some(({ below }) => below)) await this.#rewriteAll(names);
    else {
      const forms = names.records.flatMap(({ restored }, n) => (restored ? [] : names.formsBefore(n)));
      await this.#rewriteThose(forms, names);
    }
    for (const record of names.records) if (record.restored) await this.#bringBack(record);
    await this.#drop(names.records);
  }

  /**
   * Settles what is pending, and looks once more for references that came between the look of a change and its plan:
   * for those of all changes together that were made meanwhile.
   */
  async #follow(): Promise<void> {
    const { shared, schema, store } = this.#context();
    while (this.#changed.length > 0 && !this.#isClosing) {
      const changed = this.#changed;
      this.#changed = [];
      await store.quiet?.();
      const fresh = shared.refresh();
      if (isPromise(fresh)) await fresh;
      if (shared.names.records.length > 0) await this.settle();
      const names = changed.map(({ from }) => schema.parseDn(from).norm.toString('latin1'));
      if ((await this.#holding(names)).length === 0) continue;
      for (const change of changed) await this.#followOne(new NameChanges(schema, [change]));
    }
  }

  async #followOne(names: NameChanges): Promise<void> {
    const forms = names.formsBefore(0);
    if ((await this.#holding(forms)).length === 0) return;
    if (!(await entryNamed(this.#context(), Buffer.from(forms[0]!, 'latin1')))) await this.#rewriteThose(forms, names);
  }

  /** Entries that have values of these forms. */
  #holding(forms: readonly string[]): Maybe<Naming[]> {
    const context = this.#context();
    const { references, indexes } = context.shared;
    const { members } = groupTypes(context.schema);
    return chain(groupsState(context), ({ uids }) => {
      const lists = [...references].map((type) => {
        const mayHaveUids = uids || !members.includes(type);
        const hasUids = mayHaveUids && type.equality?.oid === UNIQUE_MEMBER_MATCH;
        return idsHolding(context, { indexed: [{ type, table: indexes.of(type)!.table, uids: hasUids }] }, forms);
      });
      const found = lists.some(isPromise) ? Promise.all(lists) : (lists as Map<string, Naming[]>[]);
      return chain(found, (all) => all.flatMap((one) => [...one.values()].flat()));
    });
  }

  async #rewriteThose(forms: readonly string[], names: NameChanges): Promise<void> {
    const met = new IdSet();
    for (const { ids } of await this.#holding(forms)) {
      for (let at = 0; at < ids.length; at += UUID_BYTES)
        if (met.add(ids, at)) await this.#rewrite(Buffer.from(ids.subarray(at, at + UUID_BYTES)), names);
    }
  }

  /** Looks at every entry that has references: which of them lie below a name is not told by an index. */
  async #rewriteAll(names: NameChanges): Promise<void> {
    const { store, shared, descriptions } = this.#context();
    const { references, indexes } = shared;
    const turns = new Turns();
    for (const type of references) {
      const source = { table: indexes.of(type)!.table, prefix: PRESENCE_PREFIX };
      for await (const batch of idBatches(source, store, ROWS)) {
        const ids: Buffer[] = [];
        for (let at = 0; at < batch.length; at += UUID_BYTES)
          ids.push(Buffer.from(batch.subarray(at, at + UUID_BYTES)));
        const rows = await store.getMany(MASTER_TABLE.name, ids);
        for (const [i, row] of rows.entries()) {
          const isStale = row && presentRow({ descriptions, shared: { names, references } }, row) !== row;
          if (isStale) await this.#rewrite(ids[i]!, names);
          const pause = turns.pass();
          if (isPromise(pause)) await pause;
        }
      }
    }
  }

  /** Replaces the values of an entry that are not called as their entries are now. */
  async #rewrite(id: Buffer, names: NameChanges): Promise<void> {
    const { store, nodes, schema } = this.#context();
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      if (this.#isClosing) throw new LdapError('unavailable', 'the directory is being closed');
      const row = await store.get(MASTER_TABLE.name, id);
      const node = row && (await nodes.byId(id));
      if (!node) return;
      const { descriptions, shared } = this.#context();
      const stale = staleValues({ descriptions, shared: { names, references: shared.references } }, row);
      try {
        for (let at = 0; at < stale.length; at += TOGETHER)
          await replaceValues(
            this.#context(),
            { id, dn: schema.parseDnBytes(node.dn), row },
            stale.slice(at, at + TOGETHER),
          );
        return;
      } catch (error) {
        if (!(error instanceof LdapError) || PASSING.has(error.result)) throw error;
        // What cannot be replaced stays, and is told by the check: a value that names its entry.
        if (!CHANGED.has(error.result)) return;
        nodes.clear();
      }
    }
    throw new LdapError('busy', 'others keep changing an entry whose references are to follow');
  }

  /** Gives the references to a restored entry back to the entries that had them. */
  async #bringBack({ id: hex }: NameChange): Promise<void> {
    const { store, nodes } = this.#context();
    const id = Buffer.from(hex, 'hex');
    const row = await store.get(META_TABLE.name, broughtBackKey(id));
    const node = await nodes.byId(id);
    if (!row || !node) return;
    for (const saved of savedReferences(row)) await this.#giveBack(node.dn, saved);
  }

  async #giveBack(dn: Buffer, { id, description, uid }: SavedReference): Promise<void> {
    const context = this.#context();
    const row = await context.store.get(MASTER_TABLE.name, id);
    const node = row && (await context.nodes.byId(id));
    if (!node) return;
    const changes = [oneValue('add', description, Buffer.concat([dn, uid]))];
    // The empty DN that stands for all of them.
    const values = attributeValues(context, row, description);
    if (values.some(({ length }) => length === 0)) changes.push(oneValue('delete', description, Buffer.alloc(0)));
    try {
      await modify(context, context.schema.parseDnBytes(node.dn), changes, SERVER, {
        settles: true,
        manageDsaIT: true,
      });
    } catch (error) {
      // The entry is gone, has the value, or may not have it any more.
      if (!(error instanceof LdapError) || PASSING.has(error.result)) throw error;
    }
  }

  async #drop(done: readonly NameChange[]): Promise<void> {
    const context = this.#context();
    const { shared, store } = context;
    const isDone = new Set(done.map((record) => JSON.stringify(record)));
    await freshly(context, async () => {
      const left = shared.names.records.filter((record) => !isDone.has(JSON.stringify(record)));
      if (left.length === shared.names.records.length) return;
      const rows = done.filter(({ restored }) => restored).map(({ id }) => broughtBackKey(Buffer.from(id, 'hex')));
      const gone: PlanStep[] = rows.map((key) => ({ table: META_TABLE.name, key, deleteRow: true }));
      await store.commit({ steps: [shared.namesStep(left), ...gone], decisive: 0 });
    });
    shared.expire();
  }
}
