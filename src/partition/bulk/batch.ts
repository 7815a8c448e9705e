import type { LoadRow, LoadTable, Plan, PlanStep, RowStep } from '../../store/contract.js';
import { type PackedRows, RowPacker } from '../../store/load.js';
import { type Fixed, fixed, putFixed } from '../../store/put.js';
import { counterBytes, packRow, packSorted } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { CHANGE, changeTime } from '../model/change-record.js';
import type { Actor, LoadEntry, LoadSource } from '../model/directory-types.js';
import type { Draft } from '../model/draft.js';
import { draftFromRow } from '../model/entry-cells.js';
import type { IndexSet } from '../model/index-set.js';
import type { Node } from '../model/node.js';
import { CHANGES_TABLE, MASTER_TABLE, TREE_TABLE } from '../model/tables.js';
import { isFirstOwner, UNIQUE_TABLE } from '../model/unique-rows.js';
import type { NumberRange, ValueRules } from '../model/value-rules.js';
import type { PartitionContext } from '../tree/partition-context.js';
import { sharedGuard } from '../tree/shared-row.js';
import type { Change } from '../write/change.js';
import { sumSteps } from '../write/counters.js';
import { mergeSteps } from '../write/merge-steps.js';
import { isSpecial } from '../write/plan.js';
import { addSaid, type Said } from '../write/rules/numbers.js';
import { cellOf, type Layouts } from './layout.js';
import { BulkRows, putValue } from './rows.js';

/** Entries written together: it holds the write lock for some tens of milliseconds. */
const ENTRIES = 2000;
/** Or so many bytes of rows. */
const BYTES = 8 * 1024 * 1024;

/** An entry of a batch that is to be added alone. */
export interface BatchEntry {
  readonly source: LoadSource;
  readonly node: Node;
  readonly dn: string;
  readonly draft: Draft;
}

interface Taken {
  readonly source: LoadSource;
  readonly node: Node;
  /** Kept only where the row does not hold all of it. */
  readonly draft: Draft | undefined;
}

/** What the rows of a batch depend on. */
export interface BatchGuards {
  readonly values: ValueRules;
  /** `SharedState.namesGuard`. */
  readonly namesGuard: RowStep;
}

/**
 * Entries that are written together. Each becomes packed rows as soon as it is taken: what is kept until the batch is
 * full is a few objects an entry.
 */
export class BulkBatch {
  /** Of the batch, by normalized DN. */
  readonly nodes = new Map<string, Node>();
  /** The entryUUIDs that its entries bring, as `latin1` text. */
  readonly given = new Set<string>();
  /** Settled when it is stored or refused. */
  written: Promise<void> = Promise.resolve();
  /** It has entries below one that was refused: their rows name a parent that will not be. */
  orphaned = false;
  readonly #taken: Taken[] = [];
  /** The lists that the rows are made for. */
  readonly #indexes: IndexSet;
  readonly #values: ValueRules;
  readonly #namesGuard: RowStep;
  readonly #rows: BulkRows;
  readonly #changes: ChangeRows;
  readonly #counts = new Map<Node, number>();
  #master: PackedRows | undefined;
  #special = false;
  /** What rules have added. */
  readonly #steps: PlanStep[] = [];
  /** Rows of table unique among it. */
  readonly #owners: RowStep[] = [];
  readonly #said = new Map<NumberRange, Said>();

  constructor(actor: Actor, layouts: Layouts, { values, namesGuard }: BatchGuards) {
    this.#indexes = layouts.indexes;
    this.#values = values;
    this.#namesGuard = namesGuard;
    this.#rows = new BulkRows(layouts);
    this.#changes = new ChangeRows(actor, layouts);
  }

  /** Numbers that its entries have, of ranges that are given out. */
  get said(): readonly Said[] {
    return [...this.#said.values()];
  }

  say(said: Said): void {
    const known = this.#said.get(said.range);
    this.#said.set(said.range, known ? addSaid(known, said) : said);
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
    for (const step of steps) {
      if ('key' in step && isFirstOwner(step)) this.#owners.push(step);
      else this.#steps.push(step);
    }
    this.#taken.push({ source: entry.source ?? entry, node, draft: odd ? draft : undefined });
    this.nodes.set(name, node);
    this.#changes.add(node, draft.value('entryCSN')!);
    this.#counts.set(parent, (this.#counts.get(parent) ?? 0) + 1);
    this.#special ||= isSpecial(draft);
  }

  /** Entries of a batch before were refused. */
  lose(refused: ReadonlySet<Node>): void {
    for (const parent of this.#counts.keys()) this.orphaned ||= refused.has(parent);
  }

  /** The batch as the store takes it; `more`: steps that go with it. */
  rows(more: readonly PlanStep[]): [LoadTable[], Plan] {
    const shared = sharedGuard({ indexes: this.#indexes, values: this.#values }, this.#special);
    const steps = mergeSteps([shared, this.#namesGuard, ...sumSteps(this.#counts), ...this.#steps, ...more]);
    this.#master ??= this.#rows.master;
    const tables: LoadTable[] = [
      { table: TREE_TABLE.name, rows: this.#rows.tree, absent: true },
      { table: MASTER_TABLE.name, rows: this.#master, absent: true },
      { table: CHANGES_TABLE.name, rows: this.#changes.rows, append: true },
    ];
    if (this.#owners.length > 0) tables.push({ table: UNIQUE_TABLE.name, rows: this.#ownerRows(), absent: true });
    return [[...tables, ...this.#rows.indexTables()], { steps, decisive: 0 }];
  }

  /** In the order of their keys. Throws `guard` where two entries have one value. */
  #ownerRows(): LoadRow[] {
    const rows = this.#owners.map(({ key, put }) => ({ key, row: packRow(put!) }));
    rows.sort((a, b) => Buffer.compare(a.key, b.key));
    for (let i = 1; i < rows.length; i++) {
      if (rows[i]!.key.equals(rows[i - 1]!.key))
        throw new StoreError('guard', 'two entries of the batch have one value that is to be unique');
    }
    return rows;
  }

  /** Where the entries are from, in the order taken. */
  *sources(): Generator<LoadSource> {
    for (const { source } of this.#taken) yield source;
  }

  /** The entries in the order taken, to be added one by one. */
  *entries(context: PartitionContext): Generator<BatchEntry> {
    const rows = new Map<string, Buffer>();
    this.#master ??= this.#rows.master;
    for (const { key, row } of this.#master) rows.set(key.toString('latin1'), row);
    for (const { source, node, draft } of this.#taken) {
      const row = rows.get(node.id.toString('latin1'))!;
      yield { source, node, dn: node.dn.toString(), draft: draft ?? this.#draftOf(context, node, row) };
    }
  }

  #draftOf({ descriptions }: PartitionContext, node: Node, row: Buffer): Draft {
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
