import { isAtOrBelow } from '../../access/requester.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Scope } from '../../ldap/ldap-types.js';
import { UNRESTRICTED } from '../../partition/model/viewer.js';
import type { Request, SearchRequest } from '../../protocol/ldap-messages.js';
import type { Dn } from '../../schema/schema-types.js';
import type { ReplyEntry } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import { viewerOf } from '../request/access.js';
import type { Context, SearchReply } from '../request/context.js';
import type { VirtualEntry, VirtualTree } from '../virtual/virtual-entries.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';

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
export function searchVirtual(
  context: Context,
  tree: VirtualTree,
  { request, base, selection, sizeLimit }: VirtualSearch,
  reply: SearchReply,
): Maybe<Outcome> {
  const viewer = tree.readers === 'anybody' ? UNRESTRICTED : viewerOf(context);
  let sentCount = 0;
  const findMatch = ({ dn, node }: VirtualEntry, row: Buffer): ReplyEntry | undefined => {
    const { normRdn, parent } = node;
    return context.services.partition.findVirtual(
      { id: node.id, row, dn: Buffer.from(dn.text), normRdn, parent },
      request.filter,
      viewer,
    );
  };
  const send = (entry: VirtualEntry): Maybe<void> =>
    chain(entry.row(), (row) => {
      const match = findMatch(entry, row);
      if (!match) return;
      if (sizeLimit > 0 && ++sentCount > sizeLimit)
        throw new LdapError('sizeLimitExceeded', `more than ${sizeLimit} entries match`);
      if (context.aborted) throw new LdapError('canceled', 'canceled');
      return reply.entry(match, selection, request.typesOnly);
    });
  const sendAll = (entries: readonly VirtualEntry[]): Maybe<Outcome> => {
    for (const [i, entry] of entries.entries()) {
      const sent = send(entry);
      if (isPromise(sent)) return sent.then(() => sendAll(entries.slice(i + 1)));
    }
    return SUCCESS;
  };
  return chain(tree.entries(), (entries) => {
    if (!entries.some(({ dn }) => dn.norm.equals(base.norm)))
      throw new LdapError('noSuchObject', `no such entry: ${base.text}`, { matchedDN: tree.top.text });
    return sendAll(entries.filter(({ dn }) => isInScope(dn, base, request.scope)));
  });
}

function isInScope(dn: Dn, base: Dn, scope: Scope): boolean {
  const depth = dn.rdns.length - base.rdns.length;
  if (scope === 'base' ? depth !== 0 : scope === 'one' ? depth !== 1 : scope === 'subordinate' && depth === 0)
    return false;
  return isAtOrBelow(dn, base);
}
