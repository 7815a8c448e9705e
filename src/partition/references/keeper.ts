import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Guard, Maybe, PlanStep } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import { guardsHold } from '../../store/store-error.js';
import { findReferrersByNormText, type Referrers } from '../groups/referrers.js';
import { groupsState } from '../groups/version.js';
import { describedWide } from '../model/entry-cells.js';
import { DN_MATCH, groupTypes, UNIQUE_MEMBER_MATCH } from '../model/group-rows.js';
import { type NameChange, NameChanges } from '../model/name-changes.js';
import { hasStaleValue, type StaleValue, staleValuesIn } from '../model/present-row.js';
import { deferReferenceStep, restoredKey, type SavedReference, savedReferences } from '../model/reference-rows.js';
import { MASTER_TABLE, META_TABLE, PRESENCE_PREFIX, Q, TREE, TREE_TABLE, UUID_BYTES } from '../model/tables.js';
import { MAX_TRIES } from '../model/thresholds.js';
import { UNRESTRICTED } from '../model/viewer.js';
import { isWhole } from '../model/wide.js';
import { IdSet } from '../read/plan/id-set.js';
import { idBatches } from '../read/plan/sources.js';
import { readFilterPart } from '../read/run/entry-check.js';
import type { SearchContext } from '../read/run/search-context.js';
import { type CommittedNameChange, type References, retryWithFreshState, type WriteContext } from '../write/context.js';
import { timeOfDeletion } from '../write/deleted-rows.js';
import { modify } from '../write/modify.js';
import { changesSince, LaterValues } from './changes-since.js';
import { Overtaken, type PendingChanges, replaceValues, SERVER, singleValue } from './dangling.js';

const ROWS_PER_READ = 16;

/** Results of a change that show that the entry was changed or removed meanwhile, so that it must be read again. */
const STALE_RESULTS = new Set(['noSuchAttribute', 'attributeOrValueExists', 'noSuchObject']);

/** Whether the entry must be read again; false if it can never be changed in this way. Rethrows transient errors. */
function mustReread(error: unknown): boolean {
  if (!(error instanceof LdapError) || TRANSIENT_RESULTS.has(error.result)) throw error;
  return STALE_RESULTS.has(error.result);
}

/** Results of failures that may pass: the store is unavailable, or other clients keep changing the entry. */
const TRANSIENT_RESULTS = new Set(['busy', 'unavailable']);

type KeeperContext = SearchContext & WriteContext;

/**
 * Updates stored references, entry by entry, after the changes of names in the shared row. Removes each change from the
 * row when its references are updated. Several processes may do this at once; when a process dies, another one
 * continues.
 */
export class ReferenceKeeper implements References {
  readonly #context: () => KeeperContext;
  /** Changes of names in order, for which the second search for references is still to be made. */
  readonly #followedChanges: CommittedNameChange[] = [];
  #pendingFollow: Promise<void> | undefined;
  #pendingSettle: Promise<void> | undefined;
  #isClosing = false;

  /** `context` is a function, because the keeper itself is part of the context. */
  constructor(context: () => KeeperContext) {
    this.#context = context;
  }

  areReferenced(normTexts: readonly string[]): Maybe<boolean> {
    const { nameChanges } = this.#context().shared;
    const storedTexts = normTexts.flatMap((normText) => nameChanges.storedNormTexts(normText));
    return chain(this.#findReferrers(storedTexts), (referrers) => referrers.length > 0);
  }

  settle(): Promise<void> {
    this.#pendingSettle ??= this.#settleAll().finally(() => {
      this.#pendingSettle = undefined;
    });
    return this.#pendingSettle;
  }

  onNameChanged(change: CommittedNameChange): void {
    this.#followedChanges.push(change);
    // After a failure the changes stay in `#followedChanges` or in the shared row. The next change of a name tries
    // again, and so does the maintenance of the server, which reports failures.
    this.follow().catch(() => undefined);
  }

  async follow(): Promise<void> {
    if (this.#isClosing) return;
    this.#pendingFollow ??= this.#follow().finally(() => {
      this.#pendingFollow = undefined;
    });
    await this.#pendingFollow;
  }

  changesSince(id: Buffer, time: Buffer): Promise<NameChanges> {
    return changesSince(this.#context(), id, time);
  }

  /** Stops background work. Resolves when none is running. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.allSettled([this.#pendingFollow, this.#pendingSettle]);
  }

  async #settleAll(): Promise<void> {
    const { shared } = this.#context();
    for (;;) {
      const fresh = shared.refresh();
      if (isPromise(fresh)) await fresh;
      if (shared.nameChanges.records.length === 0) return;
      try {
        await this.#settleOnce(shared.nameChanges);
      } catch (error) {
        if (!(error instanceof Overtaken)) throw error;
      }
    }
  }

  async #settleOnce(nameChanges: NameChanges): Promise<void> {
    const context = this.#context();
    const pendingChanges = this.#pendingChanges(nameChanges);
    await context.store.waitUntilQuiet?.();
    if (nameChanges.records.some(({ below }) => below)) await this.#rewriteAll(pendingChanges);
    else {
      const normTexts = nameChanges.records.flatMap(({ restored }, n) =>
        restored ? [] : nameChanges.normTextsBefore(n),
      );
      await this.#rewriteReferrers(normTexts, pendingChanges);
    }
    for (const record of nameChanges.records) if (record.restored) await this.#restoreReferences(record);
    await this.#removeSettled(nameChanges.records);
  }

  /** Returns the pending changes. Other processes may settle or add changes while a plan is being made. */
  #pendingChanges(nameChanges: NameChanges): PendingChanges {
    const { shared } = this.#context();
    const guard = shared.nameChangesGuard();
    return {
      nameChanges,
      guards: [guard],
      async arePending() {
        await shared.refresh();
        return shared.nameChanges === nameChanges;
      },
    };
  }

  /**
   * Searches a second time for references to changed names, and settles the pending changes. The second search finds
   * references that were written between the first search, by a rename or deletion, and its commit. References
   * that were written later name no entry, and stay. A change leaves `#followedChanges` when it is settled, so after a
   * failure it is tried again.
   */
  async #follow(): Promise<void> {
    const { shared, schema, store } = this.#context();
    while (this.#followedChanges.length > 0 && !this.#isClosing) {
      const changes = [...this.#followedChanges];
      await store.waitUntilQuiet?.();
      const fresh = shared.refresh();
      if (isPromise(fresh)) await fresh;
      const normTexts = changes.map(({ from }) => schema.parseDn(from).norm.toString('latin1'));
      const pendingNames = new Set(shared.nameChanges.records.map(({ from }) => from));
      const isReferenced = (await this.#findReferrers(normTexts)).length > 0;
      for (const { formerKey, ...change } of changes) {
        if (isReferenced && !pendingNames.has(change.from)) await this.#followOne(change, formerKey);
        this.#followedChanges.shift();
      }
      if (pendingNames.size === 0) continue;
      // Let the reply to the client that made the change go out first.
      await new Promise((resolve) => setImmediate(resolve));
      await this.settle();
    }
  }

  async #followOne(change: NameChange, key: Buffer): Promise<void> {
    const { store, schema } = this.#context();
    const nameChanges = new NameChanges(schema, [change]);
    const ids = distinctIds(await this.#findReferrers(nameChanges.normTextsBefore(0)));
    // The guard fails if an entry has taken the name.
    const nameIsFree: Guard = { op: 'absent', family: TREE.treeInfo, qualifier: Q.id };
    const guards = [{ table: TREE_TABLE.name, key, guards: [nameIsFree] }];
    const holds = async () => (await store.get(TREE_TABLE.name, key)) === undefined;
    if (ids.length === 0 || !(await holds())) return;
    // From now on the change records of all values that were found can be read.
    await store.waitUntilQuiet?.();
    const laterValues = await LaterValues.since(store, change, ids);
    try {
      for (const id of ids) await this.#rewrite(id, { nameChanges, guards, arePending: holds, laterValues });
    } catch (error) {
      // Another entry has taken the name; the references now name that entry.
      if (!(error instanceof Overtaken)) throw error;
    }
  }

  /** Returns the entries that have references with one of these normal forms. */
  #findReferrers(normTexts: readonly string[]): Maybe<Referrers[]> {
    const context = this.#context();
    const { references, indexes } = context.shared;
    const { memberTypes: members } = groupTypes(context.schema);
    return chain(groupsState(context), ({ mayHaveUids: uids }) => {
      const lists = [...references].map((type) => {
        const mayHaveUids = uids || !members.includes(type);
        const hasUids = mayHaveUids && type.equality?.oid === UNIQUE_MEMBER_MATCH;
        return findReferrersByNormText(
          context,
          { indexes: [{ type, table: indexes.require(type).table, mayHaveUids: hasUids }] },
          normTexts,
        );
      });
      const referrers = lists.some(isPromise) ? Promise.all(lists) : (lists as Map<string, Referrers[]>[]);
      return chain(referrers, (all) => all.flatMap((one) => [...one.values()].flat()));
    });
  }

  async #rewriteReferrers(normTexts: readonly string[], pendingChanges: PendingChanges): Promise<void> {
    for (const id of distinctIds(await this.#findReferrers(normTexts))) await this.#rewrite(id, pendingChanges);
  }

  /** Checks all entries that have references. Needed for renames of subtrees: no index finds values below a name. */
  async #rewriteAll(pendingChanges: PendingChanges): Promise<void> {
    const { nameChanges } = pendingChanges;
    const { store, shared, descriptions } = this.#context();
    const { references, indexes } = shared;
    const slice = new TimeSlice();
    for (const type of references) {
      const source = { table: indexes.require(type).table, prefix: PRESENCE_PREFIX };
      for await (const batch of idBatches(source, store, ROWS_PER_READ)) {
        const ids: Buffer[] = [];
        for (let offset = 0; offset < batch.length; offset += UUID_BYTES)
          ids.push(Buffer.from(batch.subarray(offset, offset + UUID_BYTES)));
        const rows = await store.getMany(MASTER_TABLE.name, ids);
        for (const [i, row] of rows.entries()) {
          const isStale = row && hasStaleValue({ descriptions, shared: { nameChanges, references } }, row);
          if (isStale) await this.#rewrite(ids[i]!, pendingChanges);
          const pause = slice.yieldIfOver();
          if (isPromise(pause)) await pause;
        }
      }
    }
  }

  /** Replaces the references in an entry that do not have current names. */
  async #rewrite(id: Buffer, pendingChanges: PendingChanges): Promise<void> {
    const context = this.#context();
    const { nodes, schema, descriptions, shared } = context;
    for (let attempts = 0; attempts < MAX_TRIES; attempts++) {
      if (this.#isClosing) throw new LdapError('unavailable', 'the directory is being closed');
      const row = await referringRow(context, id, pendingChanges.nameChanges);
      const node = row && (await nodes.byId(id));
      if (!node) return;
      const namesContext = {
        descriptions,
        shared: { nameChanges: pendingChanges.nameChanges, references: shared.references },
      };
      try {
        const dn = schema.parseDnBytes(node.dn);
        const stale = (await staleInTurns(namesContext, row)).filter(
          ({ offset }) => !pendingChanges.laterValues?.includes(id, row, offset),
        );
        return await replaceValues(context, { id, dn, row }, stale, pendingChanges);
      } catch (error) {
        if (!mustReread(error)) return;
        nodes.clear();
      }
    }
    throw new LdapError('busy', 'others keep changing an entry whose references are to follow');
  }

  /** Restores references to a restored entry, in the entries that had them before the deletion. */
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

  /** Restores one reference. Returns false if the entry has changed and must be read again. */
  async #restoreReference(targetId: Buffer, { id, description, uid }: SavedReference): Promise<boolean> {
    const context = this.#context();
    const { store, nodes, schema } = context;
    const row = await store.get(MASTER_TABLE.name, id);
    const [node, target] = [row && (await nodes.byId(id)), await nodes.byId(targetId)];
    if (!target) return true;
    if (!row || !node) return this.#deferReference(id, { id: targetId, description, uid });
    const changes = [singleValue('add', description, Buffer.concat([target.dn, uid]))];
    try {
      await modify(context, schema.parseDnBytes(node.dn), changes, SERVER, { isSettlement: true, manageDsaIT: true });
    } catch (error) {
      if (error instanceof LdapError && error.result === 'attributeOrValueExists') return true;
      nodes.clear();
      return !mustReread(error);
    }
    return true;
  }

  /** Records that a deleted entry gets a reference back when it is restored itself. */
  async #deferReference(id: Buffer, reference: SavedReference): Promise<boolean> {
    const context = this.#context();
    const time = await timeOfDeletion(context, id);
    // If the time of deletion is unknown, the entry may have been restored between the two reads.
    if (!time) return !(await context.store.getHead(MASTER_TABLE.name, id, true));
    return guardsHold(context.store.commit({ steps: [deferReferenceStep(id, time, reference)], decisive: 0 }));
  }

  async #removeSettled(settledChanges: readonly NameChange[]): Promise<void> {
    const context = this.#context();
    const { shared, store } = context;
    const settledTexts = new Set(settledChanges.map((record) => JSON.stringify(record)));
    await retryWithFreshState(context, async () => {
      const remaining = shared.nameChanges.records.filter((record) => !settledTexts.has(JSON.stringify(record)));
      if (remaining.length === shared.nameChanges.records.length) return;
      const rows = settledChanges
        .filter(({ restored }) => restored)
        .map(({ id }) => restoredKey(Buffer.from(id, 'hex')));
      const deleteSteps: PlanStep[] = rows.map((key) => ({ table: META_TABLE.name, key, deleteRow: true }));
      await store.commit({ steps: [shared.nameChangesStep(remaining), ...deleteSteps], decisive: 0 });
    });
    shared.expire();
  }
}

function distinctIds(referrers: readonly Referrers[]): Buffer[] {
  const visitedIds = new IdSet();
  const distinct: Buffer[] = [];
  for (const { ids } of referrers)
    for (let offset = 0; offset < ids.length; offset += UUID_BYTES)
      if (visitedIds.add(ids, offset)) distinct.push(Buffer.from(ids.subarray(offset, offset + UUID_BYTES)));
  return distinct;
}

/** Like `staleValues`, but regularly lets other work run. */
async function staleInTurns(naming: Parameters<typeof staleValuesIn>[0], row: Buffer): Promise<StaleValue[]> {
  const slice = new TimeSlice();
  const work = staleValuesIn(naming, row);
  let result = work.next();
  while (!result.done) {
    const pause = slice.yieldIfOver();
    if (isPromise(pause)) await pause;
    result = work.next();
  }
  return result.value;
}

/** Returns the master row of an entry with references to replace; for a long entry perhaps without other values. */
async function referringRow(context: KeeperContext, id: Buffer, { records }: NameChanges): Promise<Buffer | undefined> {
  const { store, compiler, shared } = context;
  const head = await store.getHead(MASTER_TABLE.name, id);
  if (!head || isWhole(head)) return head;
  const wide = describedWide(context, head).map(({ description }) => description);
  const isFilterable = wide.every(({ type, options }) => type.equality?.oid === DN_MATCH && options.length === 0);
  if (!isFilterable || records.some(({ below }) => below)) return store.get(MASTER_TABLE.name, id);
  const dns = records.flatMap(({ from, to }) => (to === undefined ? [from] : [from, to]));
  const filters = wide
    .filter(({ type }) => shared.references.has(type))
    .flatMap(({ text }) => dns.map((dn) => ({ type: 'equal', attribute: text, value: Buffer.from(dn) }) as const));
  const { filter } = compiler.compile({ type: 'or', filters }, UNRESTRICTED, true);
  return (await readFilterPart(context, store, id, head, filter)) ?? store.get(MASTER_TABLE.name, id);
}
