import type { Modification, PartialAttribute } from '../ldap/ldap-types.js';
import type { Entry } from '../partition/model/directory-types.js';
import { attributeKey } from '../partition/model/draft.js';
import type { Sight } from '../partition/model/viewer.js';
import type { Schema } from '../schema/schema.js';
import type { AttributeDescription, AttributeType } from '../schema/schema-types.js';
import { type FixedAttribute, isClassList } from './csv-mapping.js';

export interface VisibleEntry {
  readonly entry: Entry;
  /** The rights to read the entry. Undefined: all of the entry may be read. */
  readonly sight: Sight | undefined;
}

export interface DesiredAttribute extends FixedAttribute {
  /** Whether the values are constants, for new entries only. */
  readonly isDefault: boolean;
}

/**
 * Returns the modifications that bring an entry to the desired values. Does not change secrets and naming attributes:
 * only new entries get secrets. Object classes are added, never removed, and an attribute that the entry has gets no
 * next number.
 */
export function findDifferences(
  schema: Schema,
  { entry, sight }: VisibleEntry,
  attributes: readonly DesiredAttribute[],
): Modification[] {
  const namingTypes = new Set(schema.parseDn(entry.dn).rdns[0]!.avas.map(({ type }) => type));
  const changes: Modification[] = [];
  for (const desired of attributes) {
    const { description, values, isDefault } = desired;
    const onlyAdds = isClassList(description) || isAuto(desired);
    if (description.type.secret || namingTypes.has(description.type) || (isDefault && !onlyAdds)) continue;
    const isReadable = mayRead(sight, description);
    const normalize = normalizerOf(description.type);
    const storedKeys = new Set(isReadable ? valuesOf(schema, entry, description).map(normalize) : []);
    const missingValues = values.filter((value) => !storedKeys.has(normalize(value)));
    if (onlyAdds) {
      if (missingValues.length === 0 || (isAuto(desired) && storedKeys.size > 0)) continue;
      changes.push({ operation: 'add', attribute: toPartialAttribute({ description, values: missingValues }) });
    } else if (!isReadable || missingValues.length > 0 || storedKeys.size > values.length)
      changes.push({ operation: 'replace', attribute: toPartialAttribute(desired) });
  }
  return changes;
}

/** Returns the values of the attribute with exactly these options. */
export function valuesOf(schema: Schema, entry: Entry, description: AttributeDescription): readonly Buffer[] {
  const key = attributeKey(description);
  return entry.attributes
    .filter((one) => one.type === description.type && attributeKey(schema.requireDescription(one.description)) === key)
    .flatMap(({ values }) => values);
}

export function mayRead(sight: Sight | undefined, description: AttributeDescription): boolean {
  return !sight || sight.all('read') || sight.allows('read', description);
}

export function toPartialAttribute({ description, values }: FixedAttribute): PartialAttribute {
  return { type: description.text, values };
}

/** Returns the values without those that are equal to an earlier one, and without `auto` beside a number. */
export function distinctValues({ description, values }: FixedAttribute): readonly Buffer[] {
  const normalize = normalizerOf(description.type);
  const byKey = new Map<string, Buffer>();
  for (const value of values) if (!byKey.has(normalize(value))) byKey.set(normalize(value), value);
  const all = [...byKey.values()];
  return all.length > 1 && hasIntegerSyntax(description) ? all.filter((value) => String(value) !== AUTO) : all;
}

/** The value that requests the next number (docs/values.md). */
const AUTO = 'auto';

function isAuto({ description, values }: FixedAttribute): boolean {
  return hasIntegerSyntax(description) && values.length === 1 && String(values[0]) === AUTO;
}

function hasIntegerSyntax({ type }: AttributeDescription): boolean {
  return type.syntax.oid === '1.3.6.1.4.1.1466.115.121.1.27';
}

/** Returns the function that normalizes values by the equality rule of the type. */
export function normalizerOf(type: AttributeType): (value: Buffer) => string {
  return (value) => (type.equality?.normalize(value) ?? value).toString('latin1');
}
