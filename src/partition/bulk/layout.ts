import { BoundedMap } from '../../cache/bounded-map.js';
import type { AttributeDescription, AttributeType } from '../../schema/schema-types.js';
import { FIXED_EXCESS, type Fixed, fixedBytes } from '../../store/put.js';
import { CELL_HEADER } from '../../store/row.js';
import type { DraftAttribute } from '../model/draft.js';
import { valueQualifier } from '../model/entry-cells.js';
import { type Normalizer, normalizerOf, normRule } from '../model/implied.js';
import type { Index, IndexSet } from '../model/index-set.js';
import { cutMarkQualifier, MASTER, oidBytes, TREE } from '../model/tables.js';

/** Cells of one attribute of the master row. */
export interface MasterPart {
  /** Position of the attribute in the draft. */
  readonly place: number;
  /** Cell of the first value without the value and its length. */
  readonly head: Fixed;
}

/** Rows and cells that the attributes of one type imply. */
export interface TypePart {
  readonly type: AttributeType;
  /** Positions of the attributes in the draft. Most types have one. */
  readonly places: readonly number[];
  /** Undefined if the values of the type have no normal forms. */
  readonly maker: Normalizer | undefined;
  readonly index: Index | undefined;
  /** Scratch array for the attributes at `places`. */
  readonly attributes: DraftAttribute[];
}

/** A run of cells in the tree row. */
export interface TreePart {
  /** Complete cells, followed by the head of the first form of the type. */
  readonly before: Fixed;
  /** Index in `types`; -1: no forms follow. */
  readonly type: number;
  /** The cell `OID=` without the form and the length of the qualifier. The position bytes follow the form. */
  readonly head: Fixed;
  /** True if `before` is the mark for cut forms, which is written only if a form was cut. */
  readonly mark: boolean;
}

/** Positions of a draft's attributes in its rows. Depends on the descriptions, which consecutive entries share. */
export interface Layout {
  readonly descriptions: readonly AttributeDescription[];
  readonly texts: readonly string[];
  readonly master: readonly MasterPart[];
  readonly types: readonly TypePart[];
  readonly tree: readonly TreePart[];
  /** Like `tree`, for entries without cut forms. */
  readonly uncutTree: readonly TreePart[];
  /** Maximum length of a tree row without its key and forms, and of any head, in bytes. */
  readonly treeBytes: number;
  readonly headBytes: number;
}

const MAX_LAYOUTS = 1000;

/** Cache of the layouts of a load, for one list of indexes. */
export class Layouts {
  readonly indexes: IndexSet;
  /** Total size of the rows of the last batch by table, in bytes. The initial capacity for the next batch. */
  readonly room = { tree: 0, master: 0, changes: 0 };
  readonly #known = new BoundedMap<string, Layout>(MAX_LAYOUTS);
  #last: Layout | undefined;

  constructor(indexes: IndexSet) {
    this.indexes = indexes;
  }

  /** Returns the layout for a draft with these attributes in this order. */
  of(attributes: readonly DraftAttribute[]): Layout {
    if (this.#last && isLayoutOf(this.#last, attributes)) return this.#last;
    const key = attributes.map(({ text }) => text).join(' ');
    let layout = this.#known.get(key);
    if (!layout || !isLayoutOf(layout, attributes)) {
      layout = makeLayout(attributes, this.indexes);
      this.#known.set(key, layout);
    }
    this.#last = layout;
    return layout;
  }
}

function isLayoutOf({ descriptions, texts }: Layout, attributes: readonly DraftAttribute[]): boolean {
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
    master,
    types,
    tree,
    uncutTree: treeParts(cells.filter(({ mark }) => !mark)),
    treeBytes: tree.reduce((sum, { before }) => sum + before.length + FIXED_EXCESS, 0),
    headBytes: Math.max(...heads),
  };
}

/** Sorts by qualifier, like `sortedByText`. */
function masterParts(attributes: readonly DraftAttribute[]): MasterPart[] {
  const places = [...attributes.keys()].sort((a, b) => (attributes[a]!.text < attributes[b]!.text ? -1 : 1));
  return places.map((place) => ({
    place,
    head: fixedBytes(cellOf(MASTER.upAttributes, valueQualifier(attributes[place]!.text, 0))),
  }));
}

/** Secrets imply nothing. */
function typeParts(attributes: readonly DraftAttribute[], indexes: IndexSet): TypePart[] {
  const places = new Map<AttributeType, number[]>();
  for (const [place, { description }] of attributes.entries()) {
    if (description.type.secret) continue;
    const known = places.get(description.type);
    if (known) known.push(place);
    else places.set(description.type, [place]);
  }
  return [...places].map(([type, of]) => {
    const rule = normRule(type);
    return {
      type,
      places: of,
      maker: rule && normalizerOf(type, rule),
      index: indexes.ofType(type),
      attributes: of.map((place) => attributes[place]!),
    };
  });
}

/** Length of the cell value of a form, which is the smallest value index that has the form. */
export const FORM_POSITION = 4;

/** A cell of normAttributes for sorting: a complete cell, or a placeholder for the cells of a type's forms. */
interface TreeCell {
  readonly qualifier: string;
  readonly type: number;
  readonly cell: Buffer;
  readonly forms: boolean;
  readonly mark: boolean;
}

function treeCells({ type: { oid }, maker }: TypePart, type: number): TreeCell[] {
  const whole = (qualifier: Buffer, mark: boolean): TreeCell => {
    const cell = cellOf(TREE.normAttributes, qualifier);
    return { qualifier: qualifier.toString('latin1'), type, cell, forms: false, mark };
  };
  const presence = whole(oidBytes(oid), false);
  if (!maker) return [presence];
  const head = cellOf(TREE.normAttributes, Buffer.from(`${oid}=`, 'latin1'), FORM_POSITION);
  const forms = { qualifier: `${oid}=`, type, cell: head, forms: true, mark: false };
  return [presence, whole(cutMarkQualifier(oid), true), forms];
}

const NOTHING = fixedBytes();

/** Joins complete cells with the part that follows. */
function treeParts(cells: readonly TreeCell[]): TreePart[] {
  const parts: TreePart[] = [];
  let before: Buffer[] = [];
  const end = (): void => {
    if (before.length > 0) parts.push({ before: fixedBytes(...before), type: -1, head: NOTHING, mark: false });
    before = [];
  };
  for (const { cell, type, forms, mark } of cells) {
    if (mark) {
      end();
      parts.push({ before: fixedBytes(cell), type, head: NOTHING, mark });
    } else {
      before.push(cell);
      if (!forms) continue;
      parts.push({ before: fixedBytes(...before), type, head: fixedBytes(cell), mark });
      before = [];
    }
  }
  end();
  return parts;
}

export function cellOf(family: number, qualifier: Buffer, valueLength = 0): Buffer {
  const cell = Buffer.alloc(CELL_HEADER + qualifier.length);
  cell[0] = family;
  cell.writeUInt16BE(qualifier.length, 1);
  cell.writeUInt32BE(valueLength, 3);
  cell.set(qualifier, CELL_HEADER);
  return cell;
}
