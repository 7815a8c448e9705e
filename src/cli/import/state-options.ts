import type { PartialAttribute } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/index.js';
import { parseStateOptions } from '../../schema/state-options.js';

export class StateCounts {
  /** Values left out: deleted in the other server, or the attribute has its single value already. */
  omittedCount = 0;
  strippedCount = 0;
  firstAttribute: { readonly line: number; readonly attribute: string } | undefined;

  add(counts: StateCounts): void {
    this.omittedCount += counts.omittedCount;
    this.strippedCount += counts.strippedCount;
    this.firstAttribute ??= counts.firstAttribute;
  }
}

interface MergedAttribute extends PartialAttribute {
  readonly values: Buffer[];
}

/** Returns the attributes of a new entry without the change metadata of another server. `line`: of the record. */
export function stripStateOptions(
  schema: Schema,
  line: number,
  attributes: readonly PartialAttribute[],
  counts: StateCounts,
): readonly PartialAttribute[] {
  const states = attributes.map(({ type }) => parseStateOptions(type));
  if (states.every((state) => state === undefined)) return attributes;
  const attributesByName = new Map<string, MergedAttribute>();
  for (const [i, { type, values }] of attributes.entries())
    if (!states[i]) attributesByName.set(type.toLowerCase(), { type, values: [...values] });
  for (const [i, { type, values }] of attributes.entries()) {
    const state = states[i];
    if (!state) continue;
    counts.firstAttribute ??= { line, attribute: type };
    const name = state.text.toLowerCase();
    const target = attributesByName.get(name);
    const isTaken = target !== undefined && schema.describe(state.text)?.type.singleValue === true;
    if (state.isDeleted || isTaken) {
      counts.omittedCount += values.length;
      continue;
    }
    counts.strippedCount += values.length;
    if (!target) attributesByName.set(name, { type: state.text, values: [...values] });
    else target.values.push(...values.filter((value) => !target.values.some((one) => one.equals(value))));
  }
  return [...attributesByName.values()];
}
