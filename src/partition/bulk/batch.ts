import type { LoadTable, Plan, PlanStep } from '../../store/contract.js';
import { type PackedRows, RowPacker } from '../../store/load.js';
import { type Fixed, fixed, putFixed } from '../../store/put.js';
import { counterBytes, packSorted } from '../../store/row.js';
import { CHANGE, changeTime } from '../model/change-record.js';
import type { Actor, LoadEntry, LoadSource } from '../model/directory.js';
import type { Draft } from '../model/draft.js';
import { draftFromRow } from '../model/entry-cells.js';
import type { IndexSet } from '../model/index-set.js';
import { CHANGES_TABLE, MASTER_TABLE, TREE_TABLE } from '../model/tables.js';
import type { Context } from '../tree/locate.js';
import type { Node } from '../tree/nodes.js';
import { sharedGuard } from '../tree/shared.js';
import type { Change } from '../write/change.js';
import { sumSteps } from '../write/counters.js';
import { mergeSteps } from '../write/merge-steps.js';
import { isSpecial } from '../write/plan.js';
import { cellOf, type Layouts } from './layout.js';
import { BulkRows, putValue } from './rows.js';

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
  /** What rules have added. */
  readonly #steps: PlanStep[] = [];

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

  /** Takes an entry to which the rules have been applied, with the steps that they add; `name` is its normalized DN. */
  add(entry: LoadEntry, name: string, { after, place }: Change, steps: readonly PlanStep[]): void {
    const draft = after!;
    const node = place.to!;
    const parent = node.parent!;
    const info = { parentId: parent.id, normRdn: node.normRdn, upRdn: place.upRdn, version: FIRST_VERSION };
    const odd = this.#rows.add(draft, node, info);
    for (const step of steps) this.#steps.push(step);
    this.#taken.push({ source: entry.source ?? entry, node, draft: odd ? draft : undefined });
    this.nodes.set(name, node);
    this.#changes.add(node, draft.value('entryCSN')!);
    this.#counts.set(parent, (this.#counts.get(parent) ?? 0) + 1);
    this.#special ||= isSpecial(draft);
  }

  /** The batch as the store takes it. */
  rows(): [LoadTable[], Plan] {
    const shared = sharedGuard(this.#indexes.bytes, this.#special);
    const steps = mergeSteps([shared, ...sumSteps(this.#counts), ...this.#steps]);
    this.#master = this.#rows.master;
    const tables = [
      { table: TREE_TABLE.name, rows: this.#rows.tree, absent: true },
      { table: MASTER_TABLE.name, rows: this.#master, absent: true },
      { table: CHANGES_TABLE.name, rows: this.#changes.rows, append: true },
    ];
    return [[...tables, ...this.#rows.indexTables()], { steps, decisive: 0 }];
  }

  /** Where the entries are from, in the order taken. */
  *sources(): Generator<LoadSource> {
    for (const { source } of this.#taken) yield source;
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
