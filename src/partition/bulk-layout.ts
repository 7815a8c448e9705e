import type { AttributeDescription, AttributeType } from '../schema/types.js';
import type { RowPacker } from '../store/load.js';
import { CELL_HEADER } from '../store/row.js';
import { type DraftAttribute, valueQualifier } from './entry.js';
import { type Form, type FormMaker, formMaker, formRule } from './implied.js';
import type { Index, IndexSet } from './indexes.js';
import { cutMark, MASTER, oidBytes, TREE } from './tables.js';

/** Cells that are the same as in the entry before when the forms are: see `FormMaker`. */
export class Run {
  #forms: readonly Form[] | undefined;
  #cells: Buffer | undefined;

  /** Writes them again; false where they are not known to be the same. */
  repeat(forms: readonly Form[], packer: RowPacker): boolean {
    if (forms !== this.#forms || !this.#cells) return false;
    packer.write(this.#cells);
    return true;
  }

  /** The cells were written from `at` on. They are kept once the same forms have come a second time. */
  learn(forms: readonly Form[], packer: RowPacker, at: number): void {
    this.#cells = forms === this.#forms ? Buffer.from(packer.bytes.subarray(at, packer.at)) : undefined;
    this.#forms = forms;
  }
}

/** Cells of one attribute of the master row. */
export interface MasterPart {
  /** Place of the attribute in the draft. */
  readonly place: number;
  /** Number of the type among `types` whose forms tell whether the values have changed; -1: they are not told. */
  readonly type: number;
  readonly run: Run;
  /** A cell of its first value, the value and its length left out. */
  readonly head: Buffer;
}

/** What the attributes of one type imply. */
export interface TypePart {
  readonly type: AttributeType;
  /** Places of the attributes in the draft; most types have one. */
  readonly places: readonly number[];
  /** Undefined where its values have no forms. */
  readonly maker: FormMaker | undefined;
  readonly index: Index | undefined;
  /** A cell `OID=`, the form and the length of the qualifier left out; position bytes follow the form. */
  readonly head: Buffer;
  readonly run: Run;
  /** For the caller: the attributes at `places`. */
  readonly attributes: DraftAttribute[];
}

/** Cells of the tree row, in the order of their qualifiers. */
export interface TreePart {
  /** Number of the type among `types`. */
  readonly type: number;
  /** A whole cell, or undefined: the type's forms. */
  readonly cell: Buffer | undefined;
  /** The cell is there only when a form was cut. */
  readonly cut: boolean;
}

/**
 * Where the attributes of a draft go in its rows. It depends on their descriptions alone, and entries that follow each
 * other mostly have the same.
 */
export interface Layout {
  readonly descriptions: readonly AttributeDescription[];
  readonly texts: readonly string[];
  readonly master: readonly MasterPart[];
  readonly types: readonly TypePart[];
  readonly tree: readonly TreePart[];
  /** The same where no form is cut, cells that follow each other in one. */
  readonly uncutTree: readonly TreePart[];
}

const MAX_LAYOUTS = 1000;

/** The layouts of a load, for one list of indexes. */
export class Layouts {
  readonly indexes: IndexSet;
  readonly #known = new Map<string, Layout>();
  #last: Layout | undefined;

  constructor(indexes: IndexSet) {
    this.indexes = indexes;
  }

  /** Of a draft with these attributes, in its order. */
  of(attributes: readonly DraftAttribute[]): Layout {
    if (this.#last && fits(this.#last, attributes)) return this.#last;
    const key = attributes.map(({ text }) => text).join(' ');
    let layout = this.#known.get(key);
    if (!layout || !fits(layout, attributes)) {
      layout = makeLayout(attributes, this.indexes);
      if (this.#known.size >= MAX_LAYOUTS) this.#known.clear();
      this.#known.set(key, layout);
    }
    this.#last = layout;
    return layout;
  }
}

function fits({ descriptions, texts }: Layout, attributes: readonly DraftAttribute[]): boolean {
  if (attributes.length !== texts.length) return false;
  for (let i = 0; i < texts.length; i++) {
    const { description, text } = attributes[i]!;
    if (description !== descriptions[i] || text !== texts[i]) return false;
  }
  return true;
}

function makeLayout(attributes: readonly DraftAttribute[], indexes: IndexSet): Layout {
  const types = typeParts(attributes, indexes);
  const tree = types
    .flatMap(treeParts)
    .sort(byQualifier)
    .map(({ part }) => part);
  return {
    descriptions: attributes.map(({ description }) => description),
    texts: attributes.map(({ text }) => text),
    master: masterParts(attributes, types),
    types,
    tree,
    uncutTree: joined(tree.filter(({ cut }) => !cut)),
  };
}

/** In the order of the qualifiers: a description that begins another sorts before it, as the index that follows starts with a zero byte. */
function masterParts(attributes: readonly DraftAttribute[], types: readonly TypePart[]): MasterPart[] {
  const places = [...attributes.keys()].sort((a, b) => (attributes[a]!.text < attributes[b]!.text ? -1 : 1));
  return places.map((place) => ({
    place,
    type: types.findIndex((part) => part.maker && part.places.length === 1 && part.places[0] === place),
    run: new Run(),
    head: cellOf(MASTER.upAttributes, valueQualifier(attributes[place]!.text, 0)),
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
    const rule = formRule(type);
    return {
      type,
      places: of,
      maker: rule && formMaker(type, rule),
      index: indexes.of(type),
      head: cellOf(TREE.normAttributes, Buffer.from(`${type.oid}=`, 'latin1'), FORM_POSITION),
      run: new Run(),
      attributes: of.map((place) => attributes[place]!),
    };
  });
}

/** Bytes of a form's cell value: the smallest value index that has it. */
export const FORM_POSITION = 4;

function treeParts({ type, maker }: TypePart, number: number): { part: TreePart; qualifier: string }[] {
  const whole = (qualifier: Buffer, cut: boolean) => ({
    part: { type: number, cell: cellOf(TREE.normAttributes, qualifier), cut },
    qualifier: qualifier.toString('latin1'),
  });
  const presence = whole(oidBytes(type.oid), false);
  if (!maker) return [presence];
  const forms = { part: { type: number, cell: undefined, cut: false }, qualifier: `${type.oid}=` };
  return [presence, whole(cutMark(type.oid), true), forms];
}

function joined(parts: readonly TreePart[]): TreePart[] {
  const all: TreePart[] = [];
  for (const part of parts) {
    const last = all.at(-1);
    if (last?.cell && part.cell) all[all.length - 1] = { ...last, cell: Buffer.concat([last.cell, part.cell]) };
    else all.push(part);
  }
  return all;
}

function byQualifier(a: { qualifier: string }, b: { qualifier: string }): number {
  return a.qualifier < b.qualifier ? -1 : 1;
}

/** Header and qualifier of a cell. */
export function cellOf(family: number, qualifier: Buffer, valueLength = 0): Buffer {
  const cell = Buffer.alloc(CELL_HEADER + qualifier.length);
  cell[0] = family;
  cell.writeUInt16BE(qualifier.length, 1);
  cell.writeUInt32BE(valueLength, 3);
  cell.set(qualifier, CELL_HEADER);
  return cell;
}
