import type { AttributeType } from '../../../schema/schema-types.js';
import type { Maybe, Reader } from '../../../store/contract.js';
import { awaitMaybe, chain, isPromise, runWork, type Work } from '../../../store/maybe.js';
import {
  type DescribedWide,
  describedWide,
  isSameVersion,
  MAX_NEXT_INDEX,
  masterRanges,
  normRanges,
  parseIndexes,
} from '../../model/entry-cells.js';
import { isReplacedError, largeOffsetsOf, readAllLarge } from '../../model/large.js';
import { refuseLongEntry } from '../../model/long-work.js';
import { presentRow } from '../../model/present-row.js';
import {
  cutNorm,
  largeQualifiers,
  MASTER_TABLE,
  type Node,
  normQualifier,
  normRdnOf,
  oidBytes,
  parentIdOf,
  TREE_TABLE,
  treeKey,
} from '../../model/tables.js';
import { seenRow } from '../../model/viewer.js';
import { isWhole, wideAttributes } from '../../model/wide.js';
import { dnOf, isOfClass, parentIdOffset } from '../../tree/master-row.js';
import { isSubentry } from '../../tree/specials.js';
import type { TreeContext } from '../../tree/tree-context.js';
import { type CompiledFilter, evaluate, type Term, TRUE, type Tri, UNDEFINED } from '../filter/compiled-filter.js';
import { type AttributeSelection, lookLimitError } from '../search-params.js';
import { requireDeleted } from './lost-rows.js';
import type { PlanKind } from './page.js';
import type { ExaminedEntry, SearchRun } from './search-run.js';
import { countVisibleChildren } from './visible-children.js';

/** Handles an entry that an index has, but that has no master row: the entry must have been deleted. */
export function checkMissingEntry(search: SearchRun, id: Buffer, kind: PlanKind): Maybe<void> {
  return kind === 'i' || kind === 'r' ? requireDeleted(search.context, id) : undefined;
}

/** Like `checkRow`, for a candidate whose row, or only the head of a split row, has been read. */
export function checkHead(search: SearchRun, id: Buffer, head: Buffer, kind: PlanKind, key: Buffer): Maybe<void> {
  if (isWhole(head)) return checkRow(search, id, head, kind, key);
  const { context, params, reader, filter } = search;
  const { looksInto } = params.viewer;
  if (params.walk) return readAndCheck(search, id, head, kind, key);
  if (looksInto && describedWide(context, head).some(({ description }) => looksInto.has(description.type)))
    return readAndCheck(search, id, head, kind, key);
  const isPartial = returnsWide(context, head, params.selects);
  return chain(readFilterPart(context, reader, id, head, filter), (part) =>
    part ? checkRow(search, id, part, kind, key, isPartial) : readAndCheck(search, id, head, kind, key),
  );
}

/** Reads and checks a whole split row, if filter or access rules need more than was read before. */
function readAndCheck(search: SearchRun, id: Buffer, head: Buffer, kind: PlanKind, key: Buffer): Maybe<void> {
  refuseLongEntry(search.params.refuseLong && !search.output.hasBegun, head);
  return chain(search.reader.get(MASTER_TABLE.name, id), (row) => row && checkRow(search, id, row, kind, key));
}

/**
 * Checks scope, visibility and filter of a candidate. Passes a matching entry to the output. The candidates of a search
 * are checked one after another, because all of them use `search.entry`.
 */
export function checkRow(
  search: SearchRun,
  id: Buffer,
  row: Buffer,
  kind: PlanKind,
  key: Buffer,
  isPartial = false,
): Maybe<void> {
  const { context, entry } = search;
  const storedRow = presentRow(context, row);
  entry.id = id;
  entry.storedRow = storedRow;
  entry.isPartial = isPartial;
  entry.kind = kind;
  entry.key = key;
  const parent = context.nodes.byIdAt(storedRow, parentIdOffset(storedRow));
  return isPromise(parent) ? parent.then((node) => checkScope(search, entry, node)) : checkScope(search, entry, parent);
}

function checkScope(search: SearchRun, entry: ExaminedEntry, parent: Node | undefined): Maybe<void> {
  const { context, params, excludedClasses } = search;
  const { id, storedRow } = entry;
  if (!parent || search.isPageFull) return;
  const { areas } = search;
  const isInArea =
    params.candidates && areas.length > 1
      ? areas.hasEarlier(areas.length, id, parent)
      : areas.isFirstToContain(search.areaIndex, id, parent);
  if (!isInArea) return;
  if (excludedClasses && isOfClass(context, storedRow, excludedClasses.aliases, excludedClasses.referrals)) return;
  if (search.findsSubentries !== undefined && isSubentry(context, storedRow) !== search.findsSubentries) return;
  const { sightOf } = params.viewer;
  const sight = sightOf?.({ id, parent, row: storedRow });
  if (sightOf) {
    if (!sight) return;
    if (!search.isIndexed && ++search.visibleEntryCount > params.lookLimit) throw lookLimitError();
  }
  entry.parent = parent;
  entry.sight = sight;
  entry.row = seenRow(context.descriptions, storedRow, sight, 'search');
  return checkFilter(search, entry);
}

function checkFilter(search: SearchRun, entry: ExaminedEntry): Maybe<void> {
  const { context, inputs, filter } = search;
  if (inputs.needsDn) entry.dn = dnOf(entry.storedRow, entry.parent);
  entry.namedGroups = undefined;
  if (inputs.needsSubordinates || largeOffsetsOf(context.descriptions, entry.row, inputs.valueTypes).length > 0)
    return runWork(checkWithInputs(search, { ...entry }));
  entry.largeValues = undefined;
  const result = evaluate(filter, entry);
  if (result !== UNDEFINED) return outputIfTrue(result, search, entry);
  if (inputs.chains.length > 0) return runWork(checkWithInputs(search, { ...entry }));
  if (!inputs.needsGroups && !inputs.needsDirectGroups) return;
  return inputs.groupNames.length > 0
    ? checkNamedGroups(search, entry)
    : runWork(checkWithInputs(search, { ...entry }));
}

/** Checks membership in the groups that the filter names. Finds all groups only if this does not decide. */
function checkNamedGroups(search: SearchRun, entry: ExaminedEntry): Maybe<void> {
  const { context, inputs, filter, params } = search;
  const { id, storedRow, parent } = entry;
  return chain(context.directGroups({ id, row: storedRow, parent }, inputs.groupNames, params.viewer), (groups) => {
    entry.namedGroups = groups;
    const result = evaluate(filter, entry);
    return result === UNDEFINED ? runWork(checkWithInputs(search, { ...entry })) : outputIfTrue(result, search, entry);
  });
}

/** Reads the inputs that the row lacks, then checks the filter. `entry` is a copy, because fields are added to it. */
function* checkWithInputs(search: SearchRun, entry: ExaminedEntry): Work<void> {
  const { id, kind, key } = entry;
  try {
    yield* readInputs(search, entry);
  } catch (error) {
    if (!isReplacedError(error)) throw error;
    search.rowsExamined++;
    const head = yield* awaitMaybe(search.reader.getHead(MASTER_TABLE.name, id));
    if (head) yield* awaitMaybe(checkHead(search, id, head, kind, key));
    else yield* awaitMaybe(checkMissingEntry(search, id, kind));
    return;
  }
  yield* awaitMaybe(outputIfTrue(evaluate(search.filter, entry), search, entry));
}

function outputIfTrue(result: Tri, search: SearchRun, entry: ExaminedEntry): Maybe<void> {
  if (result !== TRUE || search.acceptsKey?.(entry) === false) return;
  return entry.isPartial ? readAndOutput(search, entry) : search.output.passEntry(entry, search.areaIndex);
}

/** Reads the whole row of an entry whose partial row matched. An entry that has changed since is checked again. */
function readAndOutput(search: SearchRun, entry: ExaminedEntry): Maybe<void> {
  return chain(search.reader.get(MASTER_TABLE.name, entry.id), (row) => {
    if (!row) return;
    if (!isSameVersion(row, entry.storedRow)) return checkRow(search, entry.id, row, entry.kind, entry.key);
    entry.storedRow = presentRow(search.context, row);
    return search.output.passEntry(entry, search.areaIndex);
  });
}

/**
 * Reads the inputs of the filter that the row lacks: large values, counts of children, chains, groups. Reads chains and
 * groups only while the filter is Undefined without them.
 */
function* readInputs(search: SearchRun, entry: ExaminedEntry): Work<void> {
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

function returnsWide(context: TreeContext, head: Buffer, selects: AttributeSelection | undefined): boolean {
  if (!selects) return true;
  return wideAttributes(head).some(({ text }) => {
    const bytes = Buffer.from(text, 'latin1');
    return selects.includes(context.descriptions.intern(bytes, 0, bytes.length));
  });
}

/**
 * Reads the part of a split row that the filter needs: the head and, of wide attributes, only the values in the filter.
 * So finding a group by a member does not cost more for a large group. Returns undefined if the filter needs more of a
 * wide attribute, or the row has changed since `head` was read.
 */
export function readFilterPart(
  context: TreeContext,
  reader: Reader,
  id: Buffer,
  head: Buffer,
  filter: CompiledFilter,
): Maybe<Buffer | undefined> {
  const wides = describedWide(context, head);
  const qualifiers = wides.length > 0 ? namedQualifiers(context, head, wides, filter) : undefined;
  if (!qualifiers) return undefined;
  const treeRow = treeKey(parentIdOf(head), normRdnOf(head));
  const cells =
    qualifiers.size > 0 ? reader.getColumns(TREE_TABLE.name, treeRow, normRanges(qualifiers.values())) : undefined;
  return chain(cells, (read) =>
    chain(reader.getColumns(MASTER_TABLE.name, id, masterRanges(wides, parseIndexes(read))), (row) =>
      row && isSameVersion(row, head) ? row : undefined,
    ),
  );
}

/** Returns the tree cells of the values in the filter; undefined if the filter needs more values. */
function namedQualifiers(
  context: TreeContext,
  head: Buffer,
  wides: readonly DescribedWide[],
  filter: CompiledFilter,
): Map<string, Buffer> | undefined {
  if (largeQualifiers(head) || wides.some(({ nextIndex }) => nextIndex > MAX_NEXT_INDEX)) return undefined;
  const types = new Set(wides.map(({ description }) => description.type));
  // Recognizing an alias or a referral requires all classes.
  if (types.has(context.schema.requireDescription('objectClass').type)) return undefined;
  const qualifiers = new Map<string, Buffer>();
  return addQualifiers(filter, types, qualifiers) ? qualifiers : undefined;
}

/** Adds the cells of the values in the filter. Returns false if the filter needs more values. */
function addQualifiers(
  filter: CompiledFilter,
  types: ReadonlySet<AttributeType>,
  qualifiers: Map<string, Buffer>,
): boolean {
  switch (filter.kind) {
    case 'undefined':
      return true;
    case 'term':
      return addTermQualifiers(filter, types, qualifiers);
    case 'not':
      return addQualifiers(filter.part, types, qualifiers);
    default:
      return filter.parts.every((part) => addQualifiers(part, types, qualifiers));
  }
}

function addTermQualifiers(
  { types: termTypes, isExact, lookup, chain: links }: Term,
  types: ReadonlySet<AttributeType>,
  qualifiers: Map<string, Buffer>,
): boolean {
  if (links?.kind === 'chain') return true;
  if (links?.type.subtypes.some((type) => types.has(type))) return false;
  if (termTypes.length > 0 && !termTypes.some((type) => types.has(type))) return true;
  if (!isExact || (lookup?.kind !== 'equality' && lookup?.kind !== 'anyOf')) return false;
  for (const type of termTypes) {
    if (type.equality !== termTypes[0]!.equality) return false;
    for (const norm of lookup.kind === 'anyOf' ? lookup.norms : [lookup.norm]) {
      const qualifier = normQualifier(oidBytes(type.oid), cutNorm(norm));
      qualifiers.set(qualifier.toString('latin1'), qualifier);
    }
  }
  return true;
}
