import type { PartialAttribute } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/index.js';
import { parseStateOptions } from '../../schema/state-options.js';

export class StateCounts {
  /** Values left out: deleted in the other server, or the attribute has its single value already. */
  deleted = 0;
  stripped = 0;
  first: { readonly line: number; readonly attribute: string } | undefined;

  add(other: StateCounts): void {
    this.deleted += other.deleted;
    this.stripped += other.stripped;
    this.first ??= other.first;
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
  const byName = new Map<string, MergedAttribute>();
  for (const [i, { type, values }] of attributes.entries())
    if (!states[i]) byName.set(type.toLowerCase(), { type, values: [...values] });
  for (const [i, { type, values }] of attributes.entries()) {
    const state = states[i];
    if (!state) continue;
    counts.first ??= { line, attribute: type };
    const name = state.text.toLowerCase();
    const known = byName.get(name);
    const isTaken = known !== undefined && schema.describe(state.text)?.type.singleValue === true;
    if (state.isDeleted || isTaken) {
      counts.deleted += values.length;
      continue;
    }
    counts.stripped += values.length;
    if (!known) byName.set(name, { type: state.text, values: [...values] });
    else known.values.push(...values.filter((value) => !known.values.some((one) => one.equals(value))));
  }
  return [...byName.values()];
}
