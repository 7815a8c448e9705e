import { isAtOrBelow } from '../../access/requester.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter, Scope } from '../../ldap/ldap-types.js';
import { UNRESTRICTED, type Viewer } from '../../partition/model/viewer.js';
import type { CompareRequest, Request, SearchRequest } from '../../protocol/ldap-messages.js';
import type { Dn } from '../../schema/schema-types.js';
import type { ReplyEntry } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import { viewerOf } from '../request/access.js';
import type { Context, SearchReply } from '../request/context.js';
import type { VirtualEntry, VirtualTree } from '../virtual/virtual-entries.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';

/** The filter that every entry matches (RFC 4526). */
const ABSOLUTE_TRUE: Filter = { type: 'and', filters: [] };

/** A search of a virtual tree. */
export interface VirtualSearch {
  readonly request: SearchRequest;
  readonly base: Dn;
  readonly selection: Selection;
  /** Most entries to send; 0: no limit. */
  readonly sizeLimit: number;
}

/** Whether the store is not needed: the request is a search of computed entries, and the client's rights are known. */
export function needsNoStore({ services, session }: Context, request: Request): boolean {
  if (request.op !== 'search') return false;
  const tree = services.virtual.find(services.schema.parseDn(request.base), request.scope);
  const hasRights = session.isAdmin || session.rights?.identity === session.identity;
  return tree !== undefined && (tree.readers === 'anybody' || hasRights);
}

/** Searches root DSE, cn=Subschema or cn=Monitor. The computed rows are filtered and encoded like stored rows. */
export async function searchVirtual(
  context: Context,
  tree: VirtualTree,
  { request, base, selection, sizeLimit }: VirtualSearch,
  reply: SearchReply,
): Promise<Outcome> {
  const viewer = viewerOfTree(context, tree);
  const entries = await tree.entries(base);
  await requireVisible(context, entries, base, viewer);
  let sentCount = 0;
  const send = async (entry: VirtualEntry): Promise<void> => {
    if (context.aborted) throw new LdapError('canceled', 'canceled');
    if (!isInScope(entry.dn, base, request.scope)) return;
    const match = findMatch(context, entry, await entry.row(), request.filter, viewer);
    if (!match) return;
    if (sizeLimit > 0 && ++sentCount > sizeLimit)
      throw new LdapError('sizeLimitExceeded', `more than ${sizeLimit} entries match`);
    await reply.entry(match, selection, request.typesOnly);
  };
  for (const entry of entries) await send(entry);
  const isAboveMany = request.scope !== 'base' && base.norm.equals(tree.top.norm);
  if (isAboveMany && tree.below) for await (const entry of tree.below(request.filter)) await send(entry);
  return SUCCESS;
}

/** Whether the computed entry `dn` has the value. */
export async function compareVirtual(
  context: Context,
  tree: VirtualTree,
  dn: Dn,
  { attribute, value }: CompareRequest,
): Promise<boolean> {
  const viewer = viewerOfTree(context, tree);
  const { node, row } = await requireVisible(context, await tree.entries(dn), dn, viewer);
  return context.services.partition.compareVirtual({ node, row: await row() }, attribute, value, viewer);
}

/** Throws `unwillingToPerform` if `dn` is a computed entry or below one: clients cannot change those. */
export function refuseVirtual({ services: { virtual } }: Context, dn: Dn): void {
  const tree = virtual.find(dn, 'base');
  if (!tree) return;
  const subject = dn.rdns.length === 0 ? 'the root DSE' : `'${tree.top.text}'`;
  throw new LdapError('unwillingToPerform', `${subject} is made by the server, and cannot be changed`);
}

function viewerOfTree(context: Context, { readers, top }: VirtualTree): Viewer {
  if (readers === 'anybody') return UNRESTRICTED;
  const viewer = viewerOf(context);
  // Whoever may not see all there is must not learn it from the changes.
  if (readers === 'all-seeing' && viewer.sightOf) throw new LdapError('noSuchObject', `no such entry: ${top.text}`);
  return viewer;
}

/** Returns the entry `dn`. Throws `noSuchObject`, with the nearest superior that the viewer sees, if it is unseen. */
async function requireVisible(
  context: Context,
  entries: readonly VirtualEntry[],
  dn: Dn,
  viewer: Viewer,
): Promise<VirtualEntry> {
  let matchedDN = '';
  for (const entry of entries) {
    if (!isAtOrBelow(dn, entry.dn)) continue;
    if (viewer.sightOf && !findMatch(context, entry, await entry.row(), ABSOLUTE_TRUE, viewer)) continue;
    if (entry.dn.norm.equals(dn.norm)) return entry;
    matchedDN = entry.dn.text;
  }
  throw new LdapError('noSuchObject', `no such entry: ${dn.text}`, { matchedDN });
}

function findMatch(
  { services }: Context,
  { dn, node: { id, normRdn, parent } }: VirtualEntry,
  row: Buffer,
  filter: Filter,
  viewer: Viewer,
): ReplyEntry | undefined {
  return services.partition.findVirtual({ id, row, dn: Buffer.from(dn.text), normRdn, parent }, filter, viewer);
}

/** Whether the scope of a search with this base includes the name. */
export function isInScope(dn: Dn, base: Dn, scope: Scope): boolean {
  const depth = dn.rdns.length - base.rdns.length;
  if (scope === 'base' ? depth !== 0 : scope === 'one' ? depth !== 1 : scope === 'subordinate' && depth === 0)
    return false;
  return isAtOrBelow(dn, base);
}
