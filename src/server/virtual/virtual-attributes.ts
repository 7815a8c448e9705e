/** Attribute types with the text of their values. */
export type VirtualAttributes = readonly (readonly [type: string, values: readonly string[]])[];
