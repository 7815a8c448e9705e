import { LdapError } from '../../ldap/ldap-error.js';
import { UNRESTRICTED } from '../../partition/model/viewer.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import type { Selection } from '../entry/selection.js';
import { viewerOf } from '../request/access.js';
import type { Context, SearchReply } from '../request/context.js';
import type { VirtualEntry } from '../virtual/virtual-entries.js';
import { chain, type Maybe } from '../words/maybe.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';

/** Searches root DSE, cn=Subschema or cn=Monitor. The computed rows are filtered and encoded like stored rows. */
export function searchVirtual(
  context: Context,
  request: SearchRequest,
  virtual: VirtualEntry,
  selection: Selection,
  reply: SearchReply,
): Maybe<Outcome> {
  const viewer = virtual.readers === 'anybody' ? UNRESTRICTED : viewerOf(context);
  if (request.scope === 'one' || request.scope === 'subordinate') return SUCCESS;
  return chain(virtual.row(), (row) => {
    const virtualRow = { id: NO_ENTRY_ID, row, dn: virtual.dn, normRdn: virtual.normDn };
    const entry = context.services.partition.findVirtual(virtualRow, request.filter, viewer);
    if (!entry) return SUCCESS;
    if (context.aborted) throw new LdapError('canceled', 'canceled');
    return chain(reply.entry(entry, selection, request.typesOnly), () => SUCCESS);
  });
}

const NO_ENTRY_ID = Buffer.alloc(16);
