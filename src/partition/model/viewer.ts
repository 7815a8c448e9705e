import type { AttributeDescription, AttributeType } from '../../schema/schema-types.js';
import { cellFamily, nextCell, qualifierLength, qualifierStart } from '../../store/row.js';
import { type DescriptionTable, INDEX_BYTES, type StoredDescription } from './descriptions.js';
import { MASTER, type Node } from './tables.js';

/** A use of an attribute: in a filter, in a compare, or in a result. */
export type Use = 'search' | 'compare' | 'read';

export interface Sight {
  /** Whether all attributes except secrets may be used in this way. Rows then need no filtering. */
  all(use: Use): boolean;
  /** Whether the attribute may be used in this way. Secrets are only checked for `read`. */
  allows(use: Use, description: AttributeDescription): boolean;
}

export interface ViewedEntry {
  readonly id: Buffer;
  readonly parent: Node;
  /** Packed master row. For a long entry it may lack wide attributes that are not in `looksInto`. */
  readonly row: Buffer;
  /** The normalized RDN (cut). Default: the one in `row`. */
  readonly normRdn?: Buffer;
}

/**
 * The rights with which a client reads entries. A search or compare ignores entries that the viewer cannot see, and
 * returns nothing that the viewer must not read. Created once per request.
 */
export interface Viewer {
  /** Returns the rights on an entry; undefined: hidden. Absent: all entries and attributes but secrets are visible. */
  readonly sightOf?: ((entry: ViewedEntry) => Sight | undefined) | undefined;
  /** Whether an entry is visible; undefined if this depends on the row of the entry. */
  readonly sees?: (node: Node) => boolean | undefined;
  /** Whether the entry is visible and values of the type may be used; also false if this depends on the entry's row. */
  readonly mayUse?: (node: Node, use: Use, type: AttributeType) => boolean;
  /** Whether all children of the node are visible, whatever they contain. */
  readonly seesAllBelow?: (node: Node) => boolean;
  /** Types whose values `sightOf` reads in the row. */
  readonly looksInto?: ReadonlySet<AttributeType>;
}

/** A viewer that sees all entries and attributes. */
export const UNRESTRICTED: Viewer = { sightOf: undefined };

/** Whether the type is secret: no viewer can search for it, and a viewer can read it only by a rule that names it. */
export function isHidden(type: AttributeType): boolean {
  return type.secret;
}

/**
 * Returns a master row without the attributes that the viewer may not use in this way; `row` itself if all are allowed.
 * If all other attributes are allowed, secrets remain in the row, so code that sends the row must leave them out.
 */
export function seenRow(descriptions: DescriptionTable, row: Buffer, sight: Sight | undefined, use: Use): Buffer {
  if (!sight || sight.all(use)) return row;
  let result: Buffer | undefined;
  let resultLength = 0;
  let keptStart = 0;
  let previous: StoredDescription | undefined;
  let isAllowed = false;
  for (let offset = 0; offset < row.length; ) {
    const cellEnd = nextCell(row, offset);
    if (cellFamily(row, offset) === MASTER.upAttributes) {
      const start = qualifierStart(offset);
      const stored = descriptions.internNext(previous, row, start, start + qualifierLength(row, offset) - INDEX_BYTES);
      if (stored !== previous) isAllowed = sight.allows(use, stored.description);
      previous = stored;
      if (!isAllowed) {
        result ??= Buffer.from(row);
        if (offset > keptStart) result.copyWithin(resultLength, keptStart, offset);
        resultLength += offset - keptStart;
        keptStart = cellEnd;
      }
    }
    offset = cellEnd;
  }
  return result ? result.copyWithin(resultLength, keptStart).subarray(0, resultLength + row.length - keptStart) : row;
}
