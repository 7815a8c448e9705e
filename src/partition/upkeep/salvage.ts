import { LdapError } from '../../ldap/ldap-error.js';
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
import { joinDn, normText, suffixAt } from '../tree/nodes.js';
import { type Rows, readAround } from './around.js';
import { dnByRows, lostDn } from './lost-name.js';

/** An entry that can be read. */
export interface Salvaged {
  readonly id: Buffer;
  /** Packed master row. */
  readonly row: Buffer;
  /** UTF-8; below a lost entry with the name that is left of that one. */
  readonly dn: Buffer;
}

/** An entry that cannot. */
export interface LostEntry {
  /** Undefined where that is lost, too; there may be several such entries then. */
  readonly id: Buffer | undefined;
  /** From its tree row, where that can be read. */
  readonly dn: Buffer | undefined;
  readonly why: string;
}

export interface SalvageSink {
  /** A rejection by damage makes it a lost entry. */
  entry(entry: Salvaged): Promise<void>;
  lost(entry: LostEntry): Promise<void>;
}

/** A tree row. */
interface Place {
  readonly id: Buffer;
  readonly key: Buffer;
  /** Others are below it. */
  readonly deep: boolean;
}

/** An entry below which others are. */
interface Parent {
  readonly id: Buffer;
  readonly dn: Buffer;
  /** Of its tree row, where that can be read. */
  readonly key: Buffer | undefined;
}

/** Where tree rows could not be read, or are fewer than there should be. */
interface Hole {
  readonly from: Buffer | undefined;
  readonly to: Buffer | undefined;
  /** Keys, latin-1, of those that were read all the same. */
  readonly seen?: ReadonlySet<string>;
}

/**
 * Every entry at and below a base that can be read, a parent always before its children, and each that is lost. Rows
 * that cannot be read are gone around; where tree rows are lost, entries are found by what they say themselves.
 */
export class Salvage {
  readonly #store: Store;
  readonly #schema: Schema;
  readonly #sink: SalvageSink;
  /** DNs of entries that are lost, by latin-1 id. */
  readonly #lost = new Map<string, Buffer | undefined>();
  #holes: Hole[] = [];

  constructor(store: Store, schema: Schema, sink: SalvageSink) {
    this.#store = store;
    this.#schema = schema;
    this.#sink = sink;
  }

  /** Resolves with false when the base does not exist. */
  async below(base: Dn, suffixes: readonly Dn[]): Promise<boolean> {
    const place = await this.#find(base, suffixes);
    if (place === 'absent') return false;
    if (place) {
      const parentId = Buffer.from(place.key.subarray(0, UUID_BYTES));
      const parents: Parent[] = [];
      await this.#visit([place], await this.#dnOf(parentId), this.#store, parents);
      await this.#descend(parents);
    }
    while (this.#holes.length > 0) {
      const holes = this.#holes;
      this.#holes = [];
      await this.#rescue(holes, base);
    }
    return true;
  }

  /** By tree rows alone; undefined where one of them is damaged. */
  async #find(base: Dn, suffixes: readonly Dn[]): Promise<Place | 'absent' | undefined> {
    let at = suffixAt(base, suffixes);
    if (at < 0) return 'absent';
    let key = treeKey(ROOT_ID, cutNorm(Buffer.from(normText(base, at), 'latin1')));
    for (;;) {
      const row = await this.#read(TREE_TABLE.name, key);
      if (row instanceof StoreError) {
        this.#holes.push({ from: key, to: keyAfter(key) });
        return undefined;
      }
      const id = row && cellValue(row, TREE.treeInfo, Q.id);
      if (!id) return 'absent';
      if (at === 0) return { id, key, deep: true };
      key = treeKey(id, cutNorm(base.rdns[--at]!.norm));
    }
  }

  /** The row, or the damage that keeps it from being read. */
  async #read(table: string, key: Buffer, reader: Reader = this.#store): Promise<Buffer | StoreError | undefined> {
    try {
      return await reader.get(table, key);
    } catch (error) {
      if (isDamage(error)) return error;
      throw error;
    }
  }

  async #readMany(ids: Buffer[], reader: Reader): Promise<(Buffer | StoreError | undefined)[]> {
    try {
      return await reader.getMany(MASTER_TABLE.name, ids);
    } catch (error) {
      if (!isDamage(error)) throw error;
    }
    const rows: (Buffer | StoreError | undefined)[] = [];
    for (const id of ids) rows.push(await this.#read(MASTER_TABLE.name, id, reader));
    return rows;
  }

  async #descend(parents: Parent[]): Promise<void> {
    for (let parent = parents.pop(); parent; parent = parents.pop()) {
      const snapshot = this.#store.snapshot();
      try {
        let met = 0;
        for await (const part of readAround(snapshot, TREE_TABLE.name, childrenRange(parent.id))) {
          if ('error' in part) {
            this.#holes.push({ from: part.from, to: part.to });
            continue;
          }
          met += part.keys.length;
          await this.#visit(this.#places(part), parent.dn, snapshot, parents);
        }
        await this.#requireCount(parent, met, snapshot);
      } finally {
        snapshot.close();
      }
    }
  }

  /** Tree rows may be lost without an error: the counter of the parent tells. */
  async #requireCount({ id, key }: Parent, met: number, snapshot: Reader): Promise<void> {
    if (!key || !this.#store.supports.snapshot) return;
    const row = await this.#read(TREE_TABLE.name, key, snapshot);
    if (!(row instanceof Buffer) || cellCounter(row, TREE.treeInfo, Q.oneLevelCount) <= BigInt(met)) return;
    const range = childrenRange(id);
    const seen = new Set<string>();
    for await (const part of readAround(snapshot, TREE_TABLE.name, range, true))
      if ('keys' in part) for (const name of part.keys) seen.add(name.toString('latin1'));
    this.#holes.push({ ...range, seen });
  }

  #places({ keys, rows }: Rows): Place[] {
    const places: Place[] = [];
    for (const [i, key] of keys.entries()) {
      try {
        const id = cellValue(rows[i]!, TREE.treeInfo, Q.id);
        if (id?.length !== UUID_BYTES) throw new StoreError('corrupt', 'a tree row leads nowhere');
        places.push({ id, key, deep: cellCounter(rows[i], TREE.treeInfo, Q.oneLevelCount) !== 0n });
      } catch (error) {
        if (!isDamage(error)) throw error;
        this.#holes.push({ from: key, to: keyAfter(key) });
      }
    }
    return places;
  }

  /** Entries right below `above`; those that have others below them are added to `parents`. */
  async #visit(places: readonly Place[], above: Buffer, reader: Reader, parents: Parent[]): Promise<void> {
    const rows = await this.#readMany(
      places.map(({ id }) => id),
      reader,
    );
    for (const [i, { id, key, deep }] of places.entries()) {
      const row = rows[i];
      // Without states of the store nobody can tell what is lost from what was deleted.
      if (!row && !this.#store.supports.snapshot) continue;
      const dn = (row instanceof Buffer && (await this.#give(id, row, above))) || lostDn(this.#schema, key, id, above);
      if (!row || row instanceof StoreError) await this.#tell(id, dn, row?.message ?? 'its row is missing');
      if (deep) parents.push({ id: Buffer.from(id), dn, key });
    }
  }

  /** Hands out an entry; gives its DN, undefined where its row does not even tell that. */
  async #give(id: Buffer, row: Buffer, above: Buffer): Promise<Buffer | undefined> {
    let dn: Buffer | undefined;
    try {
      dn = joinDn(upRdnOf(row), above);
      await this.#sink.entry({ id, row, dn });
    } catch (error) {
      const damage = damageOf(error);
      if (!damage) throw error;
      await this.#tell(id, dn, damage.message);
    }
    return dn;
  }

  async #tell(id: Buffer | undefined, dn: Buffer | undefined, why: string): Promise<void> {
    const name = id?.toString('latin1');
    if (name !== undefined) {
      if (this.#lost.has(name)) return;
      this.#lost.set(name, dn);
    }
    await this.#sink.lost({ id, dn, why });
  }

  /** Entries whose tree rows lie where those could not be read. */
  async #rescue(holes: readonly Hole[], base: Dn): Promise<void> {
    const found: { readonly id: Buffer; readonly dn: Dn; readonly above: Buffer }[] = [];
    for await (const part of readAround(this.#store, MASTER_TABLE.name, {})) {
      if ('error' in part) {
        await this.#tell(part.key?.length === UUID_BYTES ? part.key : undefined, undefined, part.error.message);
        continue;
      }
      for (const [i, id] of part.keys.entries()) {
        const row = part.rows[i]!;
        const key = placeOf(row);
        if (!key || !holes.some((hole) => isIn(hole, key))) continue;
        const above = await this.#dnOf(Buffer.from(parentIdOf(row)));
        const dn = parsed(this.#schema, joinDn(upRdnOf(row), above));
        if (dn && suffixAt(dn, [base]) >= 0) found.push({ id, dn, above });
      }
    }
    found.sort((a, b) => a.dn.rdns.length - b.dn.rdns.length);
    for (const { id, above } of found) {
      const row = await this.#read(MASTER_TABLE.name, id);
      const dn = row instanceof Buffer && (await this.#give(id, row, above));
      if (dn) await this.#descend([{ id, dn, key: undefined }]);
    }
  }

  /** By master rows, up to the root or to an entry that is lost. */
  #dnOf(id: Buffer): Promise<Buffer> {
    const rowOf = async (at: Buffer): Promise<Buffer | undefined> => {
      const row = await this.#read(MASTER_TABLE.name, at);
      return row instanceof Buffer && placeOf(row) ? row : undefined;
    };
    return dnByRows(id, rowOf, (at) => this.#lost.get(at.toString('latin1')));
  }
}

/** Key of the tree row of an entry; undefined where its row does not tell. */
function placeOf(row: Buffer): Buffer | undefined {
  try {
    const parentId = parentIdOf(row);
    return parentId.length === UUID_BYTES ? treeKey(parentId, normRdnOf(row)) : undefined;
  } catch (error) {
    if (isDamage(error)) return undefined;
    throw error;
  }
}

function parsed(schema: Schema, dn: Buffer): Dn | undefined {
  try {
    return schema.parseDnBytes(dn);
  } catch (error) {
    if (error instanceof LdapError) return undefined;
    throw error;
  }
}

function isIn({ from, to, seen }: Hole, key: Buffer): boolean {
  if ((from && key.compare(from) < 0) || (to && key.compare(to) >= 0)) return false;
  return !seen?.has(key.toString('latin1'));
}
