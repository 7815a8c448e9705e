import type { Dn } from '../schema/types.js';
import type { LoadRow, LoadTable, Plan, PlanStep } from '../store/contract.js';
import { counterBytes, EMPTY, packRow, packSorted } from '../store/row.js';
import { entryId, newNode } from './add.js';
import { BulkRows } from './bulk-rows.js';
import { type Draft, entryCells } from './entry.js';
import { implyEntry } from './implied.js';
import { type Node, nodeTreeKey } from './nodes.js';
import { CHANGES_TABLE, MASTER_TABLE, TREE_TABLE } from './tables.js';
import type { Actor, LoadEntry } from './types.js';
import { changeCells, countSteps, isSpecial, type WriteContext } from './write.js';

/** Entries written in one transaction: it holds the write lock for some tens of milliseconds. */
const ENTRIES = 2000;
/** Or so many bytes of values. */
const BYTES = 8 * 1024 * 1024;

/**
 * Entries that are written together. Each becomes packed rows as soon as it is taken: what is kept until the batch is
 * full is a few buffers an entry.
 */
export class BulkBatch {
  readonly entries: { readonly entry: LoadEntry; readonly dn: Dn }[] = [];
  /** Of the batch, by normalized DN. */
  readonly nodes = new Map<string, Node>();
  readonly #context: WriteContext;
  readonly #actor: Actor;
  readonly #master: LoadRow[] = [];
  readonly #tree: { readonly name: string; readonly row: LoadRow }[] = [];
  readonly #changes: LoadRow[] = [];
  readonly #implied = new BulkRows();
  readonly #counts = new Map<Node, number>();
  #special = false;
  #bytes = 0;

  constructor(context: WriteContext, actor: Actor) {
    this.#context = context;
    this.#actor = actor;
  }

  get full(): boolean {
    return this.entries.length >= ENTRIES || this.#bytes >= BYTES;
  }

  /** Takes an entry that was checked; `name` is its normalized DN. */
  add(entry: LoadEntry, dn: Dn, name: string, draft: Draft, parent: Node): void {
    const id = entryId(draft);
    const { node, upRdn } = newNode(dn, parent, id);
    this.entries.push({ entry, dn });
    this.nodes.set(name, node);
    this.#addTree(draft, node);
    this.#addMaster(draft, node, upRdn);
    const change = { op: 'add', id, dn: node.dn, by: this.#actor.dn, csn: draft.text('entryCSN')! } as const;
    this.#changes.push({ key: EMPTY, row: packSorted(changeCells(change)) });
    this.#counts.set(parent, (this.#counts.get(parent) ?? 0) + 1);
    this.#special ||= isSpecial(draft);
  }

  #addTree(draft: Draft, node: Node): void {
    this.#implied.begin(node.id);
    implyEntry(draft, this.#context.shared.indexes, this.#implied);
    const key = nodeTreeKey(node);
    this.#tree.push({ name: key.toString('latin1'), row: { key, row: this.#implied.end() } });
  }

  #addMaster(draft: Draft, node: Node, upRdn: Buffer): void {
    const info = { parentId: node.parent!.id, normRdn: node.normRdn, upRdn, version: FIRST_VERSION };
    const { cells, separate } = entryCells(draft, info);
    const row = packSorted(cells);
    this.#bytes += row.length;
    for (const cell of separate) this.#bytes += cell.value.length;
    this.#master.push({ key: node.id, row, separate: separate.length > 0 ? packRow(separate) : undefined });
  }

  /** The batch as the store takes it. */
  rows(): [LoadTable[], Plan] {
    const steps: PlanStep[] = [this.#context.shared.guardStep(this.#special)];
    for (const [parent, count] of this.#counts) steps.push(...countSteps(parent, BigInt(count), BigInt(count)));
    const tree = this.#tree.sort((a, b) => (a.name < b.name ? -1 : 1)).map(({ row }) => row);
    const master = this.#master.sort((a, b) => Buffer.compare(a.key, b.key));
    const tables = [
      { table: TREE_TABLE.name, rows: tree, absent: true },
      { table: MASTER_TABLE.name, rows: master, absent: true },
      { table: CHANGES_TABLE.name, rows: this.#changes, append: true },
    ];
    return [[...tables, ...this.#implied.indexTables()], { steps, decisive: 0 }];
  }
}

const FIRST_VERSION = counterBytes(1n);
