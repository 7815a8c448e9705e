/**
 * Bounds on what one message may make the decoder build. Each is refused with a non-fatal ProtocolError that says the
 * bound.
 */
export interface DecodeLimits {
  /** Filters inside filters. The decoder recurses: keep it below 1,000. */
  readonly maxFilterDepth: number;
  /** Filter items of one search, parts of substring filters included. */
  readonly maxFilterNodes: number;
  readonly maxControls: number;
  /** Attributes of an add, changes of a modify. */
  readonly maxAttributes: number;
  /** Values of an add or modify together. */
  readonly maxValues: number;
  /** Attributes that a search asks for. */
  readonly maxSelected: number;
}

export const defaultLimits: DecodeLimits = {
  maxFilterDepth: 100,
  maxFilterNodes: 10_000,
  maxControls: 64,
  maxAttributes: 10_000,
  maxValues: 250_000,
  maxSelected: 20_000,
};
