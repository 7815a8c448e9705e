import { type PackedRows, RowPacker } from '../store/load.js';
import { CELL_HEADER, packRow, packSorted } from '../store/row.js';
import { IndexRows } from './bulk-index.js';
import { cellOf, FORM_POSITION, type Layout, type Layouts, type TypePart } from './bulk-layout.js';
import { type Draft, type DraftAttribute, type EntryCells, entryCells, type TreeInfo } from './entry.js';
import type { Form } from './implied.js';
import type { Index } from './indexes.js';
import { LARGE_VALUE } from './large.js';
import type { Node } from './nodes.js';
import { MASTER, Q, ROOT_ID, TREE } from './tables.js';
import { WIDE_VALUES } from './wide.js';

const COMMA = 0x2c;

const ID = cellOf(TREE.treeInfo, Q.id);
const NORM_RDN = cellOf(MASTER.treeInfo, Q.normRdn);
const PARENT_ID = cellOf(MASTER.treeInfo, Q.parentId);
const UP_RDN = cellOf(MASTER.treeInfo, Q.upRdn);
const VERSION = cellOf(MASTER.treeInfo, Q.version);

const NO_FORMS: readonly Form[] = [];

/** Packs the rows that the entries of a batch have in the tables of the directory, without an object a cell. */
export class BulkRows {
  readonly #layouts: Layouts;
  readonly #tree = new RowPacker();
  readonly #master = new RowPacker();
  readonly #indexes = new Map<Index, IndexRows>();
  /** Forms of the entry in hand, by number of the type in its layout. */
  readonly #forms: (readonly Form[])[] = [];
  /** One of them was cut. */
  #cut = false;

  constructor(layouts: Layouts) {
    this.#layouts = layouts;
  }

  /** Bytes of rows so far. */
  get bytes(): number {
    return this.#tree.at + this.#master.at;
  }

  /** Whether a value is so large that it does not stand in the row, or there are so many that the row says so. */
  add(draft: Draft, node: Node, info: TreeInfo): boolean {
    const attributes = [...draft.attributes.values()];
    const layout = this.#layouts.of(attributes);
    this.#imply(attributes, layout, node.id);
    this.#addTree(layout, node);
    const odd = attributes.some(isOdd);
    this.#master.begin();
    this.#master.write(node.id);
    this.#master.endKey();
    if (odd) this.#addOdd(entryCells(draft, info));
    else this.#addMaster(attributes, layout, info);
    this.#master.end();
    return odd;
  }

  /** Normal forms, and what of them goes into indexes. */
  #imply(attributes: readonly DraftAttribute[], { types }: Layout, id: Buffer): void {
    this.#cut = false;
    for (let i = 0; i < types.length; i++) {
      const { places, maker, index, attributes: at } = types[i]!;
      for (let k = 0; k < places.length; k++) at[k] = attributes[places[k]!]!;
      const forms = maker ? maker.forms(at) : NO_FORMS;
      this.#forms[i] = forms;
      for (let k = 0; k < forms.length; k++) if (forms[k]!.cut !== forms[k]!.norm) this.#cut = true;
      if (index) this.#post(index, forms, id);
    }
  }

  #post(index: Index, forms: readonly Form[], id: Buffer): void {
    let rows = this.#indexes.get(index);
    if (!rows) {
      rows = new IndexRows(index);
      this.#indexes.set(index, rows);
    }
    if (index.presence) rows.present(id);
    rows.add(forms, id);
  }

  #addTree({ tree, uncutTree, types }: Layout, node: Node): void {
    const packer = this.#tree;
    packer.begin();
    packer.write(node.parent?.id ?? ROOT_ID);
    packer.reserve(1);
    packer.bytes[packer.at++] = COMMA;
    packer.write(node.normRdn);
    packer.endKey();
    packer.cell(ID, node.id);
    const parts = this.#cut ? tree : uncutTree;
    for (let i = 0; i < parts.length; i++) {
      const { type, cell, cut } = parts[i]!;
      const forms = this.#forms[type]!;
      if (cell === undefined) this.#addForms(types[type]!, forms);
      else if (!cut || forms.some((form) => form.cut !== form.norm)) packer.write(cell);
    }
    packer.endRow();
    packer.end();
  }

  #addForms({ run, head }: TypePart, forms: readonly Form[]): void {
    if (run.repeat(forms, this.#tree)) return;
    const { at } = this.#tree;
    for (let k = 0; k < forms.length; k++) this.#addForm(head, forms[k]!);
    run.learn(forms, this.#tree, at);
  }

  /** A cell `OID=form`, its value the position. */
  #addForm(head: Buffer, { cut, position }: Form): void {
    const packer = this.#tree;
    const n = head.length;
    const m = cut.length;
    packer.reserve(n + m + FORM_POSITION);
    const { bytes } = packer;
    let { at } = packer;
    const qualifier = n - CELL_HEADER + m;
    for (let i = 0; i < n; i++) bytes[at + i] = head[i]!;
    bytes[at + 1] = qualifier >>> 8;
    bytes[at + 2] = qualifier;
    at += n;
    for (let i = 0; i < m; i++) bytes[at++] = cut[i]!;
    bytes[at++] = position >>> 24;
    bytes[at++] = position >>> 16;
    bytes[at++] = position >>> 8;
    bytes[at++] = position;
    packer.at = at;
  }

  #addMaster(attributes: readonly DraftAttribute[], { master }: Layout, info: TreeInfo): void {
    const packer = this.#master;
    packer.cell(NORM_RDN, info.normRdn);
    packer.cell(PARENT_ID, info.parentId);
    packer.cell(UP_RDN, info.upRdn);
    packer.cell(VERSION, info.version);
    for (let i = 0; i < master.length; i++) {
      const { place, type, head, run } = master[i]!;
      const forms = type < 0 ? undefined : this.#forms[type];
      if (forms && run.repeat(forms, packer)) continue;
      const { at } = packer;
      const { values } = attributes[place]!;
      for (let k = 0; k < values.length; k++) this.#addValue(head, values[k]!.index, values[k]!.bytes);
      if (forms) run.learn(forms, packer, at);
    }
    packer.endRow();
  }

  #addOdd({ cells, separate }: EntryCells): void {
    this.#master.write(packSorted(cells));
    this.#master.endRow();
    this.#master.write(packRow(separate));
  }

  /** The value index stands at the end of the qualifier. */
  #addValue(head: Buffer, index: number, value: Buffer): void {
    const packer = this.#master;
    const end = packer.at + head.length;
    packer.cell(head, value);
    if (index > 0) packer.bytes.writeUInt32BE(index, end - 4);
  }

  get tree(): PackedRows {
    return this.#tree.rows();
  }

  get master(): PackedRows {
    return this.#master.rows();
  }

  /** Rows of every index table. */
  *indexTables(): Generator<{ table: string; rows: PackedRows }> {
    for (const [{ table }, rows] of this.#indexes) yield { table, rows: rows.rows() };
  }
}

function isOdd({ values }: DraftAttribute): boolean {
  if (values.length > WIDE_VALUES) return true;
  for (let i = 0; i < values.length; i++) if (values[i]!.bytes.length > LARGE_VALUE) return true;
  return false;
}
