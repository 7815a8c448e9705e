import type { AttributeDescription, AttributeType } from '../../schema/schema-types.js';
import type { Node } from './node.js';

/** What is done with an attribute of an entry: looked for by a filter, compared, handed out. */
export type Use = 'search' | 'compare' | 'read';

/** What a viewer may do with the attributes of one entry. */
export interface Sight {
  /** Whether all but secrets may be used so: nobody has to go through a row. */
  all(use: Use): boolean;
  /** Of secrets `read` alone is asked. */
  allows(use: Use, description: AttributeDescription): boolean;
}

/** An entry that somebody is about to see. */
export interface Viewed {
  readonly id: Buffer;
  /** The one right above it. */
  readonly parent: Node;
  /** Packed master row; of a long one values of wide attributes may lack that `looksInto` does not name. */
  readonly row: Buffer;
  /** As in tree rows (cut); absent: as `row` has it. */
  readonly normRdn?: Buffer;
}

/**
 * Who asks for entries, by what rights: searches and compares take nobody else, and hand out nothing that it may not
 * read. Made once a request.
 */
export interface Viewer {
  /**
   * What it may see of an entry; undefined: for it the entry is not there. Absent where all entries are seen alike, all
   * of them but secrets.
   */
  readonly sightOf?: ((entry: Viewed) => Sight | undefined) | undefined;
  /** Whether an entry is there for it, where that can be told without the entry's row. */
  readonly sees?: (node: Node) => boolean | undefined;
  /**
   * Whether an entry is there for it, and its values of a type may be used so, whatever options they have; false also
   * where that cannot be told without the entry's row.
   */
  readonly mayUse?: (node: Node, use: Use, type: AttributeType) => boolean;
  /** Whether all entries right below this one are there for it, whatever they are. */
  readonly seesAllBelow?: (node: Node) => boolean;
  /** Types whose values `sightOf` looks at. */
  readonly looksInto?: ReadonlySet<AttributeType>;
}

/** Whoever may see all of every entry that is to be seen at all. */
export const UNRESTRICTED: Viewer = { sightOf: undefined };

/** Secrets are not searched for, whoever asks, and handed out to those alone who may read them by name. */
export function isHidden(type: AttributeType): boolean {
  return type.secret;
}
