import type { PartialAttribute } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/index.js';
import { stateOptionsOf } from '../../schema/state-options.js';

/** What became of values with state options, of a record or of many. */
export class StateCounts {
  /** Values that are left out: the other server keeps them as deleted, or the attribute's one value stands beside. */
  deleted = 0;
  /** Values that are taken without their state options. */
  freed = 0;
  first: { readonly line: number; readonly attribute: string } | undefined;

  add(other: StateCounts): void {
    this.deleted += other.deleted;
    this.freed += other.freed;
    this.first ??= other.first;
  }
}

interface Gathered extends PartialAttribute {
  readonly values: Buffer[];
}

/** The attributes of a new entry, whose record begins at `line`, without what another server notes of their changes. */
export function withoutState(
  schema: Schema,
  line: number,
  attributes: readonly PartialAttribute[],
  counts: StateCounts,
): readonly PartialAttribute[] {
  const states = attributes.map(({ type }) => stateOptionsOf(type));
  if (states.every((state) => state === undefined)) return attributes;
  const byName = new Map<string, Gathered>();
  for (const [i, { type, values }] of attributes.entries())
    if (!states[i]) byName.set(type.toLowerCase(), { type, values: [...values] });
  for (const [i, { type, values }] of attributes.entries()) {
    const state = states[i];
    if (!state) continue;
    counts.first ??= { line, attribute: type };
    const name = state.text.toLowerCase();
    const known = byName.get(name);
    const isTaken = known !== undefined && schema.describe(state.text)?.type.singleValue === true;
    if (state.deleted || isTaken) {
      counts.deleted += values.length;
      continue;
    }
    counts.freed += values.length;
    if (!known) byName.set(name, { type: state.text, values: [...values] });
    else known.values.push(...values.filter((value) => !known.values.some((one) => one.equals(value))));
  }
  return [...byName.values()];
}
