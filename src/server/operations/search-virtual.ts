import { LdapError } from '../../ldap/ldap-error.js';
import type { Virtual } from '../../partition/index.js';
import { UNRESTRICTED, type Viewer } from '../../partition/model/viewer.js';
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
  return chain(virtual.row(), (row) =>
    searchRow(context, request, viewer, { id: NO_ID, row, dn: virtual.dn, normRdn: virtual.norm }, selection, reply),
  );
}

function searchRow(
  context: Context,
  request: SearchRequest,
  viewer: Viewer,
  virtual: Virtual,
  selection: Selection,
  reply: SearchReply,
): Maybe<Outcome> {
  const entry = context.services.partition.findVirtual(virtual, request.filter, viewer);
  if (!entry) return SUCCESS;
  if (context.aborted) throw new LdapError('canceled', 'canceled');
  return chain(reply.entry(entry, selection, request.typesOnly), () => SUCCESS);
}

const NO_ID = Buffer.alloc(16);
