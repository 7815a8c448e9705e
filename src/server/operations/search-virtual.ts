import { LdapError } from '../../ldap/error.js';
import type { SearchRequest } from '../../protocol/messages.js';
import { requireBound, VIEW } from '../access.js';
import type { Context, SearchReply } from '../context.js';
import type { Selection } from '../entry/selection.js';
import { chain, type Maybe } from '../maybe.js';
import { type Outcome, SUCCESS } from '../outcome.js';
import type { VirtualEntry } from '../virtual/virtual-entries.js';

/** Root DSE, cn=Subschema and cn=Monitor: no store row holds them, but their rows take the same way out. */
export function searchVirtual(
  context: Context,
  request: SearchRequest,
  virtual: VirtualEntry,
  selection: Selection,
  reply: SearchReply,
): Maybe<Outcome> {
  const { session } = context;
  if (virtual.readers === 'bound') requireBound(session, `read ${virtual.name}`);
  if (request.scope === 'one' || request.scope === 'subordinate') return SUCCESS;
  return chain(virtual.row(), (row) => searchRow(context, request, { row, dn: virtual.dn }, selection, reply));
}

function searchRow(
  context: Context,
  request: SearchRequest,
  { row, dn }: { readonly row: Buffer; readonly dn: Buffer },
  selection: Selection,
  reply: SearchReply,
): Maybe<Outcome> {
  const { services } = context;
  if (services.partition.matchesFilter(row, request.filter, VIEW) !== true) return SUCCESS;
  if (context.aborted) throw new LdapError('canceled', 'canceled');
  const entry = { id: NO_ID, row, dn };
  return chain(reply.entry(entry, selection, request.typesOnly), () => SUCCESS);
}

const NO_ID = Buffer.alloc(16);
