import type { AttributeType } from '../../schema/schema-types.js';
import { nextCell, packSorted, qualifierStart, valueStart } from '../../store/row.js';
import type { DescriptionTable } from './descriptions.js';
import { withoutUid } from './group-rows.js';
import type { NameChange, NameChanges } from './name-changes.js';
import { MASTER } from './tables.js';

/** Data for applying changes of names to rows. */
export interface NamesContext {
  readonly descriptions: DescriptionTable;
  readonly shared: { readonly names: NameChanges; readonly references: ReadonlySet<AttributeType> };
}

/** A stored reference with an old name of its entry. */
export interface StaleValue {
  readonly type: AttributeType;
  readonly description: string;
  /** The value as a view, and the offset of its cell in the row. */
  readonly value: Buffer;
  readonly at: number;
  /** The current value; undefined: the entry already has it. For a deleted entry the change that deleted it. */
  readonly present: Buffer | NameChange | undefined;
}

/** Returns the references in a packed master row that have old names. */
export function staleValues(naming: NamesContext, row: Buffer): StaleValue[] {
  const work = staleValuesIn(naming, row);
  let step = work.next();
  while (!step.done) step = work.next();
  return step.value;
}

const VALUES_PER_YIELD = 256;

/** Generator version of `staleValues`: yields regularly so that the event loop can run. */
export function* staleValuesIn(naming: NamesContext, row: Buffer): Generator<undefined, StaleValue[]> {
  const { names } = naming.shared;
  const found: StaleCell[] = [];
  const others: ReferenceCell[] = [];
  let count = 0;
  for (const cell of referenceCells(naming, row)) {
    if (++count % VALUES_PER_YIELD === 0) yield;
    const present = presentValue(names, cell);
    if (present) found.push({ cell, present });
    else others.push(cell);
  }
  if (found.length === 0) return [];
  const { has, probe } = candidateNames(names, others, found);
  const stale: StaleValue[] = [];
  for (const { cell, present } of found) {
    if (++count % VALUES_PER_YIELD === 0) yield;
    const mayBeThere = Buffer.isBuffer(present) && (!probe || probe.mayInclude(withoutUid(cell.type, present)));
    const name = mayBeThere ? nameOf(cell, present as Buffer) : undefined;
    const isThere = name !== undefined && has.has(name);
    if (name !== undefined) has.add(name);
    stale.push({ ...cell, present: isThere ? undefined : present });
  }
  return stale;
}

/** True if a reference in the row has an old name. */
export function hasStale(naming: NamesContext, row: Buffer): boolean {
  const { names } = naming.shared;
  for (const cell of referenceCells(naming, row)) if (presentValue(names, cell)) return true;
  return false;
}

/** Returns the current form of a value. Undefined if the value does not change. */
function presentValue(names: NameChanges, { type, value }: ReferenceCell): Buffer | NameChange | undefined {
  const dn = withoutUid(type, value);
  if (dn.length === value.length) {
    const below = names.presentBelow(dn);
    if (below) return below;
  }
  return names.mayInclude(dn) && names.includesForm(formOf(type, value)) ? names.present(type, value) : undefined;
}

type ReferenceCell = Omit<StaleValue, 'present'>;

interface StaleCell {
  readonly cell: ReferenceCell;
  readonly present: Buffer | NameChange;
}

function* referenceCells(
  { descriptions, shared: { references } }: NamesContext,
  row: Buffer,
): Generator<ReferenceCell> {
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

/** Up to this number of names, a text comparison selects the values to normalize. */
const MAX_TEXT_COMPARED = 64;

/** Names of the row's values that may equal a current form. `probe`: the forms that need a look-up; default: all. */
function candidateNames(
  names: NameChanges,
  values: readonly ReferenceCell[],
  stale: readonly StaleCell[],
): { has: Set<string>; probe?: NameChanges } {
  const wanted = stale.flatMap(({ cell: { type }, present }) =>
    Buffer.isBuffer(present) ? [withoutUid(type, present)] : [],
  );
  const has = new Set<string>();
  if (wanted.length <= MAX_TEXT_COMPARED) {
    const few = names.forNames(wanted);
    for (const cell of values) if (few.mayInclude(withoutUid(cell.type, cell.value))) has.add(nameOf(cell, cell.value));
    return { has };
  }
  for (const cell of values) has.add(nameOf(cell, cell.value));
  // A single move of a subtree never makes two names equal.
  const isOne = names.records.length === 1 && values.length <= MAX_TEXT_COMPARED;
  return isOne ? { has, probe: names.forNames(values.map(({ type, value }) => withoutUid(type, value))) } : { has };
}

/** Returns a packed master row with current names, without references to deleted entries. May return `row` itself. */
export function presentRow(naming: NamesContext, row: Buffer): Buffer {
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

export function formOf(type: AttributeType, value: Buffer): string {
  return (type.equality?.normalize(value) ?? value).toString('latin1');
}
