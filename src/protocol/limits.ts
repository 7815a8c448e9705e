/** Limits of the contents of one message. A non-fatal ProtocolError names the limit that is exceeded. */
export interface DecodeLimits {
  /** Nesting depth of filters. The decoder recurses, so the value has to stay below 1,000. */
  readonly maxFilterDepth: number;
  /** Items in the filter of a search. Each initial, any or final substring of a substring filter counts as an item. */
  readonly maxFilterNodes: number;
  readonly maxControls: number;
  /** Attributes of an add request, or changes of a modify request. */
  readonly maxAttributes: number;
  /** Total number of values in an add or modify request. */
  readonly maxValues: number;
  /** Attributes that a search requests. */
  readonly maxSelectedAttributes: number;
}

export const defaultLimits: DecodeLimits = {
  maxFilterDepth: 100,
  maxFilterNodes: 10_000,
  maxControls: 64,
  maxAttributes: 10_000,
  maxValues: 250_000,
  maxSelectedAttributes: 20_000,
};
