import { awaitMaybe, type Work } from '../../../store/maybe.js';
import { largeOffsetsOf, readAllLarge } from '../../model/large.js';
import { MASTER_TABLE } from '../../model/tables.js';
import { dnOf } from '../../tree/master-row.js';
import { evaluate, UNDEFINED } from '../filter/compiled-filter.js';
import type { ExaminedEntry } from './examined-entry.js';
import type { SearchRun } from './search-run.js';
import { countVisibleChildren } from './visible-children.js';

/**
 * Reads the inputs of the filter that the row lacks: large values, counts of children, chains, groups. Reads chains and
 * groups only while the filter is Undefined without them.
 */
export function* readInputs(search: SearchRun, entry: ExaminedEntry): Work<void> {
  const { context, reader, inputs, filter } = search;
  const { id, storedRow, parent } = entry;
  const largeOffsets = largeOffsetsOf(context.descriptions, entry.row, inputs.valueTypes);
  if (largeOffsets.length > 0)
    entry.largeValues = yield* awaitMaybe(readAllLarge(reader, MASTER_TABLE.name, id, entry.row, largeOffsets));
  entry.numSubordinates = inputs.needsSubordinates
    ? yield* awaitMaybe(countVisibleChildren(context, reader, search.params.viewer, { id, row: storedRow }))
    : 0;
  entry.hasSubordinates = entry.numSubordinates > 0;
  entry.dn = dnOf(storedRow, parent);
  if (inputs.chains.length > 0 && evaluate(filter, entry) === UNDEFINED)
    entry.isInChain = yield* awaitMaybe(search.chains!.membershipTest(inputs.chains, id));
  if ((inputs.needsGroups || inputs.needsDirectGroups) && evaluate(filter, entry) === UNDEFINED)
    yield* readGroups(search, entry);
}

/** Reads the groups of the entry: first those that the filter names, and all groups if these do not decide. */
function* readGroups({ context, inputs, filter, params }: SearchRun, entry: ExaminedEntry): Work<void> {
  const { viewer } = params;
  const { id, storedRow, parent } = entry;
  if (inputs.groupNames.length > 0 && !entry.namedGroups) {
    const maybeGroups = context.directGroups({ id, row: storedRow, parent }, inputs.groupNames, viewer);
    entry.namedGroups = yield* awaitMaybe(maybeGroups);
    if (evaluate(filter, entry) !== UNDEFINED) return;
  }
  const dn = context.schema.parseDnBytes(entry.dn);
  const findGroups = (isDirect: boolean) => context.membershipsOf({ id, dn }, viewer, 'search', isDirect);
  if (inputs.needsGroups) entry.groups = new Set((yield* awaitMaybe(findGroups(false))).keys());
  if (inputs.needsDirectGroups) entry.directGroups = new Set((yield* awaitMaybe(findGroups(true))).keys());
}
