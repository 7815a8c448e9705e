import type { AttributeType } from '../../../schema/schema-types.js';

/** What is done with an attribute of an entry: looked for by a filter, compared, handed out. */
export type Use = 'search' | 'compare' | 'read';

/** What a viewer may do with the attributes of one entry. */
export interface Sight {
  allows(use: Use, type: AttributeType): boolean;
}

/** An entry that somebody is about to see. */
export interface Viewed {
  readonly id: Buffer;
  readonly dn: Buffer;
  /** Packed master row; of a long one values of wide attributes may lack. */
  readonly row: Buffer;
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
}

/** Whoever may see all of every entry that is to be seen at all. */
export const UNRESTRICTED: Viewer = { sightOf: undefined };

/** Secrets are neither searched for nor handed out, whoever asks. */
export function isHidden(type: AttributeType): boolean {
  return type.secret;
}
