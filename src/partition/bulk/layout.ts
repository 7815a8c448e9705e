import { BoundedMap } from '../../cache/bounded-map.js';
import type { AttributeDescription, AttributeType } from '../../schema/schema-types.js';
import { CELL_HEADER, FIXED_EXCESS, type FixedBytes, fixedBytes } from '../../store/row.js';
import type { DraftAttribute } from '../model/draft.js';
import { valueQualifier } from '../model/entry-cells.js';
import { type Normalizer, normalizerOf, normRule } from '../model/implied.js';
import type { Index, IndexSet } from '../model/index-set.js';
import { cutMarkQualifier, MASTER, oidBytes, TREE } from '../model/tables.js';

/** One attribute in the master row of an entry. */
export interface MasterPart {
  /** Index of the attribute in the draft. */
  readonly attributeIndex: number;
  /** The cell of the first value, up to the length of the value. */
  readonly head: FixedBytes;
}

/** The attributes of one type, from which tree row cells and index rows derive. */
export interface TypePart {
  readonly type: AttributeType;
  /** Indexes of the attributes in the draft. Most types have a single attribute. */
  readonly attributeIndexes: readonly number[];
  /** Undefined if the values of the type have no normal forms. */
  readonly normalizer: Normalizer | undefined;
  readonly index: Index | undefined;
  /** The attributes at `attributeIndexes`; filled anew for each entry. */
  readonly attributes: DraftAttribute[];
}

/** Some consecutive cells of the tree row. */
export interface TreePart {
  /** Cells that do not depend on values. The cell in `head` follows them. */
  readonly fixedCells: FixedBytes;
  /** Index in `typeParts` of the type whose normal forms follow; -1 if none follow. */
  readonly typeIndex: number;
  /** The cell of a normal form, up to the form: `OID=`. The form and the value index follow. */
  readonly head: FixedBytes;
  /** Whether `fixedCells` is the mark that a value of the type was cut. Only written if a value was cut. */
  readonly isCutMark: boolean;
}

/**
 * The rows of an entry with certain attributes: which cells are constant, and where values go. Consecutive entries
 * mostly have the same attribute descriptions and share a layout.
 */
export interface Layout {
  readonly descriptions: readonly AttributeDescription[];
  readonly texts: readonly string[];
  readonly masterParts: readonly MasterPart[];
  readonly typeParts: readonly TypePart[];
  readonly treeParts: readonly TreePart[];
  /** Like `treeParts`, for an entry without cut values. */
  readonly uncutTreeParts: readonly TreePart[];
  /** Upper bound, in bytes, of the cells of a tree row that do not depend on values. */
  readonly maxTreeBytes: number;
  /** Upper bound, in bytes, of a cell without its value. */
  readonly maxHeadBytes: number;
}

const MAX_LAYOUTS = 1000;

/** Caches the layouts of a load. Every layout depends on the list of indexes, which is constant during a load. */
export class Layouts {
  readonly indexes: IndexSet;
  /** Total bytes of the last batch's rows, by table: the initial capacity for the next batch. */
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

/** Returns the attributes in the order of their cells, as `sortedAttributes` does. */
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

/** A cell of family normAttributes, for sorting: complete, or the beginning of the cells of a type. */
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

/** Joins consecutive complete cells with the beginning of the cell that follows. */
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
