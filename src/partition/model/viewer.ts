import type { AttributeDescription, AttributeType } from '../../schema/schema-types.js';
import type { Node } from './node.js';

/** A use of an attribute: in a filter, in a compare, or in a result. */
export type Use = 'search' | 'compare' | 'read';

export interface Sight {
  /** True if all attributes except secrets may be used in this way, so that no row has to be filtered. */
  all(use: Use): boolean;
  /** True if the attribute may be used in this way. For secrets only `read` is checked. */
  allows(use: Use, description: AttributeDescription): boolean;
}

export interface ViewedEntry {
  readonly id: Buffer;
  readonly parent: Node;
  /** Packed master row. For a long entry, values of wide attributes outside `looksInto` may be missing. */
  readonly row: Buffer;
  /** As in tree rows (cut). Absent: the value in `row`. */
  readonly normRdn?: Buffer;
}

/**
 * The client on whose behalf entries are read, with its rights. Searches and compares ignore entries that are hidden
 * from the viewer and return nothing that it may not read. Created once per request.
 */
export interface Viewer {
  /** Returns the rights on an entry; undefined: hidden. Absent: all entries are visible, with all but secrets. */
  readonly sightOf?: ((entry: ViewedEntry) => Sight | undefined) | undefined;
  /** Tells whether an entry is visible. Returns undefined if this depends on the entry's row. */
  readonly sees?: (node: Node) => boolean | undefined;
  /** True if the entry is visible and its values of a type may be used; false if this depends on the entry's row. */
  readonly mayUse?: (node: Node, use: Use, type: AttributeType) => boolean;
  /** True if all children of the node are visible, whatever their contents. */
  readonly seesAllBelow?: (node: Node) => boolean;
  /** Types whose values `sightOf` evaluates. */
  readonly looksInto?: ReadonlySet<AttributeType>;
}

/** A viewer that sees all entries and attributes. */
export const UNRESTRICTED: Viewer = { sightOf: undefined };

/** True for secrets: no viewer can search for them, and only viewers with a right on the name can read them. */
export function isHidden(type: AttributeType): boolean {
  return type.secret;
}
