import { LdapError } from '../../ldap/ldap-error.js';
import { chain, type Maybe } from '../../partition/index.js';
import type { ValueFilter } from '../../partition/read/matched-values.js';
import { requireTime, sizeLimitError } from '../../partition/read/search-params.js';
import { decodePagedResults } from '../../protocol/controls/paged-results.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import type { ReplyEntry } from '../entry/computed.js';
import { viewerOf } from '../request/access.js';
import type { Context, SearchReply } from '../request/context.js';
import type { Outcome } from '../words/outcome.js';
import { isInScope, search, searchParams } from './search.js';

/** Returns a reply that keeps to the controls matched values and domain scope. */
export function viewedReply({ controls, services }: Context, reply: SearchReply): SearchReply {
  const { matchedValues, domainScope } = controls;
  if (!matchedValues && !domainScope) return reply;
  const filter = matchedValues && services.partition.valueFilter(matchedValues);
  return {
    entry: (entry, selection, typesOnly) =>
      reply.entry(filter && !typesOnly ? filteredEntry(entry, filter) : entry, selection, typesOnly),
    reference: (urls) => (domainScope ? undefined : reply.reference(urls)),
    get intermediate() {
      return reply.intermediate;
    },
  };
}

/** Returns the entry with the stored values, groups and members of dynamic groups that match. */
function filteredEntry(entry: ReplyEntry, filter: ValueFilter): ReplyEntry {
  const { id, dn, sight, extras } = entry;
  const withMembers: ReplyEntry['withMembers'] =
    entry.withMembers &&
    ((limit) => chain(entry.withMembers!(limit), ({ row, hasMore }) => ({ row: filter.row(row), hasMore })));
  return {
    ...{ id, dn, sight, extras, withMembers, row: filter.row(entry.row) },
    memberOf: () => chain(entry.memberOf?.() ?? [], (dns) => filter.groups(dns)),
    ...(entry.numSubordinates && { numSubordinates: () => entry.numSubordinates!() }),
  };
}

/**
 * A search with the control show deleted: deleted entries follow the others, those of a paged search in the last page.
 * Whoever does not see all entries is shown none, or is refused if the control is critical.
 */
export function searchDeleted(context: Context, request: SearchRequest, reply: SearchReply): Maybe<Outcome> {
  if (viewerOf(context).sightOf) {
    if (!context.controls.showDeleted!.isCritical) return search(context, request, reply);
    throw new LdapError('insufficientAccessRights', 'deleted entries are shown to those who see all entries');
  }
  let sentCount = 0;
  const send: SearchReply['entry'] = (...entry) => {
    sentCount++;
    return reply.entry(...entry);
  };
  const found = search(context, request, { entry: send, reference: (urls) => reply.reference(urls) });
  return chain(found, async (outcome) => {
    const page = outcome.controls?.find(({ oid }) => oid === ControlOid.pagedResults);
    if (page && decodePagedResults(page.value).cookie.length > 0) return outcome;
    await sendDeleted(context, request, send, () => sentCount);
    return outcome;
  });
}

async function sendDeleted(
  context: Context,
  request: SearchRequest,
  send: SearchReply['entry'],
  sentCount: () => number,
): Promise<void> {
  const { partition, schema, selections } = context.services;
  const base = schema.parseDn(request.base);
  const selection = selections.forAttributes(request.attributes);
  const params = searchParams(context, request, base, selection, viewerOf(context), undefined);
  for await (const { id, dn } of partition.deletedEntries()) {
    requireTime(params);
    if (!isInScope(schema.parseDn(dn), base, request.scope)) continue;
    const deleted = await partition.findDeleted(id, Buffer.from(dn), true);
    const match = deleted && partition.findVirtual(deleted, request.filter, params.viewer);
    if (!match) continue;
    if (params.sizeLimit > 0 && sentCount() >= params.sizeLimit) throw sizeLimitError();
    await send(match, selection, request.typesOnly);
  }
}
