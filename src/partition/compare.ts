import { LdapError } from '../ldap/error.js';
import type { Dn } from '../schema/types.js';
import { isPromise } from '../store/maybe.js';
import { evaluate, TRUE, UNDEFINED } from './filter.js';
import { readAllLarge } from './large.js';
import { requireEntry } from './locate.js';
import { matchingDescriptions } from './read.js';
import type { SearchContext } from './search.js';
import { MASTER_TABLE } from './tables.js';
import type { View, WriteOptions } from './types.js';

/** Whether the entry has the value, by the attribute's equality rule (RFC 4511 §4.10). */
export async function compare(
  context: SearchContext,
  dn: Dn,
  attribute: string,
  value: Buffer,
  view: View,
  options: WriteOptions = {},
): Promise<boolean> {
  const { schema, store, compiler, shared } = context;
  const fresh = shared.fresh();
  if (isPromise(fresh)) await fresh;
  const description = schema.requireDescription(attribute);
  const { node, row } = await requireEntry(context, store, dn, options.manageDsaIT ?? false);
  if (view.hides(description.type))
    throw new LdapError('insufficientAccessRights', `attribute '${attribute}' may not be compared`);
  if (!description.type.equality)
    throw new LdapError('inappropriateMatching', `attribute '${attribute}' has no equality rule`);
  const { filter, needs } = compiler.compile({ type: 'equal', attribute, value }, view);
  const large = needs.values ? await readAllLarge(store, MASTER_TABLE.name, node.id, row) : undefined;
  const result = evaluate(filter, { row, dn: node.dn, hasSubordinates: false, numSubordinates: 0, large });
  if (result === UNDEFINED)
    throw new LdapError('invalidAttributeSyntax', `the value is not of the syntax of '${attribute}'`);
  if (result !== TRUE && !matchingDescriptions(context, row, description)) {
    throw new LdapError('noSuchAttribute', `the entry has no attribute '${attribute}'`);
  }
  return result === TRUE;
}
