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
  const work = staleValuesIn(naming, row);
  let step = work.next();
  while (!step.done) step = work.next();
  return step.value;
}

/** Values between which others may go on. */
const BETWEEN = 256;

/** `staleValues`, some values at a time. */
export function* staleValuesIn(naming: Naming, row: Buffer): Generator<undefined, StaleValue[]> {
  const { names } = naming.shared;
  const found: StaleCell[] = [];
  const others: ReferenceCell[] = [];
  let count = 0;
  for (const cell of referenceCells(naming, row)) {
    if (++count % BETWEEN === 0) yield;
    const present = presentOf(names, cell);
    if (present) found.push({ cell, present });
    else others.push(cell);
  }
  if (found.length === 0) return [];
  const { has, probe } = formsAmong(names, others, found);
  const stale: StaleValue[] = [];
  for (const { cell, present } of found) {
    if (++count % BETWEEN === 0) yield;
    const mayBeThere = Buffer.isBuffer(present) && (!probe || probe.mayCover(withoutUid(cell.type, present)));
    const name = mayBeThere ? nameOf(cell, present as Buffer) : undefined;
    const isThere = name !== undefined && has.has(name);
    if (name !== undefined) has.add(name);
    stale.push({ ...cell, present: isThere ? undefined : present });
  }
  return stale;
}

/** Whether a value is not called as its entry is now. */
export function hasStale(naming: Naming, row: Buffer): boolean {
  const { names } = naming.shared;
  for (const cell of referenceCells(naming, row)) if (presentOf(names, cell)) return true;
  return false;
}

/** What the value is to be; undefined where it stays. */
function presentOf(names: NameChanges, { type, value }: ReferenceCell): Buffer | NameChange | undefined {
  const dn = withoutUid(type, value);
  if (dn.length === value.length) {
    const below = names.presentBelow(dn);
    if (below) return below;
  }
  return names.mayCover(dn) && names.covers(formOf(type, value)) ? names.present(type, value) : undefined;
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

/**
 * Names of those values of a row that may be what stale ones are to be; `probe` tells of which of these it has to be
 * looked at, absent: of all.
 */
function formsAmong(
  names: NameChanges,
  values: readonly ReferenceCell[],
  stale: readonly StaleCell[],
): { has: Set<string>; probe?: NameChanges } {
  const wanted = stale.flatMap(({ cell: { type }, present }) =>
    Buffer.isBuffer(present) ? [withoutUid(type, present)] : [],
  );
  const has = new Set<string>();
  if (wanted.length <= FEW) {
    const few = names.among(wanted);
    for (const cell of values) if (few.mayCover(withoutUid(cell.type, cell.value))) has.add(nameOf(cell, cell.value));
    return { has };
  }
  for (const cell of values) has.add(nameOf(cell, cell.value));
  // One subtree moves: two of its names never become one.
  const isOne = names.records.length === 1 && values.length <= FEW;
  return isOne ? { has, probe: names.among(values.map(({ type, value }) => withoutUid(type, value))) } : { has };
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
