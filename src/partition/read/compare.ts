import { LdapError } from '../../ldap/ldap-error.js';
import type { AttributeDescription, Dn } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import { StoreError } from '../../store/store-error.js';
import { isComputed, isMembership } from '../model/computed.js';
import type { CompareOptions, Entry } from '../model/directory-types.js';
import { draftFromAttributes } from '../model/draft.js';
import { describedWide, detachedRow } from '../model/entry-cells.js';
import { groupTypes } from '../model/group-rows.js';
import { draftWithLarge } from '../model/implied.js';
import { largeOffsetsWhere, readAllLarge, retryWhileReplaced } from '../model/large.js';
import { refuseLongEntry } from '../model/long-work.js';
import { presentRow } from '../model/present-row.js';
import { largeQualifiers, MASTER_TABLE, type Node, parentIdOf, versionOf } from '../model/tables.js';
import { isHidden, type Sight, UNRESTRICTED, type Viewer } from '../model/viewer.js';
import { isWhole } from '../model/wide.js';
import { findEntry, HiddenEntry, type LocatedEntry, refuseReferral, requireHead } from '../tree/locate.js';
import { ROOT } from '../tree/nodes.js';
import { specialClass } from '../tree/specials.js';
import type { TreeContext } from '../tree/tree-context.js';
import { evaluate, TRUE } from './filter/compiled-filter.js';
import { readFilterPart } from './run/entry-check.js';
import type { SearchContext } from './run/search-context.js';
import { countVisibleChildren } from './run/visible-children.js';

const REF_OID = '2.16.840.1.113730.3.1.34';

interface Comparison {
  readonly dn: Dn;
  readonly attribute: AttributeDescription;
  readonly value: Buffer;
  readonly viewer: Viewer;
  readonly options: CompareOptions;
}

interface ReadEntry extends LocatedEntry {
  /** Large values by qualifier (Latin-1). */
  readonly largeValues?: ReadonlyMap<string, Buffer> | undefined;
  /** Wide attributes of which the row has only some values. */
  readonly wideDescriptions?: readonly AttributeDescription[] | undefined;
}

/**
 * Whether the entry has the value, by the attribute's equality rule (RFC 4511 §4.10). For a short entry an embedded
 * store answers synchronously.
 */
export function compare(
  context: SearchContext,
  dn: Dn,
  text: string,
  value: Buffer,
  viewer: Viewer,
  options: CompareOptions = {},
): Maybe<boolean> {
  const comparison = { dn, attribute: context.schema.requireComparable(text), value, viewer, options };
  return context.shared.readFresh(() =>
    chain(findEntry(context, context.store, dn, 'getHead'), (entry) => {
      const isRowEnough =
        entry && isWhole(entry.row) && !largeQualifiers(entry.row) && !isComputed(comparison.attribute.type);
      return isRowEnough
        ? compareRow(context, entry, comparison)
        : retryWhileReplaced(() => compareByFurtherRows(context, comparison));
    }),
  );
}

/** Like `compare`, for an entry that is in no table. */
export function compareVirtual(
  context: SearchContext,
  entry: LocatedEntry,
  text: string,
  value: Buffer,
  viewer: Viewer,
): Maybe<boolean> {
  const { schema } = context;
  const [dn, attribute] = [schema.parseDnBytes(entry.node.dn), schema.requireComparable(text)];
  return compareRow(context, entry, { dn, attribute, value, viewer, options: {} });
}

/** Compares an entry whose comparison needs further rows, or a computed attribute. */
async function compareByFurtherRows(context: SearchContext, comparison: Comparison): Promise<boolean> {
  const { dn, attribute, options } = comparison;
  const { node, row: head } = await requireHead(context, context.store, dn, options.manageDsaIT ?? false);
  const { row, wideDescriptions } = isWhole(head)
    ? { row: head }
    : await readNeededRow(context, { node, row: head }, comparison);
  if (isComputed(attribute.type)) return compareComputed(context, { node, row }, comparison);
  const largeOffsets = largeOffsetsWhere(context.descriptions, row, (type) => attribute.type.subtypes.includes(type));
  const largeValues = await readAllLarge(context.store, MASTER_TABLE.name, node.id, row, largeOffsets);
  return compareRow(context, { node, row, largeValues, wideDescriptions }, comparison);
}

/**
 * Reads a split row: if that suffices, only its head and the asserted value; otherwise the whole row. With
 * `refuseLong`, throws `LongWork` before it reads the whole row of a long entry.
 */
async function readNeededRow(
  context: SearchContext,
  { node, row: head }: LocatedEntry,
  { attribute, value, options, viewer }: Comparison,
): Promise<Pick<ReadEntry, 'row' | 'wideDescriptions'>> {
  const isNeededForRights = describedWide(context, head).some(({ description }) =>
    viewer.looksInto?.has(description.type),
  );
  const { filter } = context.compiler.compile({ type: 'equal', attribute: attribute.text, value }, UNRESTRICTED);
  const partialRow = isNeededForRights
    ? undefined
    : await readFilterPart(context, context.store, node.id, head, filter);
  if (partialRow && !specialClass(context, partialRow))
    return { row: partialRow, wideDescriptions: describedWide(context, head).map(({ description }) => description) };
  refuseLongEntry(options.refuseLong, head);
  const row = await context.store.get(MASTER_TABLE.name, node.id);
  if (!row) throw new StoreError('guard', 'the entry has been deleted meanwhile');
  return { row };
}

/**
 * Compares the values in the row. Does not stop at an equal value, because a referral object, which shows by its `ref`,
 * is not compared (RFC 3296 §5.3).
 */
function compareRow(context: SearchContext, entry: ReadEntry, comparison: Comparison): Maybe<boolean> {
  const { attribute, value } = comparison;
  const rule = attribute.type.equality;
  const norm = rule?.normalizeAssertion(value);
  const sight = requireSight(entry, comparison);
  let isPresent =
    entry.wideDescriptions?.some((other) => context.schema.matches(attribute, other) && mayCompare(sight, other)) ??
    false;
  let isEqual = false;
  let isReferral = false;
  let isMemberUrl = false;
  const reader = context.reader.read(presentRow(context, entry.row));
  for (let i = 0; i < reader.attributeCount; i++) {
    const storedDescription = reader.descriptions[i]!;
    const { description } = storedDescription;
    isReferral ||= description.type.oid === REF_OID;
    isMemberUrl ||= storedDescription.isMemberUrl && mayCompare(sight, description);
    if (isEqual || !context.schema.matches(attribute, description) || !mayCompare(sight, description)) continue;
    isPresent = true;
    for (let v = reader.firstValues[i]!; v < reader.firstValues[i + 1]! && !isEqual; v++) {
      const largeValue = entry.largeValues?.get(reader.qualifier(i, v).toString('latin1'));
      const storedNorm = norm && rule!.normalize(largeValue ?? reader.value(v));
      isEqual = storedNorm !== undefined && (rule!.test ? rule!.test(storedNorm, norm!) : storedNorm.equals(norm!));
    }
  }
  if (isReferral && !comparison.options.manageDsaIT) refuseReferral(context, entry, comparison.dn);
  requireComparable(attribute, sight, norm !== undefined);
  if (!isEqual && isMemberUrl && attribute.type === groupTypes(context.schema).member && attribute.options.length === 0)
    return context.isDynamicMember(entry.row, norm!, comparison.viewer);
  if (!isPresent) throw new LdapError('noSuchAttribute', `the entry has no attribute '${attribute.text}'`);
  return isEqual;
}

async function compareComputed(context: SearchContext, entry: LocatedEntry, comparison: Comparison): Promise<boolean> {
  const { attribute, value, dn, options } = comparison;
  const { row, node } = entry;
  if (!options.manageDsaIT) refuseReferral(context, entry, dn);
  requireComparable(
    attribute,
    requireSight(entry, comparison),
    attribute.type.equality?.normalizeAssertion(value) !== undefined,
  );
  if (isMembership(attribute.type)) return compareMembership(context, node, comparison);
  const { filter } = context.compiler.compile({ type: 'equal', attribute: attribute.text, value }, UNRESTRICTED);
  const numSubordinates = await countVisibleChildren(context, context.store, comparison.viewer, { id: node.id, row });
  const candidate = { row, dn: node.dn, hasSubordinates: numSubordinates > 0, numSubordinates };
  return evaluate(filter, { ...candidate, sight: undefined, largeValues: undefined }) === TRUE;
}

async function compareMembership(
  context: SearchContext,
  { id }: Node,
  { attribute, value, dn, viewer, options }: Comparison,
): Promise<boolean> {
  const groups = await context.membershipsOf({ id, dn }, viewer, 'compare', options.directGroupsOnly);
  if (groups.size === 0) throw new LdapError('noSuchAttribute', `the entry has no attribute '${attribute.text}'`);
  return groups.has(attribute.type.equality!.normalizeAssertion(value)!.toString('latin1'));
}

/** Returns the viewer's rights on the entry's attributes. Throws `noSuchObject` if the viewer may not see the entry. */
function requireSight({ node, row }: LocatedEntry, { viewer }: Comparison): Sight | undefined {
  const sight = viewer.sightOf?.({ id: node.id, parent: node.parent ?? ROOT, row, normRdn: node.normRdn });
  if (viewer.sightOf && !sight) throw new HiddenEntry(node);
  return sight;
}

function mayCompare(sight: Sight | undefined, description: AttributeDescription): boolean {
  return (
    !isHidden(description.type) && (sight === undefined || sight.all('compare') || sight.allows('compare', description))
  );
}

/** Throws if the viewer may not compare the attribute, or if the assertion has no equality rule or a wrong syntax. */
function requireComparable(attribute: AttributeDescription, sight: Sight | undefined, hasSyntax: boolean): void {
  const { text, type } = attribute;
  if (!mayCompare(sight, attribute))
    throw new LdapError('insufficientAccessRights', `this needs the right 'compare' on attribute '${text}'`);
  if (!type.equality) throw new LdapError('inappropriateMatching', `attribute '${text}' has no equality rule`);
  if (!hasSyntax) throw new LdapError('invalidAttributeSyntax', `the value is not of the syntax of '${text}'`);
}

/** Returns the entry as an object, with large values only if `withLarge` is set. */
export async function toEntry(context: SearchContext, located: LocatedEntry, withLarge: boolean): Promise<Entry> {
  const { node } = located;
  const row = presentRow(context, located.row);
  const largeValues = withLarge ? await readAllLarge(context.store, MASTER_TABLE.name, node.id, row) : undefined;
  const draft = draftWithLarge(context, row, largeValues);
  return {
    id: node.id,
    dn: node.dn.toString(),
    parentId: parentIdOf(row),
    version: versionOf(row),
    attributes: draft.attributes.map((a) => ({
      description: a.text,
      type: a.description.type,
      values: a.values.map((v) => v.bytes),
    })),
    row,
  };
}

/** Packs a master row for an entry in no table (root DSE, cn=Subschema, …), to be treated like a stored row. */
export function virtualRow(
  context: TreeContext,
  attributes: readonly { readonly type: string; readonly values: readonly Buffer[] }[],
): Buffer {
  return detachedRow(draftFromAttributes(context.schema, attributes));
}

export async function readById(context: SearchContext, id: Buffer, large: boolean): Promise<Entry | undefined> {
  const maybeRow = context.store.get(MASTER_TABLE.name, id);
  const row = isPromise(maybeRow) ? await maybeRow : maybeRow;
  const maybeNode = context.nodes.byId(id);
  const node = isPromise(maybeNode) ? await maybeNode : maybeNode;
  return row && node ? toEntry(context, { node, row }, large) : undefined;
}
