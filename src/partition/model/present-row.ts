import type { AttributeType } from '../../schema/schema-types.js';
import { nextCell, packSorted, qualifierStart, valueStart } from '../../store/row.js';
import type { DescriptionTable } from './descriptions.js';
import { withoutUid } from './group-rows.js';
import type { NameChange, NameChanges } from './name-changes.js';
import { MASTER } from './tables.js';

/** The schema and the pending changes of names, which are applied to rows. */
export interface NamesContext {
  readonly descriptions: DescriptionTable;
  readonly shared: { readonly nameChanges: NameChanges; readonly references: ReadonlySet<AttributeType> };
}

/** A stored reference that does not have the current name of its entry. */
export interface StaleValue {
  readonly type: AttributeType;
  readonly description: string;
  /** The value, as a view of the row. */
  readonly value: Buffer;
  readonly offset: number;
  /** The value with the current name; undefined: the entry has it already. For a deleted entry: the deletion. */
  readonly currentValue: Buffer | NameChange | undefined;
}

/** Returns the references in a packed master row that do not have the current name. */
export function staleValues(naming: NamesContext, row: Buffer): StaleValue[] {
  const work = staleValuesIn(naming, row);
  let result = work.next();
  while (!result.done) result = work.next();
  return result.value;
}

const VALUES_PER_YIELD = 256;

/** Like `staleValues`, as a generator that yields regularly, so that the caller can let other work run. */
export function* staleValuesIn(naming: NamesContext, row: Buffer): Generator<undefined, StaleValue[]> {
  const { nameChanges } = naming.shared;
  const staleCells: StaleCell[] = [];
  const currentCells: ReferenceCell[] = [];
  let count = 0;
  for (const cell of referenceCells(naming, row)) {
    if (++count % VALUES_PER_YIELD === 0) yield;
    const currentValue = currentValueOf(nameChanges, cell);
    if (currentValue) staleCells.push({ cell, currentValue });
    else currentCells.push(cell);
  }
  if (staleCells.length === 0) return [];
  const { valueKeys, probe } = candidateNames(nameChanges, currentCells, staleCells);
  const stale: StaleValue[] = [];
  for (const { cell, currentValue } of staleCells) {
    if (++count % VALUES_PER_YIELD === 0) yield;
    const mayExist = Buffer.isBuffer(currentValue) && (!probe || probe.mayInclude(withoutUid(cell.type, currentValue)));
    const valueKey = mayExist ? valueKeyOf(cell, currentValue as Buffer) : undefined;
    const isDuplicate = valueKey !== undefined && valueKeys.has(valueKey);
    if (valueKey !== undefined) valueKeys.add(valueKey);
    stale.push({ ...cell, currentValue: isDuplicate ? undefined : currentValue });
  }
  return stale;
}

/** Whether a reference in the row does not have the current name. */
export function hasStaleValue(naming: NamesContext, row: Buffer): boolean {
  const { nameChanges } = naming.shared;
  for (const cell of referenceCells(naming, row)) if (currentValueOf(nameChanges, cell)) return true;
  return false;
}

/** Returns the value with the current name of its entry; undefined if the value has it. */
function currentValueOf(nameChanges: NameChanges, { type, value }: ReferenceCell): Buffer | NameChange | undefined {
  const dn = withoutUid(type, value);
  if (dn.length === value.length) {
    const currentDn = nameChanges.currentDnBelow(dn);
    if (currentDn) return currentDn;
  }
  return nameChanges.mayInclude(dn) && nameChanges.includesNormText(valueNormText(type, value))
    ? nameChanges.currentValue(type, value)
    : undefined;
}

type ReferenceCell = Omit<StaleValue, 'currentValue'>;

interface StaleCell {
  readonly cell: ReferenceCell;
  readonly currentValue: Buffer | NameChange;
}

function* referenceCells(
  { descriptions, shared: { references } }: NamesContext,
  row: Buffer,
): Generator<ReferenceCell> {
  for (let offset = 0; offset < row.length && row[offset]! <= MASTER.upAttributes; offset = nextCell(row, offset)) {
    if (row[offset] !== MASTER.upAttributes) continue;
    const { description, text: name } = descriptions.ofCell(row, offset);
    if (!references.has(description.type)) continue;
    const value = row.subarray(valueStart(row, offset), nextCell(row, offset));
    yield { type: description.type, description: name, value, offset };
  }
}

function valueKeyOf({ type, description }: ReferenceCell, value: Buffer): string {
  return `${description} ${valueNormText(type, value)}`;
}

/** For up to this number of names, values are compared as text before they are normalized. */
const MAX_TEXT_COMPARED = 64;

/** Returns keys of values that a new name may repeat. `probe`: tests by text which names may; absent: any may. */
function candidateNames(
  nameChanges: NameChanges,
  values: readonly ReferenceCell[],
  stale: readonly StaleCell[],
): { valueKeys: Set<string>; probe?: NameChanges } {
  const currentDns = stale.flatMap(({ cell: { type }, currentValue }) =>
    Buffer.isBuffer(currentValue) ? [withoutUid(type, currentValue)] : [],
  );
  const valueKeys = new Set<string>();
  if (currentDns.length <= MAX_TEXT_COMPARED) {
    const dnProbe = nameChanges.forDns(currentDns);
    for (const cell of values)
      if (dnProbe.mayInclude(withoutUid(cell.type, cell.value))) valueKeys.add(valueKeyOf(cell, cell.value));
    return { valueKeys };
  }
  for (const cell of values) valueKeys.add(valueKeyOf(cell, cell.value));
  // A single change never makes two new names equal: only the other values can be equal to a new name.
  const needsProbe = nameChanges.records.length === 1 && values.length <= MAX_TEXT_COMPARED;
  return needsProbe
    ? { valueKeys, probe: nameChanges.forDns(values.map(({ type, value }) => withoutUid(type, value))) }
    : { valueKeys };
}

/** Returns a packed master row with current names, without references to deleted entries; perhaps `row` itself. */
export function presentRow(naming: NamesContext, row: Buffer): Buffer {
  if (naming.shared.nameChanges.isEmpty) return row;
  const stale = staleValues(naming, row);
  if (stale.length === 0) return row;
  const slices: Buffer[] = [];
  let copiedEnd = 0;
  for (const { offset, currentValue } of stale) {
    slices.push(row.subarray(copiedEnd, offset));
    copiedEnd = nextCell(row, offset);
    const qualifier = row.subarray(qualifierStart(offset), valueStart(row, offset));
    if (Buffer.isBuffer(currentValue))
      slices.push(packSorted([{ family: MASTER.upAttributes, qualifier, value: currentValue }]));
  }
  return Buffer.concat([...slices, row.subarray(copiedEnd)]);
}

export function valueNormText(type: AttributeType, value: Buffer): string {
  return (type.equality?.normalize(value) ?? value).toString('latin1');
}
