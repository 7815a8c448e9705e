import type { LoadRow, LoadTable, Plan, PlanStep, RowStep } from '../../store/contract.js';
import { type PackedRows, RowPacker } from '../../store/load.js';
import { counterBytes, type FixedBytes, fixedBytes, packRow, packSorted, putFixed } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { CHANGE, changeTime } from '../model/change-record.js';
import type { Actor, LoadEntry, LoadSource } from '../model/directory-types.js';
import type { Draft } from '../model/draft.js';
import { draftFromRow } from '../model/entry-cells.js';
import type { IndexSet } from '../model/index-set.js';
import { countChosenStep } from '../model/number-rows.js';
import { CHANGES_TABLE, MASTER_TABLE, type Node, TREE_TABLE } from '../model/tables.js';
import { isFirstOwner, UNIQUE_TABLE } from '../model/unique-rows.js';
import type { NumberRange, ValueRules } from '../model/value-rules.js';
import { sharedGuard } from '../tree/shared-row.js';
import type { SharedState } from '../tree/shared-state.js';
import type { TreeContext } from '../tree/tree-context.js';
import type { Change } from '../write/context.js';
import { mergeSteps } from '../write/merge-steps.js';
import { isSpecial, sumSteps } from '../write/plan.js';
import { chosenNumbers } from '../write/rules/numbers.js';
import { cellHead, type Layouts } from './layout.js';
import { BulkRows, putValue } from './rows.js';

/** Maximum number of entries per batch. Writing a full batch holds the write lock for some tens of milliseconds. */
const ENTRIES_PER_BATCH = 2000;
const BYTES_PER_BATCH = 8 * 1024 * 1024;

export interface BatchEntry {
  readonly source: LoadSource;
  readonly node: Node;
  readonly dn: string;
  readonly draft: Draft;
}

interface BatchItem {
  readonly source: LoadSource;
  readonly node: Node;
  /** Undefined if the packed row has all values of the entry. */
  readonly draft: Draft | undefined;
}

/** A batch of entries for the bulk load. `add` packs the rows at once, so that few objects stay in memory. */
export class BulkBatch {
  /** Nodes of the entries in the batch, by normalized DN. */
  readonly nodes = new Map<string, Node>();
  /** entryUUIDs that the source sets, as latin-1 text. */
  readonly entryUuids = new Set<string>();
  /** Resolves when the batch is stored or refused. */
  whenWritten: Promise<void> = Promise.resolve();
  /** Whether the batch contains children of a refused entry. Such rows name a parent that will not exist. */
  hasOrphans = false;
  readonly #entries: BatchItem[] = [];
  readonly #indexes: IndexSet;
  readonly #valueRules: ValueRules;
  readonly #namesGuard: RowStep;
  readonly #rows: BulkRows;
  readonly #changes: ChangeRows;
  readonly #childCounts = new Map<Node, number>();
  #masterRows: PackedRows | undefined;
  #hasSpecial = false;
  readonly #steps: PlanStep[] = [];
  /** Steps of uniqueness rules that create rows of table unique. The batch packs these rows like its others. */
  readonly #ownerSteps: RowStep[] = [];
  /** How many numbers of each range the entries have. */
  readonly #chosenCounts = new Map<NumberRange, number>();

  constructor(actor: Actor, layouts: Layouts, shared: SharedState) {
    this.#indexes = layouts.indexes;
    this.#valueRules = shared.values;
    this.#namesGuard = shared.nameChangesGuard();
    this.#rows = new BulkRows(layouts);
    this.#changes = new ChangeRows(actor, layouts);
  }

  get size(): number {
    return this.#entries.length;
  }

  get isFull(): boolean {
    return this.size >= ENTRIES_PER_BATCH || this.#rows.bytes >= BYTES_PER_BATCH;
  }

  /** Adds an entry, with the plan steps that rules have added to it. `normText`: its normalized DN. */
  add(entry: LoadEntry, normText: string, { after, place }: Change, steps: readonly PlanStep[]): void {
    const draft = after!;
    const node = place.to!;
    const parent = node.parent!;
    const treeInfo = { parentId: parent.id, normRdn: node.normRdn, upRdn: place.upRdn, version: FIRST_VERSION };
    if (this.#valueRules.numberRanges.length > 0)
      for (const [range, count] of chosenNumbers(this.#valueRules, draft))
        this.#chosenCounts.set(range, (this.#chosenCounts.get(range) ?? 0) + count);
    const isGeneric = this.#rows.add(draft, node, treeInfo);
    for (const step of steps) {
      if ('key' in step && isFirstOwner(step)) this.#ownerSteps.push(step);
      else this.#steps.push(step);
    }
    this.#entries.push({ source: entry.source ?? entry, node, draft: isGeneric ? draft : undefined });
    this.nodes.set(normText, node);
    this.#changes.add(node, draft.firstValue('entryCSN')!);
    this.#childCounts.set(parent, (this.#childCounts.get(parent) ?? 0) + 1);
    this.#hasSpecial ||= isSpecial(draft);
  }

  /** Records that entries of an earlier batch were refused, which may be parents of entries in this batch. */
  markOrphans(refusedNodes: ReadonlySet<Node>): void {
    for (const parent of this.#childCounts.keys()) this.hasOrphans ||= refusedNodes.has(parent);
  }

  /** Returns the rows and the plan of the batch, for `Store.ingest`. */
  rows(): [LoadTable[], Plan] {
    const shared = sharedGuard({ indexes: this.#indexes, values: this.#valueRules }, this.#hasSpecial);
    const steps = mergeSteps([
      shared,
      this.#namesGuard,
      ...sumSteps(this.#childCounts),
      ...this.#steps,
      ...[...this.#chosenCounts].map(([range, count]) => countChosenStep(range, count)),
    ]);
    this.#masterRows ??= this.#rows.master;
    const tables: LoadTable[] = [
      { table: TREE_TABLE.name, rows: this.#rows.tree, absent: true },
      { table: MASTER_TABLE.name, rows: this.#masterRows, absent: true },
      { table: CHANGES_TABLE.name, rows: this.#changes.rows, append: true },
    ];
    if (this.#ownerSteps.length > 0)
      tables.push({ table: UNIQUE_TABLE.name, rows: this.#makeOwnerRows(), absent: true });
    return [[...tables, ...this.#rows.indexTables()], { steps, decisive: 0 }];
  }

  /** Returns the rows of table unique in key order. Throws `guard` if two entries have the same value. */
  #makeOwnerRows(): LoadRow[] {
    const rows = this.#ownerSteps.map(({ key, put }) => ({ key, row: packRow(put!) }));
    rows.sort((a, b) => Buffer.compare(a.key, b.key));
    for (let i = 1; i < rows.length; i++) {
      if (rows[i]!.key.equals(rows[i - 1]!.key))
        throw new StoreError('guard', 'two entries of the batch have one value that is to be unique');
    }
    return rows;
  }

  /** Yields the sources of the entries in the order in which they were added. */
  *sources(): Generator<LoadSource> {
    for (const { source } of this.#entries) yield source;
  }

  /** Yields the entries in the order in which they were added, to write each of them in a plan of its own. */
  *entries(context: TreeContext): Generator<BatchEntry> {
    const rows = new Map<string, Buffer>();
    this.#masterRows ??= this.#rows.master;
    for (const { key, row } of this.#masterRows) rows.set(key.toString('latin1'), row);
    for (const { source, node, draft } of this.#entries) {
      const row = rows.get(node.id.toString('latin1'))!;
      yield { source, node, dn: node.dn.toString(), draft: draft ?? this.#draftOf(context, node, row) };
    }
  }

  #draftOf({ descriptions }: TreeContext, node: Node, row: Buffer): Draft {
    const draft = draftFromRow(descriptions, row, undefined);
    draft.id = node.id;
    return draft;
  }
}

const FIRST_VERSION = counterBytes(1n);

/** Packs the change records of a batch, with the cells that `changeCells` would make. */
class ChangeRows {
  readonly #layouts: Layouts;
  readonly #packer: RowPacker;
  /** The cell with the DN of the writer, the same in every record. */
  readonly #writerCell: FixedBytes;
  /** Maximum length in bytes of a record without its DN and CSN. */
  readonly #maxRowBytes: number;

  constructor(actor: Actor, layouts: Layouts) {
    this.#layouts = layouts;
    this.#packer = new RowPacker(layouts.lastBytes.changes);
    const writerDn = Buffer.from(actor.dn);
    this.#writerCell = fixedBytes(packCell(CHANGE.by, writerDn));
    this.#maxRowBytes = writerDn.length + CELL_BYTES;
  }

  add({ id, dn }: Node, csn: Buffer): void {
    const packer = this.#packer;
    packer.begin(this.#maxRowBytes + csn.length + dn.length);
    packer.endKey();
    const { bytes, view } = packer;
    let offset = putFixed(view, packer.at, this.#writerCell);
    offset = putValue(bytes, view, putFixed(view, offset, CSN_HEAD), CSN_HEAD.length, csn);
    offset = putValue(bytes, view, putFixed(view, offset, DN_HEAD), DN_HEAD.length, dn);
    offset = putValue(bytes, view, putFixed(view, offset, ID_HEAD), ID_HEAD.length, id);
    offset = putFixed(view, offset, OP_ADD_TIME);
    packer.at = putValue(bytes, view, offset, TIME_HEAD.length, changeTime());
    packer.endRow();
    packer.end();
  }

  get rows(): PackedRows {
    this.#layouts.lastBytes.changes = this.#packer.at;
    return this.#packer.rows();
  }
}

function packCell(qualifier: Buffer, value: Buffer): Buffer {
  return packSorted([{ family: 0, qualifier, value }]);
}

const CSN_HEAD = fixedBytes(cellHead(0, CHANGE.csn));
const DN_HEAD = fixedBytes(cellHead(0, CHANGE.dn));
const ID_HEAD = fixedBytes(cellHead(0, CHANGE.id));
const TIME_HEAD = cellHead(0, CHANGE.time);
const OP_ADD_TIME = fixedBytes(packCell(CHANGE.op, Buffer.from('add')), TIME_HEAD);
/** Upper bound for the cell headers and short values of a change record, in bytes. */
const CELL_BYTES = 256;
