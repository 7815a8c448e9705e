import type { AttributeType } from '../../schema/schema-types.js';
import { nextCell, packSorted, qualifierStart, valueStart } from '../../store/row.js';
import type { DescriptionTable, StoredDescription } from './descriptions.js';
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
export function staleValues({ descriptions, shared: { names, references } }: Naming, row: Buffer): StaleValue[] {
  const found: { stored: StoredDescription; value: Buffer; at: number }[] = [];
  const forms = new Set<string>();
  const nameOf = ({ description: { type }, name }: StoredDescription, value: Buffer) =>
    `${name} ${formOf(type, value)}`;
  for (let at = 0; at < row.length && row[at]! <= MASTER.upAttributes; at = nextCell(row, at)) {
    if (row[at] !== MASTER.upAttributes) continue;
    const stored = descriptions.ofCell(row, at);
    const { type } = stored.description;
    if (!references.has(type)) continue;
    const value = row.subarray(valueStart(row, at), nextCell(row, at));
    if (names.covers(formOf(type, value))) found.push({ stored, value, at });
    else forms.add(nameOf(stored, value));
  }
  return found.map(({ stored, value, at }) => {
    const { type } = stored.description;
    const present = names.present(type, value);
    const isThere = Buffer.isBuffer(present) && forms.has(nameOf(stored, present));
    if (Buffer.isBuffer(present)) forms.add(nameOf(stored, present));
    return { type, description: stored.name, value, at, present: isThere ? undefined : present };
  });
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
