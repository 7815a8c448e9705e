import type { Dn } from '../schema/types.js';
import type { LoadTable, Plan, PlanStep } from '../store/contract.js';
import { type PackedRows, RowPacker } from '../store/load.js';
import { type Fixed, fixed, putFixed } from '../store/put.js';
import { counterBytes, packSorted } from '../store/row.js';
import { entryId, newNode } from './add.js';
import { cellOf, type Layouts } from './bulk-layout.js';
import { BulkRows, putValue } from './bulk-rows.js';
import type { Draft } from './draft.js';
import { draftFromRow } from './entry.js';
import type { IndexSet } from './indexes.js';
import type { Context } from './locate.js';
import type { Node } from './nodes.js';
import { sharedGuard } from './shared.js';
import { CHANGES_TABLE, MASTER_TABLE, TREE_TABLE } from './tables.js';
import type { Actor, LoadEntry, LoadSource } from './types.js';
import { CHANGE, changeTime, countSteps, isSpecial } from './write.js';

/** Entries written together: it holds the write lock for some tens of milliseconds. */
const ENTRIES = 2000;
/** Or so many bytes of rows. */
const BYTES = 8 * 1024 * 1024;

/** An entry of a batch that is to be added alone. */
export interface BatchEntry {
  readonly source: LoadSource;
  readonly dn: string;
  readonly draft: Draft;
}

interface Taken {
  readonly source: LoadSource;
  readonly node: Node;
  /** Kept only where the row does not hold all of it. */
  readonly draft: Draft | undefined;
}

/**
 * Entries that are written together. Each becomes packed rows as soon as it is taken: what is kept until the batch is
 * full is a few objects an entry.
 */
export class BulkBatch {
  /** Of the batch, by normalized DN. */
  readonly nodes = new Map<string, Node>();
  /** Settled when it is stored or refused. */
  written: Promise<void> = Promise.resolve();
  readonly #taken: Taken[] = [];
  /** The list that the rows are made for. */
  readonly #indexes: IndexSet;
  readonly #rows: BulkRows;
  readonly #changes: ChangeRows;
  readonly #counts = new Map<Node, number>();
  #master: PackedRows | undefined;
  #special = false;

  constructor(actor: Actor, layouts: Layouts) {
    this.#indexes = layouts.indexes;
    this.#rows = new BulkRows(layouts);
    this.#changes = new ChangeRows(actor, layouts);
  }

  get size(): number {
    return this.#taken.length;
  }

  get full(): boolean {
    return this.size >= ENTRIES || this.#rows.bytes >= BYTES;
  }

  /** Takes an entry that was checked; `name` is its normalized DN. */
  add(entry: LoadEntry, dn: Dn, name: string, draft: Draft, parent: Node): void {
    const id = entryId(draft);
    const { node, upRdn } = newNode(dn, parent, id);
    const info = { parentId: parent.id, normRdn: node.normRdn, upRdn, version: FIRST_VERSION };
    const odd = this.#rows.add(draft, node, info);
    this.#taken.push({ source: entry.source ?? entry, node, draft: odd ? draft : undefined });
    this.nodes.set(name, node);
    this.#changes.add(node, draft.value('entryCSN')!);
    this.#counts.set(parent, (this.#counts.get(parent) ?? 0) + 1);
    this.#special ||= isSpecial(draft);
  }

  /** The batch as the store takes it. */
  rows(): [LoadTable[], Plan] {
    const steps: PlanStep[] = [sharedGuard(this.#indexes.bytes, this.#special)];
    for (const [parent, count] of this.#counts) steps.push(...countSteps(parent, BigInt(count), BigInt(count)));
    this.#master = this.#rows.master;
    const tables = [
      { table: TREE_TABLE.name, rows: this.#rows.tree, absent: true },
      { table: MASTER_TABLE.name, rows: this.#master, absent: true },
      { table: CHANGES_TABLE.name, rows: this.#changes.rows, append: true },
    ];
    return [[...tables, ...this.#rows.indexTables()], { steps, decisive: 0 }];
  }

  /** The entries in the order taken, after the store has refused `rows()`. */
  *entries(context: Context): Generator<BatchEntry> {
    const rows = new Map<string, Buffer>();
    for (const { key, row } of this.#master ?? []) rows.set(key.toString('latin1'), row);
    for (const { source, node, draft } of this.#taken) {
      const row = rows.get(node.id.toString('latin1'))!;
      yield { source, dn: node.dn.toString(), draft: draft ?? this.#draftOf(context, node, row) };
    }
  }

  #draftOf({ descriptions }: Context, node: Node, row: Buffer): Draft {
    const draft = draftFromRow(descriptions, row, undefined);
    draft.id = node.id;
    return draft;
  }
}

const FIRST_VERSION = counterBytes(1n);

/** Change records of the entries of a batch, as `changeCells` makes them. */
class ChangeRows {
  readonly #layouts: Layouts;
  readonly #packer: RowPacker;
  /** The cell that all of them begin with. */
  readonly #by: Fixed;
  /** Bytes at most of one, its DN and CSN left out. */
  readonly #room: number;

  constructor(actor: Actor, layouts: Layouts) {
    this.#layouts = layouts;
    this.#packer = new RowPacker(layouts.room.changes);
    const by = Buffer.from(actor.dn);
    this.#by = fixed(packCell(CHANGE.by, by));
    this.#room = by.length + CELLS;
  }

  add({ id, dn }: Node, csn: Buffer): void {
    const packer = this.#packer;
    packer.begin(this.#room + csn.length + dn.length);
    packer.endKey();
    const { bytes, view } = packer;
    let at = putFixed(view, packer.at, this.#by);
    at = putValue(bytes, view, putFixed(view, at, CSN), CSN.length, csn);
    at = putValue(bytes, view, putFixed(view, at, DN), DN.length, dn);
    at = putValue(bytes, view, putFixed(view, at, ID), ID.length, id);
    at = putFixed(view, at, OP_ADD_TIME);
    packer.at = putValue(bytes, view, at, TIME.length, changeTime());
    packer.endRow();
    packer.end();
  }

  get rows(): PackedRows {
    this.#layouts.room.changes = this.#packer.at;
    return this.#packer.rows();
  }
}

function packCell(qualifier: Buffer, value: Buffer): Buffer {
  return packSorted([{ family: 0, qualifier, value }]);
}

const CSN = fixed(cellOf(0, CHANGE.csn));
const DN = fixed(cellOf(0, CHANGE.dn));
const ID = fixed(cellOf(0, CHANGE.id));
const TIME = cellOf(0, CHANGE.time);
const OP_ADD_TIME = fixed(packCell(CHANGE.op, Buffer.from('add')), TIME);
/** More than the heads and the short values of a change record have. */
const CELLS = 256;
