import { type PackedRows, RowPacker } from '../../store/load.js';
import { CELL_HEADER, FIXED_EXCESS, fixedBytes, packRow, packSorted, putBytes, putFixed } from '../../store/row.js';
import { INDEX_BYTES } from '../model/descriptions.js';
import type { Draft, DraftAttribute } from '../model/draft.js';
import { type EntryCells, entryCells, type TreeInfo } from '../model/entry-cells.js';
import type { NormalizedValue } from '../model/implied.js';
import type { Index } from '../model/index-set.js';
import { MASTER, type Node, Q, ROOT_ID, TREE, UUID_BYTES } from '../model/tables.js';
import { LARGE_VALUE, WIDE_VALUES } from '../model/thresholds.js';
import { IndexRows } from './index-rows.js';
import { cellHead, type Layout, type Layouts, type TreePart, VALUE_INDEX_BYTES } from './layout.js';

const COMMA = 0x2c;

const ID = fixedBytes(cellHead(TREE.treeInfo, Q.id, UUID_BYTES));
const NORM_RDN = fixedBytes(cellHead(MASTER.treeInfo, Q.normRdn));
const PARENT_ID = fixedBytes(cellHead(MASTER.treeInfo, Q.parentId));
const UP_RDN = fixedBytes(cellHead(MASTER.treeInfo, Q.upRdn));
const VERSION = fixedBytes(cellHead(MASTER.treeInfo, Q.version));
/** Upper bound, in bytes, of the cells of a tree row in family treeInfo. */
const TREE_INFO_BYTES = 256;
/** Offset of the length of the value within a cell. */
const VALUE_LENGTH_OFFSET = 3;

const NO_VALUES: readonly NormalizedValue[] = [];

/** Packs the rows of a batch for all tables. Creates no object per cell. */
export class BulkRows {
  readonly #layouts: Layouts;
  readonly #treePacker: RowPacker;
  readonly #masterPacker: RowPacker;
  readonly #rowsByIndex = new Map<Index, IndexRows>();
  /** Layout of the last entry, whose index rows are in `#rowsByType`. */
  #layout: Layout | undefined;
  #rowsByType: readonly (IndexRows | undefined)[] = [];
  /** Normal forms of the current entry, by index of the type in the layout. */
  readonly #valuesByType: (readonly NormalizedValue[])[] = [];
  /** Number of the normal forms of the current entry. */
  #valueCount = 0;
  #valueBytes = 0;
  #hasCut = false;

  constructor(layouts: Layouts) {
    this.#layouts = layouts;
    this.#treePacker = new RowPacker(layouts.lastBytes.tree);
    this.#masterPacker = new RowPacker(layouts.lastBytes.master);
  }

  /** Size of the packed rows in bytes. */
  get bytes(): number {
    return this.#treePacker.at + this.#masterPacker.at;
  }

  /** Adds an entry. Returns true if its master row lacks values, because an attribute is wide or a value is large. */
  add(draft: Draft, node: Node, treeInfo: TreeInfo): boolean {
    const { attributes } = draft;
    const layout = this.#layouts.layoutFor(attributes);
    if (layout !== this.#layout) this.#useLayout(layout);
    this.#imply(attributes, layout, node.id);
    this.#addTree(layout, node);
    const bytes = maxMasterBytes(attributes, layout);
    if (bytes < 0) this.#addGeneric(node.id, entryCells(draft, treeInfo));
    else this.#addMaster(attributes, layout, node.id, treeInfo, bytes);
    return bytes < 0;
  }

  /** Computes the normal forms of the entry and adds its index rows. */
  #imply(attributes: readonly DraftAttribute[], { typeParts: types }: Layout, id: Buffer): void {
    this.#hasCut = false;
    this.#valueCount = 0;
    this.#valueBytes = 0;
    for (let i = 0; i < types.length; i++) {
      const { attributeIndexes: places, normalizer: maker, attributes: slots } = types[i]!;
      let normalized = NO_VALUES;
      if (maker) {
        for (let k = 0; k < places.length; k++) slots[k] = attributes[places[k]!]!;
        normalized = maker.normalize(slots);
      }
      this.#valuesByType[i] = normalized;
      this.#valueCount += normalized.length;
      for (let k = 0; k < normalized.length; k++) {
        const { cutValue: cut, norm } = normalized[k]!;
        this.#valueBytes += cut.length;
        if (cut !== norm) this.#hasCut = true;
      }
      this.#rowsByType[i]?.add(normalized, id);
    }
  }

  #useLayout(layout: Layout): void {
    this.#layout = layout;
    this.#rowsByType = layout.typeParts.map(({ index }) => index && this.#indexRows(index));
  }

  #indexRows(index: Index): IndexRows {
    const existing = this.#rowsByIndex.get(index);
    if (existing) return existing;
    const rows = new IndexRows(index);
    this.#rowsByIndex.set(index, rows);
    return rows;
  }

  #addTree(layout: Layout, { id, parent, normRdn }: Node): void {
    const packer = this.#treePacker;
    const normBytes = this.#valueBytes + this.#valueCount * (layout.maxHeadBytes + VALUE_INDEX_BYTES);
    packer.begin(TREE_INFO_BYTES + normRdn.length + layout.maxTreeBytes + normBytes);
    const { bytes, view } = packer;
    let offset = putBytes(bytes, packer.at, parent?.id ?? ROOT_ID);
    bytes[offset++] = COMMA;
    packer.at = putBytes(bytes, offset, normRdn);
    packer.endKey();
    offset = putFixed(view, packer.at, ID);
    offset = putBytes(bytes, offset, id);
    const treeParts = this.#hasCut ? layout.treeParts : layout.uncutTreeParts;
    for (let i = 0; i < treeParts.length; i++) offset = this.#addTreeCells(treeParts[i]!, bytes, view, offset);
    packer.at = offset;
    packer.endRow();
    packer.end();
  }

  /** Writes complete cells, then a cell `OID=`normal form for each normal form of the type. */
  #addTreeCells(
    { fixedCells, typeIndex: type, head, isCutMark }: TreePart,
    bytes: Buffer,
    view: DataView,
    start: number,
  ): number {
    if (type < 0) return putFixed(view, start, fixedCells);
    const normalized = this.#valuesByType[type]!;
    if (isCutMark)
      return normalized.some(({ cutValue: cut, norm }) => cut !== norm) ? putFixed(view, start, fixedCells) : start;
    let offset = putFixed(view, start, fixedCells);
    if (normalized.length === 0) return offset - head.length;
    for (let k = 0; k < normalized.length; k++) {
      if (k > 0) offset = putFixed(view, offset, head);
      const { cutValue: cut, valueIndex: position } = normalized[k]!;
      view.setInt16(offset - head.length + 1, head.length - CELL_HEADER + cut.length);
      offset = putBytes(bytes, offset, cut);
      view.setInt32(offset, position);
      offset += VALUE_INDEX_BYTES;
    }
    return offset;
  }

  #addMaster(
    attributes: readonly DraftAttribute[],
    { masterParts: master }: Layout,
    id: Buffer,
    { normRdn, parentId, upRdn, version }: TreeInfo,
    maxValueBytes: number,
  ): void {
    const packer = this.#masterPacker;
    packer.begin(TREE_INFO_BYTES + normRdn.length + upRdn.length + maxValueBytes);
    const { bytes, view } = packer;
    packer.at = putBytes(bytes, packer.at, id);
    packer.endKey();
    let offset = putValue(bytes, view, putFixed(view, packer.at, NORM_RDN), NORM_RDN.length, normRdn);
    offset = putValue(bytes, view, putFixed(view, offset, PARENT_ID), PARENT_ID.length, parentId);
    offset = putValue(bytes, view, putFixed(view, offset, UP_RDN), UP_RDN.length, upRdn);
    offset = putValue(bytes, view, putFixed(view, offset, VERSION), VERSION.length, version);
    for (let i = 0; i < master.length; i++) {
      const { attributeIndex: place, head } = master[i]!;
      const { values } = attributes[place]!;
      for (let k = 0; k < values.length; k++) {
        const { index, bytes: value } = values[k]!;
        offset = putFixed(view, offset, head);
        if (index > 0) view.setInt32(offset - INDEX_BYTES, index);
        offset = putValue(bytes, view, offset, head.length, value);
      }
    }
    packer.at = offset;
    packer.endRow();
    packer.end();
  }

  #addGeneric(id: Buffer, { cells, newChunks: separate }: EntryCells): void {
    const packer = this.#masterPacker;
    packer.begin();
    packer.write(id);
    packer.endKey();
    packer.write(packSorted(cells));
    packer.endRow();
    packer.write(packRow(separate));
    packer.end();
  }

  get tree(): PackedRows {
    this.#layouts.lastBytes.tree = this.#treePacker.at;
    return this.#treePacker.rows();
  }

  get master(): PackedRows {
    this.#layouts.lastBytes.master = this.#masterPacker.at;
    return this.#masterPacker.rows();
  }

  *indexTables(): Generator<{ table: string; rows: PackedRows }> {
    for (const [{ table }, rows] of this.#rowsByIndex) yield { table, rows: rows.rows() };
  }
}

/** Writes the value of a cell, whose beginning of `headLength` bytes ends at `offset`. Sets the lengths in the cell. */
export function putValue(bytes: Buffer, view: DataView, offset: number, headLength: number, value: Buffer): number {
  view.setInt32(offset - headLength + VALUE_LENGTH_OFFSET, value.length);
  return putBytes(bytes, offset, value);
}

/** Returns an upper bound, in bytes, of the cells of all values; -1 if a value is large or an attribute is wide. */
function maxMasterBytes(attributes: readonly DraftAttribute[], { maxHeadBytes: headBytes }: Layout): number {
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
