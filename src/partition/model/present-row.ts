import type { AttributeType } from '../../schema/schema-types.js';
import { nextCell, packSorted, qualifierStart, valueStart } from '../../store/row.js';
import type { DescriptionTable } from './descriptions.js';
import { withoutUid } from './group-rows.js';
import type { NameChange, NameChanges } from './name-changes.js';
import { MASTER } from './tables.js';

/** What changes of names are looked at with. */
export interface Naming {
  readonly descriptions: DescriptionTable;
  readonly shared: { readonly names: NameChanges; readonly references: ReadonlySet<AttributeType> };
}

/** A value that is not called as its entry is now. */
export interface StaleValue {
  readonly type: AttributeType;
  /** Description as stored. */
  readonly description: string;
  /** A view, and where its cell stands in the row. */
  readonly value: Buffer;
  readonly at: number;
  /** As it is to be; undefined: the entry has this value already. Of a deleted entry the change that says so. */
  readonly present: Buffer | NameChange | undefined;
}

/** The values of a packed master row that are not called as their entries are now. */
export function staleValues(naming: Naming, row: Buffer): StaleValue[] {
  const { names } = naming.shared;
  const found: StaleCell[] = [];
  const others: ReferenceCell[] = [];
  for (const cell of referenceCells(naming, row)) {
    const { type, value } = cell;
    const isStale = names.mayCover(withoutUid(type, value)) && names.covers(formOf(type, value));
    if (isStale) found.push({ cell, present: names.present(type, value) });
    else others.push(cell);
  }
  if (found.length === 0) return [];
  const has = formsAmong(names, others, found);
  return found.map(({ cell, present }) => {
    const name = Buffer.isBuffer(present) ? nameOf(cell, present) : undefined;
    const isThere = name !== undefined && has.has(name);
    if (name !== undefined) has.add(name);
    return { ...cell, present: isThere ? undefined : present };
  });
}

type ReferenceCell = Omit<StaleValue, 'present'>;

interface StaleCell {
  readonly cell: ReferenceCell;
  readonly present: Buffer | NameChange;
}

function* referenceCells({ descriptions, shared: { references } }: Naming, row: Buffer): Generator<ReferenceCell> {
  for (let at = 0; at < row.length && row[at]! <= MASTER.upAttributes; at = nextCell(row, at)) {
    if (row[at] !== MASTER.upAttributes) continue;
    const { description, name } = descriptions.ofCell(row, at);
    if (!references.has(description.type)) continue;
    const value = row.subarray(valueStart(row, at), nextCell(row, at));
    yield { type: description.type, description: name, value, at };
  }
}

function nameOf({ type, description }: ReferenceCell, value: Buffer): string {
  return `${description} ${formOf(type, value)}`;
}

/** More values are each normalized. */
const FEW = 64;

/** Names of those values of a row that may be what stale ones are to be. */
function formsAmong(names: NameChanges, values: readonly ReferenceCell[], stale: readonly StaleCell[]): Set<string> {
  const wanted = stale.flatMap(({ cell: { type }, present }) =>
    Buffer.isBuffer(present) ? [withoutUid(type, present)] : [],
  );
  const probe = wanted.length <= FEW ? names.among(wanted) : undefined;
  const forms = new Set<string>();
  if (wanted.length === 0) return forms;
  for (const cell of values)
    if (!probe || probe.mayCover(withoutUid(cell.type, cell.value))) forms.add(nameOf(cell, cell.value));
  return forms;
}

/**
 * A packed master row with references as the entries are called now, and without those to deleted entries. The row
 * itself where it has nothing else.
 */
export function presentRow(naming: Naming, row: Buffer): Buffer {
  if (naming.shared.names.isEmpty) return row;
  const stale = staleValues(naming, row);
  if (stale.length === 0) return row;
  const parts: Buffer[] = [];
  let from = 0;
  for (const { at, present } of stale) {
    parts.push(row.subarray(from, at));
    from = nextCell(row, at);
    const qualifier = row.subarray(qualifierStart(at), valueStart(row, at));
    if (Buffer.isBuffer(present)) parts.push(packSorted([{ family: MASTER.upAttributes, qualifier, value: present }]));
  }
  return Buffer.concat([...parts, row.subarray(from)]);
}

/** Normal form of a value, as Latin-1. */
export function formOf(type: AttributeType, value: Buffer): string {
  return (type.equality?.normalize(value) ?? value).toString('latin1');
}
