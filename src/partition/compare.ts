import { LdapError } from '../ldap/error.js';
import type { Schema } from '../schema/schema.js';
import type { AttributeDescription, Dn } from '../schema/types.js';
import { StoreError } from '../store/errors.js';
import { isPromise } from '../store/maybe.js';
import { findCell } from '../store/row.js';
import { type CompiledFilter, evaluate, TRUE, UNDEFINED } from './filter.js';
import { largeCellsOf, readAllLarge, untilStill } from './large.js';
import { type Located, refuseReferral, requireHead, specialClass } from './locate.js';
import { leaveLong } from './long-work.js';
import { type Node, nodeTreeKey } from './nodes.js';
import { matchingDescriptions } from './read.js';
import type { SearchContext } from './search.js';
import { cutNorm, MASTER_TABLE, normQualifier, oidBytes, TREE, TREE_TABLE } from './tables.js';
import type { View, WriteOptions } from './types.js';
import { isWhole } from './wide.js';
import { normRanges, partForFilter, wideOf } from './wide-read.js';

/** Whether the entry has the value, by the attribute's equality rule (RFC 4511 §4.10). */
export function compare(
  context: SearchContext,
  dn: Dn,
  attribute: string,
  value: Buffer,
  view: View,
  options: WriteOptions = {},
): Promise<boolean> {
  return untilStill(() => compareNow(context, dn, attribute, value, view, options));
}

async function compareNow(
  context: SearchContext,
  dn: Dn,
  attribute: string,
  value: Buffer,
  view: View,
  options: WriteOptions,
): Promise<boolean> {
  const { schema, store, compiler, shared } = context;
  const fresh = shared.fresh();
  if (isPromise(fresh)) await fresh;
  const description = schema.requireDescription(attribute);
  const found = await requireHead(context, store, dn, options.manageDsaIT ?? false);
  const named = isWhole(found.row) ? undefined : await compareNamed(context, found.node, description, value, view);
  if (named !== undefined) return named;
  const { node } = found;
  const { filter, needs } = compiler.compile({ type: 'equal', attribute, value }, view);
  const row = isWhole(found.row) ? found.row : await rowFor(context, found, filter, description, options);
  if (!options.manageDsaIT) refuseReferral(context, { node, row }, dn);
  if (view.hides(description.type))
    throw new LdapError('insufficientAccessRights', `attribute '${attribute}' may not be compared`);
  if (!description.type.equality)
    throw new LdapError('inappropriateMatching', `attribute '${attribute}' has no equality rule`);
  const cells = largeCellsOf(context.descriptions, row, needs.values);
  const large = await readAllLarge(store, MASTER_TABLE.name, node.id, row, cells);
  const result = evaluate(filter, { row, dn: node.dn, hasSubordinates: false, numSubordinates: 0, large });
  if (result === UNDEFINED)
    throw new LdapError('invalidAttributeSyntax', `the value is not of the syntax of '${attribute}'`);
  if (result !== TRUE && !matchingDescriptions(context, row, description)) {
    throw new LdapError('noSuchAttribute', `the entry has no attribute '${attribute}'`);
  }
  return result === TRUE;
}

/** Of an entry whose row is long all but its wide attributes, where none of them is asked for; else all of it. */
async function rowFor(
  context: SearchContext,
  { node, row: head }: Located,
  filter: CompiledFilter,
  { type }: AttributeDescription,
  options: WriteOptions,
): Promise<Buffer> {
  if (!wideOf(context, head).some(({ description }) => type.subtypes.includes(description.type))) {
    const part = partForFilter(context, context.store, node.id, head, filter);
    const found = isPromise(part) ? await part : part;
    if (found && !specialClass(context, found)) return found;
  }
  leaveLong(options.leaveLong, head);
  const read = context.store.get(MASTER_TABLE.name, node.id);
  const row = isPromise(read) ? await read : read;
  if (!row) throw new StoreError('guard', 'the entry has been deleted meanwhile');
  return row;
}

/**
 * Compares with an entry whose row is long by its tree row alone, which has a cell for each normal form. Undefined when
 * that does not decide, or the answer is an error or a referral.
 */
async function compareNamed(
  { schema, store }: SearchContext,
  node: Node,
  { type, options }: AttributeDescription,
  value: Buffer,
  view: View,
): Promise<boolean | undefined> {
  const rule = type.equality;
  const norm = rule?.normalizeAssertion(value);
  if (options.length > 0 || !rule || rule.test || !norm) return undefined;
  if (type.subtypes.some((t) => t.secret || view.hides(t) || t.equality !== rule)) return undefined;
  const equal = type.subtypes.map(({ oid }) => normQualifier(oidBytes(oid), cutNorm(norm)));
  const present = type.subtypes.map(({ oid }) => oidBytes(oid));
  const referral = classQualifier(schema, 'referral');
  const ranges = normRanges([...equal, ...present, referral]);
  const read = store.getColumns(TREE_TABLE.name, nodeTreeKey(node), ranges);
  const cells = isPromise(read) ? await read : read;
  const has = (qualifier: Buffer) => cells !== undefined && findCell(cells, TREE.normAttributes, qualifier) >= 0;
  if (has(referral)) return undefined;
  return equal.some(has) || (present.some(has) ? false : undefined);
}

/** The tree row's cell of an object class. */
function classQualifier(schema: Schema, name: string): Buffer {
  const type = schema.requireDescription('objectClass').type;
  return normQualifier(oidBytes(type.oid), type.equality!.normalize(Buffer.from(name))!);
}
