import type { Modification, PartialAttribute } from '../ldap/ldap-types.js';
import type { Entry } from '../partition/model/directory-types.js';
import { attributeKey, storedValues } from '../partition/model/draft.js';
import type { Sight } from '../partition/model/viewer.js';
import type { Schema } from '../schema/schema.js';
import type { AttributeDescription, AttributeType, Ava } from '../schema/schema-types.js';
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
 * Returns the modifications that bring an entry to the desired values, byte by byte. Does not change the values that
 * name the entry, and secrets, which only new entries get. Object classes are added, never removed, and an attribute
 * that the entry has gets no next number. `newNames`: the values that would name a new entry.
 */
export function findDifferences(
  schema: Schema,
  { entry, sight }: VisibleEntry,
  attributes: readonly DesiredAttribute[],
  newNames: readonly Ava[],
): Modification[] {
  const { avas: names } = schema.parseDn(entry.dn).rdns[0]!;
  const changes: Modification[] = [];
  for (const desired of attributes) {
    const { description, isDefault } = desired;
    const onlyAdds = isClassList(description) || isAuto(desired);
    if (description.type.secret || (isDefault && !onlyAdds)) continue;
    const isReadable = mayRead(sight, description);
    const present = isReadable ? valuesOf(schema, entry, description) : [];
    const values = onlyAdds ? desired.values : withNames(desired, present, names, newNames);
    const toKey = onlyAdds ? normalizerOf(description.type) : (value: Buffer) => value.toString('latin1');
    const storedKeys = new Set(present.map(toKey));
    const missingValues = storedValues(description.type, values).filter((value) => !storedKeys.has(toKey(value)));
    if (onlyAdds) {
      if (missingValues.length === 0 || (isAuto(desired) && storedKeys.size > 0)) continue;
      changes.push({ operation: 'add', attribute: toPartialAttribute({ description, values: missingValues }) });
    } else if (!isReadable || missingValues.length > 0 || storedKeys.size > values.length)
      changes.push({ operation: 'replace', attribute: toPartialAttribute({ description, values }) });
  }
  return changes;
}

/** Returns the desired values, with the values that name the entry in place of those that would name a new entry. */
function withNames(
  { description: { type, options }, values }: FixedAttribute,
  present: readonly Buffer[],
  names: readonly Ava[],
  newNames: readonly Ava[],
): readonly Buffer[] {
  const valuesIn = (avas: readonly Ava[]) => avas.flatMap((ava) => (ava.type === type ? ava.value : []));
  const kept = options.length > 0 ? [] : valuesIn(names);
  if (kept.length === 0) return values;
  const normalize = normalizerOf(type);
  const keys = new Set([...kept, ...valuesIn(newNames)].map(normalize));
  const spelled = kept.map((name) => present.find((value) => normalize(value) === normalize(name)) ?? name);
  return type.singleValue ? spelled : [...spelled, ...values.filter((value) => !keys.has(normalize(value)))];
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
