import { BoundedMap } from '../../cache/bounded-map.js';
import type { AttributeDescription, AttributeType } from '../../schema/schema-types.js';
import { FIXED_EXCESS, type FixedBytes, fixedBytes } from '../../store/put.js';
import { CELL_HEADER } from '../../store/row.js';
import type { DraftAttribute } from '../model/draft.js';
import { valueQualifier } from '../model/entry-cells.js';
import { type Normalizer, normalizerOf, normRule } from '../model/implied.js';
import type { Index, IndexSet } from '../model/index-set.js';
import { cutMarkQualifier, MASTER, oidBytes, TREE } from '../model/tables.js';

/** The cells of one attribute in the master row. */
export interface MasterPart {
  /** Position of the attribute in the draft. */
  readonly attributeIndex: number;
  /** Cell of the first value without the value and its length. */
  readonly head: FixedBytes;
}

/** Rows and cells that the attributes of one type imply. */
export interface TypePart {
  readonly type: AttributeType;
  /** Positions of the attributes in the draft. Most types have one. */
  readonly attributeIndexes: readonly number[];
  /** Undefined if the values of the type have no normal forms. */
  readonly normalizer: Normalizer | undefined;
  readonly index: Index | undefined;
  /** Scratch array for the attributes at `attributeIndexes`. */
  readonly attributes: DraftAttribute[];
}

/** A run of cells in the tree row. */
export interface TreePart {
  /** Complete cells, then the head of the cell with the first normal form of the type. */
  readonly fixedCells: FixedBytes;
  /** Index in `typeParts`; -1: no normal forms follow. */
  readonly typeIndex: number;
  /** The cell `OID=` without the normal form and the length of the qualifier. The value index follows the form. */
  readonly head: FixedBytes;
  /** True if `fixedCells` is the mark for cut values, which is written only if a value was cut. */
  readonly isCutMark: boolean;
}

/** Positions of a draft's attributes in its rows. Depends on the descriptions, which consecutive entries share. */
export interface Layout {
  readonly descriptions: readonly AttributeDescription[];
  readonly texts: readonly string[];
  readonly masterParts: readonly MasterPart[];
  readonly typeParts: readonly TypePart[];
  readonly treeParts: readonly TreePart[];
  /** Like `treeParts`, for entries without cut values. */
  readonly uncutTreeParts: readonly TreePart[];
  /** Maximum length of the parts of a tree row that do not depend on values, in bytes. */
  readonly maxTreeBytes: number;
  /** Maximum length of what precedes the value of a cell, in bytes. */
  readonly maxHeadBytes: number;
}

const MAX_LAYOUTS = 1000;

/** Cache of the layouts of a load, for one list of indexes. */
export class Layouts {
  readonly indexes: IndexSet;
  /** Total size of the rows of the last batch by table, in bytes. The initial capacity for the next batch. */
  readonly lastBytes = { tree: 0, master: 0, changes: 0 };
  readonly #layoutsByKey = new BoundedMap<string, Layout>(MAX_LAYOUTS);
  #lastLayout: Layout | undefined;

  constructor(indexes: IndexSet) {
    this.indexes = indexes;
  }

  /** Returns the layout for a draft with these attributes in this order. */
  layoutFor(attributes: readonly DraftAttribute[]): Layout {
    if (this.#lastLayout && isLayoutFor(this.#lastLayout, attributes)) return this.#lastLayout;
    const key = attributes.map(({ text }) => text).join(' ');
    let layout = this.#layoutsByKey.get(key);
    if (!layout || !isLayoutFor(layout, attributes)) {
      layout = makeLayout(attributes, this.indexes);
      this.#layoutsByKey.set(key, layout);
    }
    this.#lastLayout = layout;
    return layout;
  }
}

function isLayoutFor({ descriptions, texts }: Layout, attributes: readonly DraftAttribute[]): boolean {
  if (attributes.length !== texts.length) return false;
  for (let i = 0; i < texts.length; i++) {
    const { description, text } = attributes[i]!;
    if (description !== descriptions[i] || text !== texts[i]) return false;
  }
  return true;
}

function makeLayout(attributes: readonly DraftAttribute[], indexes: IndexSet): Layout {
  const types = typeParts(attributes, indexes);
  const cells = types.flatMap(treeCells).sort((a, b) => (a.qualifier < b.qualifier ? -1 : 1));
  const master = masterParts(attributes);
  const tree = treeParts(cells);
  const heads = [...master, ...tree].map(({ head }) => head.length + FIXED_EXCESS);
  return {
    descriptions: attributes.map(({ description }) => description),
    texts: attributes.map(({ text }) => text),
    masterParts: master,
    typeParts: types,
    treeParts: tree,
    uncutTreeParts: treeParts(cells.filter(({ isCutMark }) => !isCutMark)),
    maxTreeBytes: tree.reduce((sum, { fixedCells }) => sum + fixedCells.length + FIXED_EXCESS, 0),
    maxHeadBytes: Math.max(...heads),
  };
}

/** Sorts by qualifier, like `sortedAttributes`. */
function masterParts(attributes: readonly DraftAttribute[]): MasterPart[] {
  const attributeIndexes = [...attributes.keys()].sort((a, b) => (attributes[a]!.text < attributes[b]!.text ? -1 : 1));
  return attributeIndexes.map((attributeIndex) => ({
    attributeIndex,
    head: fixedBytes(cellHead(MASTER.upAttributes, valueQualifier(attributes[attributeIndex]!.text, 0))),
  }));
}

function typeParts(attributes: readonly DraftAttribute[], indexes: IndexSet): TypePart[] {
  const indexesByType = new Map<AttributeType, number[]>();
  for (const [place, { description }] of attributes.entries()) {
    if (description.type.secret) continue;
    const attributeIndexes = indexesByType.get(description.type);
    if (attributeIndexes) attributeIndexes.push(place);
    else indexesByType.set(description.type, [place]);
  }
  return [...indexesByType].map(([type, attributeIndexes]) => {
    const rule = normRule(type);
    return {
      type,
      attributeIndexes,
      normalizer: rule && normalizerOf(type, rule),
      index: indexes.ofType(type),
      attributes: attributeIndexes.map((place) => attributes[place]!),
    };
  });
}

/** Length of the value of a cell `OID=`normal form: the smallest index of a value with this normal form. */
export const VALUE_INDEX_BYTES = 4;

/** A cell of normAttributes for sorting: a complete cell, or the head of the cells of a type's normal forms. */
interface TreeCell {
  readonly qualifier: string;
  readonly typeIndex: number;
  readonly cell: Buffer;
  readonly isHead: boolean;
  readonly isCutMark: boolean;
}

function treeCells({ type: { oid }, normalizer }: TypePart, typeIndex: number): TreeCell[] {
  const wholeCell = (qualifier: Buffer, isCutMark: boolean): TreeCell => {
    const cell = cellHead(TREE.normAttributes, qualifier);
    return { qualifier: qualifier.toString('latin1'), typeIndex, cell, isHead: false, isCutMark };
  };
  const presence = wholeCell(oidBytes(oid), false);
  if (!normalizer) return [presence];
  const head = cellHead(TREE.normAttributes, Buffer.from(`${oid}=`, 'latin1'), VALUE_INDEX_BYTES);
  const headCell = { qualifier: `${oid}=`, typeIndex, cell: head, isHead: true, isCutMark: false };
  return [presence, wholeCell(cutMarkQualifier(oid), true), headCell];
}

const NO_CELL = fixedBytes();

/** Joins complete cells with the part that follows. */
function treeParts(cells: readonly TreeCell[]): TreePart[] {
  const parts: TreePart[] = [];
  let pendingCells: Buffer[] = [];
  const endPart = (): void => {
    if (pendingCells.length > 0)
      parts.push({ fixedCells: fixedBytes(...pendingCells), typeIndex: -1, head: NO_CELL, isCutMark: false });
    pendingCells = [];
  };
  for (const { cell, typeIndex: type, isHead, isCutMark } of cells) {
    if (isCutMark) {
      endPart();
      parts.push({ fixedCells: fixedBytes(cell), typeIndex: type, head: NO_CELL, isCutMark });
    } else {
      pendingCells.push(cell);
      if (!isHead) continue;
      parts.push({ fixedCells: fixedBytes(...pendingCells), typeIndex: type, head: fixedBytes(cell), isCutMark });
      pendingCells = [];
    }
  }
  endPart();
  return parts;
}

export function cellHead(family: number, qualifier: Buffer, valueLength = 0): Buffer {
  const cell = Buffer.alloc(CELL_HEADER + qualifier.length);
  cell[0] = family;
  cell.writeUInt16BE(qualifier.length, 1);
  cell.writeUInt32BE(valueLength, 3);
  cell.set(qualifier, CELL_HEADER);
  return cell;
}
