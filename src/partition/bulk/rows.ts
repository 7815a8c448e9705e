import { type PackedRows, RowPacker } from '../../store/load.js';
import { FIXED_EXCESS, fixedBytes, putBytes, putFixed } from '../../store/put.js';
import { CELL_HEADER, packRow, packSorted } from '../../store/row.js';
import { INDEX_BYTES } from '../model/descriptions.js';
import type { Draft, DraftAttribute } from '../model/draft.js';
import { type EntryCells, entryCells, type TreeInfo } from '../model/entry-cells.js';
import type { NormalizedValue } from '../model/implied.js';
import type { Index } from '../model/index-set.js';
import type { Node } from '../model/node.js';
import { MASTER, Q, ROOT_ID, TREE, UUID_BYTES } from '../model/tables.js';
import { LARGE_VALUE, WIDE_VALUES } from '../model/thresholds.js';
import { IndexRows } from './index-rows.js';
import { cellOf, FORM_POSITION, type Layout, type Layouts, type TreePart } from './layout.js';

const COMMA = 0x2c;

const ID = fixedBytes(cellOf(TREE.treeInfo, Q.id, UUID_BYTES));
const NORM_RDN = fixedBytes(cellOf(MASTER.treeInfo, Q.normRdn));
const PARENT_ID = fixedBytes(cellOf(MASTER.treeInfo, Q.parentId));
const UP_RDN = fixedBytes(cellOf(MASTER.treeInfo, Q.upRdn));
const VERSION = fixedBytes(cellOf(MASTER.treeInfo, Q.version));
/** Upper bound for the cells and heads above, in bytes. */
const TREE_INFO = 256;
/** Offset of the value length within a cell. */
const VALUE_LENGTH = 3;

const NO_FORMS: readonly NormalizedValue[] = [];

/** Packs the rows of a batch for all tables, without an object per cell. */
export class BulkRows {
  readonly #layouts: Layouts;
  readonly #tree: RowPacker;
  readonly #master: RowPacker;
  readonly #indexes = new Map<Index, IndexRows>();
  /** Layout of the last entry. `#indexesOf` holds its index rows by type. */
  #layout: Layout | undefined;
  #indexesOf: readonly (IndexRows | undefined)[] = [];
  /** Forms of the current entry, by type of the layout. */
  readonly #forms: (readonly NormalizedValue[])[] = [];
  /** Number of the forms, and their total length in bytes. */
  #count = 0;
  #bytes = 0;
  #cut = false;

  constructor(layouts: Layouts) {
    this.#layouts = layouts;
    this.#tree = new RowPacker(layouts.room.tree);
    this.#master = new RowPacker(layouts.room.master);
  }

  /** Size of the packed rows in bytes. */
  get bytes(): number {
    return this.#tree.at + this.#master.at;
  }

  /** Adds an entry. Returns true if the row does not contain all values: an attribute is wide, or a value is large. */
  add(draft: Draft, node: Node, info: TreeInfo): boolean {
    const { attributes } = draft;
    const layout = this.#layouts.of(attributes);
    if (layout !== this.#layout) this.#take(layout);
    this.#imply(attributes, layout, node.id);
    this.#addTree(layout, node);
    const bytes = masterBytes(attributes, layout);
    if (bytes < 0) this.#addGeneric(node.id, entryCells(draft, info));
    else this.#addMaster(attributes, layout, node.id, info, bytes);
    return bytes < 0;
  }

  /** Computes the normal forms and adds them to the indexes. */
  #imply(attributes: readonly DraftAttribute[], { types }: Layout, id: Buffer): void {
    this.#cut = false;
    this.#count = 0;
    this.#bytes = 0;
    for (let i = 0; i < types.length; i++) {
      const { places, maker, attributes: at } = types[i]!;
      let forms = NO_FORMS;
      if (maker) {
        for (let k = 0; k < places.length; k++) at[k] = attributes[places[k]!]!;
        forms = maker.normalize(at);
      }
      this.#forms[i] = forms;
      this.#count += forms.length;
      for (let k = 0; k < forms.length; k++) {
        const { cutValue: cut, norm } = forms[k]!;
        this.#bytes += cut.length;
        if (cut !== norm) this.#cut = true;
      }
      this.#indexesOf[i]?.add(forms, id);
    }
  }

  #take(layout: Layout): void {
    this.#layout = layout;
    this.#indexesOf = layout.types.map(({ index }) => index && this.#rowsOf(index));
  }

  #rowsOf(index: Index): IndexRows {
    const known = this.#indexes.get(index);
    if (known) return known;
    const rows = new IndexRows(index);
    this.#indexes.set(index, rows);
    return rows;
  }

  #addTree(layout: Layout, { id, parent, normRdn }: Node): void {
    const packer = this.#tree;
    const forms = this.#bytes + this.#count * (layout.headBytes + FORM_POSITION);
    packer.begin(TREE_INFO + normRdn.length + layout.treeBytes + forms);
    const { bytes, view } = packer;
    let at = putBytes(bytes, packer.at, parent?.id ?? ROOT_ID);
    bytes[at++] = COMMA;
    packer.at = putBytes(bytes, at, normRdn);
    packer.endKey();
    at = putFixed(view, packer.at, ID);
    at = putBytes(bytes, at, id);
    const parts = this.#cut ? layout.tree : layout.uncutTree;
    for (let i = 0; i < parts.length; i++) at = this.#addForms(parts[i]!, bytes, view, at);
    packer.at = at;
    packer.endRow();
    packer.end();
  }

  /** Writes complete cells, then the cells `OID=form`, whose values are the positions. */
  #addForms({ before, type, head, mark }: TreePart, bytes: Buffer, view: DataView, start: number): number {
    if (type < 0) return putFixed(view, start, before);
    const forms = this.#forms[type]!;
    if (mark) return forms.some(({ cutValue: cut, norm }) => cut !== norm) ? putFixed(view, start, before) : start;
    let at = putFixed(view, start, before);
    if (forms.length === 0) return at - head.length;
    for (let k = 0; k < forms.length; k++) {
      if (k > 0) at = putFixed(view, at, head);
      const { cutValue: cut, valueIndex: position } = forms[k]!;
      view.setInt16(at - head.length + 1, head.length - CELL_HEADER + cut.length);
      at = putBytes(bytes, at, cut);
      view.setInt32(at, position);
      at += FORM_POSITION;
    }
    return at;
  }

  #addMaster(
    attributes: readonly DraftAttribute[],
    { master }: Layout,
    id: Buffer,
    { normRdn, parentId, upRdn, version }: TreeInfo,
    room: number,
  ): void {
    const packer = this.#master;
    packer.begin(TREE_INFO + normRdn.length + upRdn.length + room);
    const { bytes, view } = packer;
    packer.at = putBytes(bytes, packer.at, id);
    packer.endKey();
    let at = putValue(bytes, view, putFixed(view, packer.at, NORM_RDN), NORM_RDN.length, normRdn);
    at = putValue(bytes, view, putFixed(view, at, PARENT_ID), PARENT_ID.length, parentId);
    at = putValue(bytes, view, putFixed(view, at, UP_RDN), UP_RDN.length, upRdn);
    at = putValue(bytes, view, putFixed(view, at, VERSION), VERSION.length, version);
    for (let i = 0; i < master.length; i++) {
      const { place, head } = master[i]!;
      const { values } = attributes[place]!;
      for (let k = 0; k < values.length; k++) {
        const { index, bytes: value } = values[k]!;
        at = putFixed(view, at, head);
        if (index > 0) view.setInt32(at - INDEX_BYTES, index);
        at = putValue(bytes, view, at, head.length, value);
      }
    }
    packer.at = at;
    packer.endRow();
    packer.end();
  }

  #addGeneric(id: Buffer, { cells, newChunks: separate }: EntryCells): void {
    const packer = this.#master;
    packer.begin();
    packer.write(id);
    packer.endKey();
    packer.write(packSorted(cells));
    packer.endRow();
    packer.write(packRow(separate));
    packer.end();
  }

  get tree(): PackedRows {
    this.#layouts.room.tree = this.#tree.at;
    return this.#tree.rows();
  }

  get master(): PackedRows {
    this.#layouts.room.master = this.#master.at;
    return this.#master.rows();
  }

  *indexTables(): Generator<{ table: string; rows: PackedRows }> {
    for (const [{ table }, rows] of this.#indexes) yield { table, rows: rows.rows() };
  }
}

/** Writes the value of a cell whose head has `head` bytes and ends at `at`. */
export function putValue(bytes: Buffer, view: DataView, at: number, head: number, value: Buffer): number {
  view.setInt32(at - head + VALUE_LENGTH, value.length);
  return putBytes(bytes, at, value);
}

/** Returns an upper bound for the values and their heads in bytes; -1 if a value is large or an attribute is wide. */
function masterBytes(attributes: readonly DraftAttribute[], { headBytes }: Layout): number {
  let bytes = FIXED_EXCESS;
  for (let i = 0; i < attributes.length; i++) {
    const { values } = attributes[i]!;
    if (values.length > WIDE_VALUES) return -1;
    for (let k = 0; k < values.length; k++) {
      const { length } = values[k]!.bytes;
      if (length > LARGE_VALUE) return -1;
      bytes += headBytes + length;
    }
  }
  return bytes;
}
