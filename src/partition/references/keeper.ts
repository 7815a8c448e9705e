import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Guard, Maybe, PlanStep } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import { guardsHold } from '../../store/store-error.js';
import { idsWithForms, type Referrers } from '../groups/referrers.js';
import { groupsState } from '../groups/version.js';
import { attributeValues } from '../model/entry-cells.js';
import { DN_MATCH, groupTypes, UNIQUE_MEMBER_MATCH } from '../model/group-rows.js';
import { type NameChange, NameChanges } from '../model/name-changes.js';
import { hasStaleValue, type StaleValue, staleValuesIn } from '../model/present-row.js';
import { deferReferenceStep, restoredKey, type SavedReference, savedReferences } from '../model/reference-rows.js';
import { MASTER_TABLE, META_TABLE, PRESENCE_PREFIX, Q, TREE, TREE_TABLE, UUID_BYTES } from '../model/tables.js';
import { MAX_TRIES } from '../model/thresholds.js';
import { UNRESTRICTED } from '../model/viewer.js';
import { isWhole } from '../model/wide.js';
import { describedWide } from '../model/wide-read.js';
import { IdSet } from '../read/plan/id-set.js';
import { idBatches } from '../read/plan/sources.js';
import type { SearchContext } from '../read/run/search-context.js';
import { partForFilter } from '../read/run/wide-part.js';
import type { FollowedChange, References, WriteContext } from '../write/context.js';
import { timeOfDeletion } from '../write/deleted-rows.js';
import { freshly } from '../write/freshly.js';
import { modify } from '../write/modify.js';
import { changesSince } from './changes-since.js';
import { Overtaken, type Pending, replaceValues, SERVER, singleValue } from './replace.js';

const ROWS_PER_READ = 16;

/** Results that show that the entry or a value has changed, so that the entry must be read again. */
const STALE_RESULTS = new Set(['noSuchAttribute', 'attributeOrValueExists', 'noSuchObject']);

/** True if the entry must be read again, false if it refuses the change for good. Rethrows transient errors. */
function mustReread(error: unknown): boolean {
  if (!(error instanceof LdapError) || TRANSIENT_RESULTS.has(error.result)) throw error;
  return STALE_RESULTS.has(error.result);
}

/** Results of transient failures: the store is unavailable, or other clients keep changing the entry. */
const TRANSIENT_RESULTS = new Set(['busy', 'unavailable']);

type KeeperContext = SearchContext & WriteContext;

/**
 * Updates stored references after the changes of names in the shared row, entry by entry, and removes the changes from
 * the row when done. Several processes may do so at once. If a process dies, another process continues.
 */
export class ReferenceKeeper implements References {
  readonly #context: () => KeeperContext;
  /** Changes of names whose references have not been searched for a second time, in order. */
  readonly #changed: FollowedChange[] = [];
  #following: Promise<void> | undefined;
  #settling: Promise<void> | undefined;
  #isClosing = false;

  /** The context is a function because the keeper is itself a part of the context. */
  constructor(context: () => KeeperContext) {
    this.#context = context;
  }

  isReferenced(name: string): Maybe<boolean> {
    return chain(
      this.#findHolders(this.#context().shared.nameChanges.storedNormTexts(name)),
      (found) => found.length > 0,
    );
  }

  settle(): Promise<void> {
    this.#settling ??= this.#settleAll().finally(() => {
      this.#settling = undefined;
    });
    return this.#settling;
  }

  onNameChanged(change: FollowedChange): void {
    this.#changed.push(change);
    // After a failure the changes stay in `#changed` or in the shared row. The next change of a name retries, and the
    // maintenance of the server, which reports failures.
    this.follow().catch(() => undefined);
  }

  async follow(): Promise<void> {
    if (this.#isClosing) return;
    this.#following ??= this.#follow().finally(() => {
      this.#following = undefined;
    });
    await this.#following;
  }

  changesSince(id: Buffer, time: Buffer): Promise<NameChanges> {
    return changesSince(this.#context(), id, time);
  }

  /** Stops background work. Resolves when it has ended. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.allSettled([this.#following, this.#settling]);
  }

  async #settleAll(): Promise<void> {
    const { shared } = this.#context();
    for (;;) {
      const fresh = shared.refresh();
      if (isPromise(fresh)) await fresh;
      if (shared.nameChanges.records.length === 0) return;
      try {
        await this.#settleNow(shared.nameChanges);
      } catch (error) {
        if (!(error instanceof Overtaken)) throw error;
      }
    }
  }

  async #settleNow(names: NameChanges): Promise<void> {
    const context = this.#context();
    const pending = this.#pending(names);
    await context.store.waitUntilQuiet?.();
    if (names.records.some(({ below }) => below)) await this.#rewriteAll(pending);
    else {
      const forms = names.records.flatMap(({ restored }, n) => (restored ? [] : names.normTextsBefore(n)));
      await this.#rewriteHolders(forms, pending);
    }
    for (const record of names.records) if (record.restored) await this.#restoreReferences(record);
    await this.#removeDone(names.records);
  }

  /** Returns the pending changes. Another process may settle them, or add changes, while a plan is made. */
  #pending(names: NameChanges): Pending {
    const { shared } = this.#context();
    const guard = shared.namesGuard();
    return {
      names,
      guards: [guard],
      async holds() {
        await shared.refresh();
        return shared.nameChanges === names;
      },
    };
  }

  /**
   * Searches again for references to changed names, for all changes in `#changed` together, and settles the pending
   * changes. The second search finds references that were written after the search of a rename or deletion and before
   * its commit. A change leaves `#changed` when it is done, so a failure leaves the change for the next run.
   */
  async #follow(): Promise<void> {
    const { shared, schema, store } = this.#context();
    while (this.#changed.length > 0 && !this.#isClosing) {
      const changed = [...this.#changed];
      await store.waitUntilQuiet?.();
      const fresh = shared.refresh();
      if (isPromise(fresh)) await fresh;
      const names = changed.map(({ from }) => schema.parseDn(from).norm.toString('latin1'));
      const pending = new Set(shared.nameChanges.records.map(({ from }) => from));
      const isHeld = (await this.#findHolders(names)).length > 0;
      for (const { key, ...change } of changed) {
        if (isHeld && !pending.has(change.from)) await this.#followOne(new NameChanges(schema, [change]), key);
        this.#changed.shift();
      }
      if (pending.size === 0) continue;
      // The reply to the client that made the change goes first.
      await new Promise((resolve) => setImmediate(resolve));
      await this.settle();
    }
  }

  async #followOne(names: NameChanges, key: Buffer): Promise<void> {
    const { store } = this.#context();
    const forms = names.normTextsBefore(0);
    if ((await this.#findHolders(forms)).length === 0) return;
    // The guard holds while no entry has the name.
    const nameIsFree: Guard = { op: 'absent', family: TREE.treeInfo, qualifier: Q.id };
    const guards = [{ table: TREE_TABLE.name, key, guards: [nameIsFree] }];
    const holds = async () => (await store.get(TREE_TABLE.name, key)) === undefined;
    try {
      if (await holds()) await this.#rewriteHolders(forms, { names, guards, holds });
    } catch (error) {
      // Another entry has taken the name, so the references name that entry.
      if (!(error instanceof Overtaken)) throw error;
    }
  }

  /** Returns the entries that have values with these forms. */
  #findHolders(forms: readonly string[]): Maybe<Referrers[]> {
    const context = this.#context();
    const { references, indexes } = context.shared;
    const { memberTypes: members } = groupTypes(context.schema);
    return chain(groupsState(context), ({ uids }) => {
      const lists = [...references].map((type) => {
        const mayHaveUids = uids || !members.includes(type);
        const hasUids = mayHaveUids && type.equality?.oid === UNIQUE_MEMBER_MATCH;
        return idsWithForms(context, { indexed: [{ type, table: indexes.ofType(type)!.table, uids: hasUids }] }, forms);
      });
      const found = lists.some(isPromise) ? Promise.all(lists) : (lists as Map<string, Referrers[]>[]);
      return chain(found, (all) => all.flatMap((one) => [...one.values()].flat()));
    });
  }

  async #rewriteHolders(forms: readonly string[], pending: Pending): Promise<void> {
    const met = new IdSet();
    for (const { ids } of await this.#findHolders(forms)) {
      for (let at = 0; at < ids.length; at += UUID_BYTES)
        if (met.add(ids, at)) await this.#rewrite(Buffer.from(ids.subarray(at, at + UUID_BYTES)), pending);
    }
  }

  /** Checks every entry that has references, because no index finds the values below a name. */
  async #rewriteAll(pending: Pending): Promise<void> {
    const { names } = pending;
    const { store, shared, descriptions } = this.#context();
    const { references, indexes } = shared;
    const slice = new TimeSlice();
    for (const type of references) {
      const source = { table: indexes.ofType(type)!.table, prefix: PRESENCE_PREFIX };
      for await (const batch of idBatches(source, store, ROWS_PER_READ)) {
        const ids: Buffer[] = [];
        for (let at = 0; at < batch.length; at += UUID_BYTES)
          ids.push(Buffer.from(batch.subarray(at, at + UUID_BYTES)));
        const rows = await store.getMany(MASTER_TABLE.name, ids);
        for (const [i, row] of rows.entries()) {
          const isStale = row && hasStaleValue({ descriptions, shared: { nameChanges: names, references } }, row);
          if (isStale) await this.#rewrite(ids[i]!, pending);
          const pause = slice.yieldIfOver();
          if (isPromise(pause)) await pause;
        }
      }
    }
  }

  /** Replaces the references in an entry that have old names. */
  async #rewrite(id: Buffer, pending: Pending): Promise<void> {
    const context = this.#context();
    const { nodes, schema, descriptions, shared } = context;
    for (let attempts = 0; attempts < MAX_TRIES; attempts++) {
      if (this.#isClosing) throw new LdapError('unavailable', 'the directory is being closed');
      const row = await referringRow(context, id, pending.names);
      const node = row && (await nodes.byId(id));
      if (!node) return;
      const naming = { descriptions, shared: { nameChanges: pending.names, references: shared.references } };
      try {
        const dn = schema.parseDnBytes(node.dn);
        return await replaceValues(context, { id, dn, row }, await staleInTurns(naming, row), pending);
      } catch (error) {
        if (!mustReread(error)) return;
        nodes.clear();
      }
    }
    throw new LdapError('busy', 'others keep changing an entry whose references are to follow');
  }

  /** Restores the references to a restored entry in the entries that had them. */
  async #restoreReferences({ id: hex }: NameChange): Promise<void> {
    const context = this.#context();
    const id = Buffer.from(hex, 'hex');
    const row = await context.store.get(META_TABLE.name, restoredKey(id));
    if (!row) return;
    for (const saved of savedReferences(row)) {
      let attempts = 0;
      while (!(await this.#restoreReference(id, saved)))
        if (++attempts === MAX_TRIES)
          throw new LdapError('busy', 'others keep changing an entry that is to name another');
    }
  }

  /** Returns false if the entry has changed and must be read again. */
  async #restoreReference(named: Buffer, { id, description, uid }: SavedReference): Promise<boolean> {
    const context = this.#context();
    const { store, nodes, schema } = context;
    const row = await store.get(MASTER_TABLE.name, id);
    const [node, target] = [row && (await nodes.byId(id)), await nodes.byId(named)];
    if (!target) return true;
    if (!row || !node) return this.#deferReference(id, { id: named, description, uid });
    const changes = [singleValue('add', description, Buffer.concat([target.dn, uid]))];
    // The empty DN is a placeholder for all removed values.
    const values = attributeValues(context, row, description);
    if (values.some(({ length }) => length === 0)) changes.push(singleValue('delete', description, Buffer.alloc(0)));
    try {
      await modify(context, schema.parseDnBytes(node.dn), changes, SERVER, { isSettlement: true, manageDsaIT: true });
    } catch (error) {
      if (error instanceof LdapError && error.result === 'attributeOrValueExists') return true;
      nodes.clear();
      return !mustReread(error);
    }
    return true;
  }

  /** Records that a deleted entry must refer to another entry when it is restored. */
  async #deferReference(id: Buffer, owed: SavedReference): Promise<boolean> {
    const context = this.#context();
    const time = await timeOfDeletion(context, id);
    // The entry may have been restored between the two reads.
    if (!time) return !(await context.store.getHead(MASTER_TABLE.name, id, true));
    return guardsHold(context.store.commit({ steps: [deferReferenceStep(id, time, owed)], decisive: 0 }));
  }

  async #removeDone(done: readonly NameChange[]): Promise<void> {
    const context = this.#context();
    const { shared, store } = context;
    const isDone = new Set(done.map((record) => JSON.stringify(record)));
    await freshly(context, async () => {
      const left = shared.nameChanges.records.filter((record) => !isDone.has(JSON.stringify(record)));
      if (left.length === shared.nameChanges.records.length) return;
      const rows = done.filter(({ restored }) => restored).map(({ id }) => restoredKey(Buffer.from(id, 'hex')));
      const gone: PlanStep[] = rows.map((key) => ({ table: META_TABLE.name, key, deleteRow: true }));
      await store.commit({ steps: [shared.namesStep(left), ...gone], decisive: 0 });
    });
    shared.expire();
  }
}

/** Like `staleValues`, but yields to the event loop regularly. */
async function staleInTurns(naming: Parameters<typeof staleValuesIn>[0], row: Buffer): Promise<StaleValue[]> {
  const slice = new TimeSlice();
  const work = staleValuesIn(naming, row);
  let step = work.next();
  while (!step.done) {
    const pause = slice.yieldIfOver();
    if (isPromise(pause)) await pause;
    step = work.next();
  }
  return step.value;
}

/** Returns the master row of an entry with references to replace. May lack values of a long entry that stay. */
async function referringRow(context: KeeperContext, id: Buffer, { records }: NameChanges): Promise<Buffer | undefined> {
  const { store, compiler, shared } = context;
  const head = await store.getHead(MASTER_TABLE.name, id);
  if (!head || isWhole(head)) return head;
  const wide = describedWide(context, head).map(({ description }) => description);
  const isTold = wide.every(({ type, options }) => type.equality?.oid === DN_MATCH && options.length === 0);
  if (!isTold || records.some(({ below }) => below)) return store.get(MASTER_TABLE.name, id);
  const dns = records.flatMap(({ from, to }) => (to === undefined ? [from] : [from, to]));
  const filters = wide
    .filter(({ type }) => shared.references.has(type))
    .flatMap(({ text }) => dns.map((dn) => ({ type: 'equal', attribute: text, value: Buffer.from(dn) }) as const));
  const { filter } = compiler.compile({ type: 'or', filters }, UNRESTRICTED, true);
  return (await partForFilter(context, store, id, head, filter)) ?? store.get(MASTER_TABLE.name, id);
}
