import type { Schema } from '../../schema/schema.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Reader, Store } from '../../store/contract.js';
import { cellCounter, cellValue } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { keyAfter } from '../../store/tables.js';
import { damageOf, isDamage } from '../model/store-errors.js';
import {
  childrenRange,
  cutNorm,
  MASTER_TABLE,
  normRdnOf,
  parentIdOf,
  Q,
  ROOT_ID,
  TREE,
  TREE_TABLE,
  treeKey,
  UUID_BYTES,
  upRdnOf,
} from '../model/tables.js';
import { joinDn, normText, suffixRdnIndex } from '../tree/nodes.js';
import { type Rows, readAround } from './around.js';
import { parsedDn } from './check/record.js';
import { dnByRows, lostDn } from './lost-name.js';

/** A readable entry. */
export interface SalvagedEntry {
  readonly id: Buffer;
  /** Packed master row. */
  readonly row: Buffer;
  /** DN, UTF-8. Below a lost entry, as much of the lost entry's name as is known. */
  readonly dn: Buffer;
}

/** An unreadable entry. */
export interface LostEntry {
  /** Undefined if the id is unknown, too; there may then be several lost entries. */
  readonly id: Buffer | undefined;
  /** From the tree row, if it is readable. */
  readonly dn: Buffer | undefined;
  readonly reason: string;
}

export interface SalvageSink {
  /** Receives an entry. If it rejects because of damage, the entry counts as lost. */
  entry(entry: SalvagedEntry): Promise<void>;
  lost(entry: LostEntry): Promise<void>;
}

interface TreeRow {
  readonly id: Buffer;
  readonly key: Buffer;
  readonly hasChildren: boolean;
}

interface Parent {
  readonly id: Buffer;
  readonly dn: Buffer;
  /** Key of the tree row, if it is readable. */
  readonly key: Buffer | undefined;
}

/** A range with unreadable or missing tree rows. Its entries are searched for by their master rows. */
interface LostRange {
  readonly from: Buffer | undefined;
  readonly to: Buffer | undefined;
  /** Keys (Latin-1) in the range that could be read. */
  readonly keysRead?: ReadonlySet<string>;
}

/**
 * Finds every readable entry at and below a base, parents before children, and every lost entry. Skips unreadable rows.
 * If tree rows are lost, finds entries by their master rows.
 */
export class Salvage {
  readonly #store: Store;
  readonly #schema: Schema;
  readonly #sink: SalvageSink;
  /** DNs of the lost entries by id (Latin-1). */
  readonly #lostDns = new Map<string, Buffer | undefined>();
  #lostRanges: LostRange[] = [];

  constructor(store: Store, schema: Schema, sink: SalvageSink) {
    this.#store = store;
    this.#schema = schema;
    this.#sink = sink;
  }

  /** Visits the base and all entries below it. Returns false if the base does not exist. */
  async visitFrom(base: Dn, suffixes: readonly Dn[]): Promise<boolean> {
    const treeRow = await this.#findBase(base, suffixes);
    if (treeRow === 'absent') return false;
    if (treeRow) {
      const parentId = Buffer.from(treeRow.key.subarray(0, UUID_BYTES));
      const parents: Parent[] = [];
      await this.#visit([treeRow], await this.#dnByMasterRows(parentId), this.#store, parents);
      await this.#descend(parents);
    }
    while (this.#lostRanges.length > 0) {
      const lostRanges = this.#lostRanges;
      this.#lostRanges = [];
      await this.#findInLostRanges(lostRanges, base);
    }
    return true;
  }

  /** Finds the base by tree rows. Returns undefined if a tree row is damaged. */
  async #findBase(base: Dn, suffixes: readonly Dn[]): Promise<TreeRow | 'absent' | undefined> {
    let rdnIndex = suffixRdnIndex(base, suffixes);
    if (rdnIndex < 0) return 'absent';
    let key = treeKey(ROOT_ID, cutNorm(Buffer.from(normText(base, rdnIndex), 'latin1')));
    for (;;) {
      const row = await this.#readRow(TREE_TABLE.name, key);
      if (row instanceof StoreError) {
        this.#lostRanges.push({ from: key, to: keyAfter(key) });
        return undefined;
      }
      const id = row && cellValue(row, TREE.treeInfo, Q.id);
      if (!id) return 'absent';
      if (rdnIndex === 0) return { id, key, hasChildren: true };
      key = treeKey(id, cutNorm(base.rdns[--rdnIndex]!.norm));
    }
  }

  /** Returns the row; for a damaged row the error. */
  async #readRow(table: string, key: Buffer, reader: Reader = this.#store): Promise<Buffer | StoreError | undefined> {
    try {
      return await reader.get(table, key);
    } catch (error) {
      if (isDamage(error)) return error;
      throw error;
    }
  }

  async #readMasterRows(ids: Buffer[], reader: Reader): Promise<(Buffer | StoreError | undefined)[]> {
    try {
      return await reader.getMany(MASTER_TABLE.name, ids);
    } catch (error) {
      if (!isDamage(error)) throw error;
    }
    const rows: (Buffer | StoreError | undefined)[] = [];
    for (const id of ids) rows.push(await this.#readRow(MASTER_TABLE.name, id, reader));
    return rows;
  }

  async #descend(parents: Parent[]): Promise<void> {
    for (let parent = parents.pop(); parent; parent = parents.pop()) {
      const snapshot = this.#store.snapshot();
      try {
        let rowCount = 0;
        for await (const batch of readAround(snapshot, TREE_TABLE.name, childrenRange(parent.id))) {
          if ('error' in batch) {
            this.#lostRanges.push({ from: batch.from, to: batch.to });
            continue;
          }
          rowCount += batch.keys.length;
          await this.#visit(this.#treeRows(batch), parent.dn, snapshot, parents);
        }
        await this.#checkCount(parent, rowCount, snapshot);
      } finally {
        snapshot.close();
      }
    }
  }

  /** Compares the number of tree rows with the counter of the parent: a tree row can be lost without an error. */
  async #checkCount({ id, key }: Parent, count: number, snapshot: Reader): Promise<void> {
    if (!key || !this.#store.supports.snapshot) return;
    const row = await this.#readRow(TREE_TABLE.name, key, snapshot);
    if (!(row instanceof Buffer) || cellCounter(row, TREE.treeInfo, Q.oneLevelCount) <= BigInt(count)) return;
    const range = childrenRange(id);
    const keysRead = new Set<string>();
    for await (const batch of readAround(snapshot, TREE_TABLE.name, range, true))
      if ('keys' in batch) for (const name of batch.keys) keysRead.add(name.toString('latin1'));
    this.#lostRanges.push({ ...range, keysRead });
  }

  #treeRows({ keys, rows }: Rows): TreeRow[] {
    const treeRows: TreeRow[] = [];
    for (const [i, key] of keys.entries()) {
      try {
        const id = cellValue(rows[i]!, TREE.treeInfo, Q.id);
        if (id?.length !== UUID_BYTES) throw new StoreError('corrupt', 'a tree row leads nowhere');
        treeRows.push({ id, key, hasChildren: cellCounter(rows[i], TREE.treeInfo, Q.oneLevelCount) !== 0n });
      } catch (error) {
        if (!isDamage(error)) throw error;
        this.#lostRanges.push({ from: key, to: keyAfter(key) });
      }
    }
    return treeRows;
  }

  /** Visits the entries in `places`, children of the entry `parentDn`. Adds those with children to `parents`. */
  async #visit(places: readonly TreeRow[], parentDn: Buffer, reader: Reader, parents: Parent[]): Promise<void> {
    const rows = await this.#readMasterRows(
      places.map(({ id }) => id),
      reader,
    );
    for (const [i, { id, key, hasChildren }] of places.entries()) {
      const row = rows[i];
      // Without a snapshot, a missing row may be that of an entry deleted meanwhile.
      if (!row && !this.#store.supports.snapshot) continue;
      const dn =
        (row instanceof Buffer && (await this.#passEntry(id, row, parentDn))) ||
        lostDn(this.#schema, key, id, parentDn);
      if (!row || row instanceof StoreError) await this.#reportLost(id, dn, row?.message ?? 'its row is missing');
      if (hasChildren) parents.push({ id: Buffer.from(id), dn, key });
    }
  }

  /** Passes an entry to the sink. Returns its DN; undefined if the row has no valid DN. */
  async #passEntry(id: Buffer, row: Buffer, parentDn: Buffer): Promise<Buffer | undefined> {
    let dn: Buffer | undefined;
    try {
      dn = joinDn(upRdnOf(row), parentDn);
      await this.#sink.entry({ id, row, dn });
    } catch (error) {
      const damage = damageOf(error);
      if (!damage) throw error;
      await this.#reportLost(id, dn, damage.message);
    }
    return dn;
  }

  async #reportLost(id: Buffer | undefined, dn: Buffer | undefined, reason: string): Promise<void> {
    const idText = id?.toString('latin1');
    if (idText !== undefined) {
      if (this.#lostDns.has(idText)) return;
      this.#lostDns.set(idText, dn);
    }
    await this.#sink.lost({ id, dn, reason });
  }

  /** Finds the entries whose tree rows are in lost ranges, by scanning table master. */
  async #findInLostRanges(lostRanges: readonly LostRange[], base: Dn): Promise<void> {
    const entries: { readonly id: Buffer; readonly dn: Dn; readonly above: Buffer }[] = [];
    for await (const batch of readAround(this.#store, MASTER_TABLE.name, {})) {
      if ('error' in batch) {
        await this.#reportLost(
          batch.key?.length === UUID_BYTES ? batch.key : undefined,
          undefined,
          batch.error.message,
        );
        continue;
      }
      for (const [i, id] of batch.keys.entries()) {
        const row = batch.rows[i]!;
        const key = treeKeyOfRow(row);
        if (!key || !lostRanges.some((lostRange) => isInRange(lostRange, key))) continue;
        const parentDn = await this.#dnByMasterRows(Buffer.from(parentIdOf(row)));
        const dn = parsedDn(this.#schema, joinDn(upRdnOf(row), parentDn));
        if (dn && suffixRdnIndex(dn, [base]) >= 0) entries.push({ id, dn, above: parentDn });
      }
    }
    entries.sort((a, b) => a.dn.rdns.length - b.dn.rdns.length);
    for (const { id, above: parentDn } of entries) {
      const row = await this.#readRow(MASTER_TABLE.name, id);
      const dn = row instanceof Buffer && (await this.#passEntry(id, row, parentDn));
      if (dn) await this.#descend([{ id, dn, key: undefined }]);
    }
  }

  /** Returns the DN by the master rows of the entry and its ancestors, up to the root or to a lost entry. */
  #dnByMasterRows(id: Buffer): Promise<Buffer> {
    const readIntactRow = async (entryId: Buffer): Promise<Buffer | undefined> => {
      const row = await this.#readRow(MASTER_TABLE.name, entryId);
      return row instanceof Buffer && treeKeyOfRow(row) ? row : undefined;
    };
    return dnByRows(id, readIntactRow, (entryId) => this.#lostDns.get(entryId.toString('latin1')));
  }
}

/** Returns the key of the tree row of an entry; undefined if its master row is damaged. */
function treeKeyOfRow(row: Buffer): Buffer | undefined {
  try {
    const parentId = parentIdOf(row);
    return parentId.length === UUID_BYTES ? treeKey(parentId, normRdnOf(row)) : undefined;
  } catch (error) {
    if (isDamage(error)) return undefined;
    throw error;
  }
}

function isInRange({ from, to, keysRead }: LostRange, key: Buffer): boolean {
  if ((from && key.compare(from) < 0) || (to && key.compare(to) >= 0)) return false;
  return !keysRead?.has(key.toString('latin1'));
}
