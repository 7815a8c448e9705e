import { LdapError } from '../../ldap/ldap-error.js';
import type { AttributeDescription, Dn } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import { StoreError } from '../../store/store-error.js';
import { isComputed, isMembership } from '../model/computed.js';
import type { CompareOptions } from '../model/directory-types.js';
import { groupTypes } from '../model/group-rows.js';
import { largeCellsWhere, readAllLarge, retryWhileReplaced } from '../model/large.js';
import { leaveLong } from '../model/long-work.js';
import type { Node } from '../model/node.js';
import { presentRow } from '../model/present-row.js';
import { largeQualifiers, MASTER_TABLE } from '../model/tables.js';
import { isHidden, type Sight, UNRESTRICTED, type Viewer } from '../model/viewer.js';
import { isWhole } from '../model/wide.js';
import { wideOf } from '../model/wide-read.js';
import { findEntry, type Located, refuseReferral, requireHead } from '../tree/locate.js';
import { ROOT } from '../tree/nodes.js';
import { specialClass } from '../tree/referrals.js';
import { HiddenEntry } from '../tree/sight.js';
import { evaluate, TRUE } from './filter/compiled-filter.js';
import type { SearchContext } from './run/search-context.js';
import { countVisible } from './run/visible-children.js';
import { partForFilter } from './run/wide-part.js';

const REFERRAL = '2.16.840.1.113730.3.1.34';

/** What is asked. */
interface Comparison {
  readonly dn: Dn;
  readonly asked: AttributeDescription;
  readonly value: Buffer;
  readonly viewer: Viewer;
  readonly options: CompareOptions;
}

/** An entry as far as it has been read. */
interface Read extends Located {
  /** Values over 64 KiB, by latin-1 qualifier. */
  readonly large?: ReadonlyMap<string, Buffer> | undefined;
  /** Attributes of which not all values are in the row. */
  readonly wide?: readonly AttributeDescription[] | undefined;
}

/**
 * Whether the entry has the value, by the attribute's equality rule (RFC 4511 §4.10). A short entry is compared at
 * once.
 */
export function compare(
  context: SearchContext,
  dn: Dn,
  attribute: string,
  value: Buffer,
  viewer: Viewer,
  options: CompareOptions = {},
): Maybe<boolean> {
  const comparison = { dn, asked: context.schema.requireAsked(attribute), value, viewer, options };
  return context.shared.ahead(() =>
    chain(findEntry(context, context.store, dn, 'getHead'), (found) => {
      const atOnce = found && isWhole(found.row) && !largeQualifiers(found.row) && !isComputed(comparison.asked.type);
      return atOnce
        ? compareRow(context, found, comparison)
        : retryWhileReplaced(() => compareSlowly(context, comparison));
    }),
  );
}

/** Reads what is not at hand. */
async function compareSlowly(context: SearchContext, comparison: Comparison): Promise<boolean> {
  const { dn, asked, options } = comparison;
  const { node, row: head } = await requireHead(context, context.store, dn, options.manageDsaIT ?? false);
  const { row, wide } = isWhole(head) ? { row: head } : await rowFor(context, { node, row: head }, comparison);
  if (isComputed(asked.type)) return compareComputed(context, { node, row }, comparison);
  const cells = largeCellsWhere(context.descriptions, row, (type) => asked.type.subtypes.includes(type));
  const large = await readAllLarge(context.store, MASTER_TABLE.name, node.id, row, cells);
  return compareRow(context, { node, row, large, wide }, comparison);
}

/** Of a long entry all but its wide attributes, and of these the value asked for where it has it; else all of it. */
async function rowFor(
  context: SearchContext,
  { node, row: head }: Located,
  { asked, value, options, viewer }: Comparison,
): Promise<Pick<Read, 'row' | 'wide'>> {
  const isLookedInto = wideOf(context, head).some(({ description }) => viewer.looksInto?.has(description.type));
  const { filter } = context.compiler.compile({ type: 'equal', attribute: asked.text, value }, UNRESTRICTED);
  const part = isLookedInto ? undefined : await partForFilter(context, context.store, node.id, head, filter);
  if (part && !specialClass(context, part))
    return { row: part, wide: wideOf(context, head).map(({ description }) => description) };
  leaveLong(options.leaveLong, head);
  const row = await context.store.get(MASTER_TABLE.name, node.id);
  if (!row) throw new StoreError('guard', 'the entry has been deleted meanwhile');
  return { row };
}

/**
 * It looks at the whole row even when an early value is equal: a referral object, told by its `ref`, is never compared
 * itself (RFC 3296 §5.3).
 */
function compareRow(context: SearchContext, read: Read, comparison: Comparison): Maybe<boolean> {
  const { asked, value } = comparison;
  const rule = asked.type.equality;
  const norm = rule?.normalizeAssertion(value);
  const sight = sightOf(read, comparison);
  let present = read.wide?.some((other) => context.schema.matches(asked, other) && maySee(sight, other)) ?? false;
  let equal = false;
  let refers = false;
  let isMemberUrl = false;
  const reader = context.reader.read(presentRow(context, read.row));
  for (let i = 0; i < reader.count; i++) {
    const stored = reader.stored[i]!;
    const { description } = stored;
    refers ||= description.type.oid === REFERRAL;
    isMemberUrl ||= stored.isMemberUrl && maySee(sight, description);
    if (equal || !context.schema.matches(asked, description) || !maySee(sight, description)) continue;
    present = true;
    for (let v = reader.firsts[i]!; v < reader.firsts[i + 1]! && !equal; v++) {
      const large = read.large?.get(reader.qualifier(i, v).toString('latin1'));
      const form = norm && rule!.normalize(large ?? reader.value(v));
      equal = form !== undefined && (rule!.test ? rule!.test(form, norm!) : form.equals(norm!));
    }
  }
  if (refers && !comparison.options.manageDsaIT) refuseReferral(context, read, comparison.dn);
  refuse(asked, sight, norm !== undefined);
  if (!equal && isMemberUrl && asked.type === groupTypes(context.schema).member && asked.options.length === 0)
    return context.findsMember(read.row, norm!, comparison.viewer);
  if (!present) throw new LdapError('noSuchAttribute', `the entry has no attribute '${asked.text}'`);
  return equal;
}

/** Attributes that no row holds. */
async function compareComputed(context: SearchContext, found: Located, comparison: Comparison): Promise<boolean> {
  const { asked, value, dn, options } = comparison;
  const { row, node } = found;
  if (!options.manageDsaIT) refuseReferral(context, found, dn);
  refuse(asked, sightOf(found, comparison), asked.type.equality?.normalizeAssertion(value) !== undefined);
  if (isMembership(asked.type)) return compareMembership(context, node, comparison);
  const { filter } = context.compiler.compile({ type: 'equal', attribute: asked.text, value }, UNRESTRICTED);
  const numSubordinates = await countVisible(context, context.store, comparison.viewer, { id: node.id, row });
  const candidate = { row, dn: node.dn, hasSubordinates: numSubordinates > 0, numSubordinates };
  return evaluate(filter, { ...candidate, sight: undefined, large: undefined }) === TRUE;
}

async function compareMembership(
  context: SearchContext,
  { id }: Node,
  { asked, value, dn, viewer, options }: Comparison,
): Promise<boolean> {
  const groups = await context.membershipsOf({ id, dn }, viewer, 'compare', options.ownGroups);
  if (groups.size === 0) throw new LdapError('noSuchAttribute', `the entry has no attribute '${asked.text}'`);
  return groups.has(asked.type.equality!.normalizeAssertion(value)!.toString('latin1'));
}

/** Throws `noSuchObject` where the entry may not be seen. */
function sightOf({ node, row }: Located, { viewer }: Comparison): Sight | undefined {
  const sight = viewer.sightOf?.({ id: node.id, parent: node.parent ?? ROOT, row });
  if (viewer.sightOf && !sight) throw new HiddenEntry(node);
  return sight;
}

function maySee(sight: Sight | undefined, description: AttributeDescription): boolean {
  return (
    !isHidden(description.type) && (sight === undefined || sight.all('compare') || sight.allows('compare', description))
  );
}

/** Throws what is wrong with the comparison itself. */
function refuse(asked: AttributeDescription, sight: Sight | undefined, isOfSyntax: boolean): void {
  const { text, type } = asked;
  if (!maySee(sight, asked))
    throw new LdapError('insufficientAccessRights', `this needs the right 'compare' on attribute '${text}'`);
  if (!type.equality) throw new LdapError('inappropriateMatching', `attribute '${text}' has no equality rule`);
  if (!isOfSyntax) throw new LdapError('invalidAttributeSyntax', `the value is not of the syntax of '${text}'`);
}
