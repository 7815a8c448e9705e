import type { Maybe } from '../../partition/index.js';

/** Attribute types with the text of their values. */
export type VirtualAttributes = readonly (readonly [type: string, values: readonly string[]])[];

/** An entry whose attributes are computed when a search reads the entry. */
export interface ComputedEntry {
  readonly dn: string;
  attributes(): Maybe<VirtualAttributes>;
}
