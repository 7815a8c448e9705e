import { EMPTY } from '../../../store/row.js';
import type { Node } from '../../model/node.js';
import { ROOT } from '../../tree/nodes.js';
import type { Candidate } from '../filter/compiled-filter.js';
import type { PlanKind } from './page.js';

/** The entry that a search is examining. `row` has the attributes that the viewer may search by. */
export interface ExaminedEntry extends Candidate {
  id: Buffer;
  /** The master row with all attributes. */
  storedRow: Buffer;
  /** Whether `storedRow` has only the part of a split row that the filter needs, and more is to be returned. */
  isPartial: boolean;
  parent: Node;
  kind: PlanKind;
  /** The key after which the next page starts, if this entry is the last of its page (`Resume`). */
  key: Buffer;
}

/** Returns an empty object, which a search fills in for each candidate. One made by a spread would be slow. */
export function emptyEntry(): ExaminedEntry {
  return {
    row: EMPTY,
    dn: EMPTY,
    hasSubordinates: false,
    numSubordinates: 0,
    sight: undefined,
    largeValues: undefined,
    namedGroups: undefined,
    id: EMPTY,
    storedRow: EMPTY,
    isPartial: false,
    parent: ROOT,
    kind: 'b',
    key: EMPTY,
  };
}
