import type { AttributeDescription, AttributeType } from '../schema/types.js';
import type { ColumnRange, Maybe, Reader } from '../store/contract.js';
import { chain } from '../store/maybe.js';
import { cellCounter, nextCell, qualifierStart, valueStart } from '../store/row.js';
import type { StoredDescription } from './descriptions.js';
import { valueQualifier } from './entry.js';
import type { CompiledFilter, Term } from './filter.js';
import type { Context } from './locate.js';
import {
  cutNorm,
  keyAfter,
  largeQualifiers,
  MASTER,
  MASTER_TABLE,
  normQualifier,
  normRdnOf,
  oidBytes,
  parentIdOf,
  Q,
  TREE,
  TREE_TABLE,
  treeKey,
} from './tables.js';
import { type WideAttribute, wideAttributes } from './wide.js';

/** A wide attribute of an entry at hand. */
export interface Wide extends WideAttribute {
  readonly description: AttributeDescription;
}

/** The wide attributes of a master row, or of its head. */
export function wideOf(context: Context, head: Buffer): Wide[] {
  return wideAttributes(head).map((one) => ({ ...one, description: context.schema.requireDescription(one.text) }));
}

/** Tree cells of values by their qualifiers, as `getColumns` takes them. */
export function normRanges(qualifiers: Iterable<Buffer>): ColumnRange[] {
  return [...qualifiers].sort(Buffer.compare).map((qualifier) => exactly(TREE.normAttributes, qualifier));
}

function exactly(family: number, qualifier: Buffer): ColumnRange {
  return { family, from: qualifier, to: keyAfter(qualifier) };
}

/** Value indexes by the OID of their type, rising, in cells of a tree row. */
export type Indexes = ReadonlyMap<string, readonly number[]>;

export function indexesIn(cells: Buffer | undefined): Indexes {
  const indexes = new Map<string, number[]>();
  for (let at = 0; cells && at < cells.length; at = nextCell(cells, at)) {
    const start = valueStart(cells, at);
    const oid = cells.toString('latin1', qualifierStart(at), cells.indexOf('=', qualifierStart(at)));
    const list = indexes.get(oid);
    if (list) list.push(cells.readUInt32BE(start));
    else indexes.set(oid, [cells.readUInt32BE(start)]);
  }
  for (const list of indexes.values()) list.sort((a, b) => a - b);
  return indexes;
}

/** The smallest character of a description is `-`: up to here no index is taken for a part of a longer description. */
export const MAX_NEXT = 0x2d000000;

/** Everything of a master row but the values of wide attributes, and of these the ones given. */
export function masterRanges(wide: readonly Wide[], indexes: Indexes): ColumnRange[] {
  const family = MASTER.upAttributes;
  const ranges: ColumnRange[] = [{ family: MASTER.treeInfo }];
  let from: Buffer | undefined;
  for (const { text, next, description } of wide) {
    ranges.push({ family, from, to: valueQualifier(text, 0) });
    for (const index of indexes.get(description.type.oid) ?? [])
      if (index < next) ranges.push(exactly(family, valueQualifier(text, index)));
    from = valueQualifier(text, next);
  }
  ranges.push({ family, from });
  return ranges;
}

/** What a search returns of an entry. */
export interface Selects {
  takes(stored: StoredDescription): boolean;
}

/** Whether any wide attribute is to be returned. */
export function returnsWide(context: Context, head: Buffer, selects: Selects | undefined): boolean {
  if (!selects) return true;
  return wideAttributes(head).some(({ text }) => {
    const bytes = Buffer.from(text, 'latin1');
    return selects.takes(context.descriptions.intern(bytes, 0, bytes.length));
  });
}

/**
 * The part of an entry whose row is long, of which `head` has come, that a filter looks at: of the wide attributes only
 * the values that it names. A group is found by its member at a cost that does not grow with the group. Undefined when
 * the filter needs more of a wide attribute, or the row has changed since its head was read.
 */
export function partForFilter(
  context: Context,
  reader: Reader,
  id: Buffer,
  head: Buffer,
  filter: CompiledFilter,
): Maybe<Buffer | undefined> {
  const wide = wideOf(context, head);
  const names = wide.length > 0 ? namesIn(context, head, wide, filter) : undefined;
  if (!names) return undefined;
  const treeRow = treeKey(parentIdOf(head), normRdnOf(head));
  const named = names.size > 0 ? reader.getColumns(TREE_TABLE.name, treeRow, normRanges(names.values())) : undefined;
  return chain(named, (cells) =>
    chain(reader.getColumns(MASTER_TABLE.name, id, masterRanges(wide, indexesIn(cells))), (row) =>
      row && isSameVersion(row, head) ? row : undefined,
    ),
  );
}

/** Of two readings of one master row. */
export function isSameVersion(a: Buffer, b: Buffer): boolean {
  return cellCounter(a, MASTER.treeInfo, Q.version) === cellCounter(b, MASTER.treeInfo, Q.version);
}

/** Tree cells of the values that the filter names; undefined when it needs more of a wide attribute. */
function namesIn(
  context: Context,
  head: Buffer,
  wide: readonly Wide[],
  filter: CompiledFilter,
): Map<string, Buffer> | undefined {
  if (largeQualifiers(head) || wide.some(({ next }) => next > MAX_NEXT)) return undefined;
  const types = new Set(wide.map(({ description }) => description.type));
  // Whether an entry is an alias or a referral is seen from its classes.
  if (types.has(context.schema.requireDescription('objectClass').type)) return undefined;
  const names = new Map<string, Buffer>();
  return addNames(filter, types, names) ? names : undefined;
}

/** False when the filter needs more. */
function addNames(filter: CompiledFilter, types: ReadonlySet<AttributeType>, names: Map<string, Buffer>): boolean {
  switch (filter.kind) {
    case 'undefined':
      return true;
    case 'term':
      return addName(filter, types, names);
    case 'not':
      return addNames(filter.of, types, names);
    default:
      return filter.of.every((part) => addNames(part, types, names));
  }
}

function addName(
  { types: asked, exact, lookup }: Term,
  types: ReadonlySet<AttributeType>,
  names: Map<string, Buffer>,
): boolean {
  if (asked.length > 0 && !asked.some((type) => types.has(type))) return true;
  if (!exact || lookup?.kind !== 'equality') return false;
  for (const type of asked) {
    if (type.equality !== asked[0]!.equality) return false;
    const qualifier = normQualifier(oidBytes(type.oid), cutNorm(lookup.norm));
    names.set(qualifier.toString('latin1'), qualifier);
  }
  return true;
}
