import { isAtOrBelow } from '../../access/requester.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter, Scope } from '../../ldap/ldap-types.js';
import { chain, isPromise, type Maybe } from '../../partition/index.js';
import { UNRESTRICTED, type Viewer } from '../../partition/model/viewer.js';
import type { SearchOutcome, SearchParams } from '../../partition/read/search-params.js';
import type { Hit, SearchSink } from '../../partition/read/sink.js';
import { encodePagedResults } from '../../protocol/controls/paged-results.js';
import type { CompareRequest, Request, SearchRequest } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import type { Dn } from '../../schema/schema-types.js';
import type { EntryExtras, ReplyEntry } from '../entry/computed.js';
import type { Selection } from '../entry/selection.js';
import { requestRights, viewerOf } from '../request/access.js';
import type { Context, SearchReply } from '../request/context.js';
import { type ExtrasReader, extrasReader, readLockTimes } from '../request/state-attributes.js';
import type { PagePosition } from '../services/page-cookies.js';
import type { VirtualEntry, VirtualTree } from '../virtual/virtual-entries.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';

/** A request for a search, prepared for the partition. */
interface PreparedSearch {
  readonly context: Context;
  readonly request: SearchRequest;
  readonly reply: SearchReply;
  readonly params: SearchParams;
  readonly selection: Selection;
  /** Position of a later page; undefined: the first page. */
  readonly pagePosition: PagePosition | undefined;
}

/** Search (RFC 4511 §4.5). */
export function search(context: Context, request: SearchRequest, reply: SearchReply): Maybe<Outcome> {
  const { services, controls } = context;
  const base = services.schema.parseDn(request.base);
  const selection = services.selections.forAttributes(request.attributes);
  const virtualTree = services.virtual.find(base, request.scope);
  if (virtualTree) {
    const sizeLimit = smallerLimit(
      request.sizeLimit,
      virtualTree.readers === 'anybody' ? 0 : searchLimits(context).sizeLimit,
    );
    const outcome = searchVirtual(context, virtualTree, { request, base, selection, sizeLimit }, reply);
    // All entries are one page.
    return controls.paged ? chain(outcome, endOfPages) : outcome;
  }
  const viewer = viewerOf(context);
  const pagePosition = controls.paged && startOfPage(context, request, base);
  if (controls.paged?.size === 0) return endOfPages();
  const params = searchParams(context, request, base, selection, viewer, pagePosition);
  const preparedSearch = { context, request, reply, params, selection, pagePosition };
  return chain(extrasReader(context, request, selection), (readExtras) => runSearch(preparedSearch, readExtras));
}

function runSearch(search: PreparedSearch, readExtras: ExtrasReader | undefined): Maybe<Outcome> {
  const { context, request, reply, params, selection } = search;
  const sink = replySink(request, reply, selection, readExtras);
  const searchOutcome = context.services.partition.search(params, sink);
  if (isPromise(searchOutcome)) return searchOutcome.then((outcome) => finish(search, outcome));
  return finish(search, searchOutcome);
}

/** Returns the sink that sends what a search finds. */
export function replySink(
  { typesOnly }: SearchRequest,
  reply: SearchReply,
  selection: Selection,
  readExtras: ExtrasReader | undefined,
): SearchSink {
  return {
    entry: readExtras
      ? (hit) => chain(readExtras(hit), (extras) => reply.entry(withExtras(hit, extras), selection, typesOnly))
      : (hit) => reply.entry(hit, selection, typesOnly),
    reference: (urls) => reply.reference(urls),
  };
}

export function withExtras(hit: Hit, extras: EntryExtras | undefined): ReplyEntry {
  if (!extras) return hit;
  const { id, row, dn, sight } = hit;
  return {
    id,
    row,
    dn,
    sight,
    extras,
    numSubordinates: () => hit.numSubordinates(),
    memberOf: () => hit.memberOf(),
    withMembers: (max) => hit.withMembers(max),
  };
}

function startOfPage(context: Context, request: SearchRequest, base: Dn): PagePosition | undefined {
  const { services, session, controls } = context;
  const cookie = controls.paged!.cookie;
  return cookie.length === 0 ? undefined : services.pageCookies.open(cookie, request, base, session.key);
}

/** Returns the smaller of two limits; 0 means no limit. */
function smallerLimit(a: number, b: number): number {
  return a === 0 ? b : b === 0 ? a : Math.min(a, b);
}

/** Returns the limits of the settings. Limits that the access rules set for the client take precedence. */
function searchLimits(context: Context) {
  const { admin, search: defaults } = context.services.config.limits;
  if (context.session.isAdmin) return { ...admin, pageSize: admin.sizeLimit };
  const ruleLimits = requestRights(context)?.limits ?? {};
  const { sizeLimit = defaults.sizeLimit, lookLimit = defaults.lookLimit, pageSize = sizeLimit } = ruleLimits;
  return { sizeLimit, pageSize, lookLimit, timeLimitSeconds: ruleLimits.timeLimit ?? defaults.timeLimitSeconds };
}

/** The server's size limit applies to each page, the client's size limit to all pages together. */
export function searchParams(
  context: Context,
  request: SearchRequest,
  base: Dn,
  selection: Selection,
  viewer: Viewer,
  pagePosition: PagePosition | undefined,
): SearchParams {
  const { services, controls } = context;
  const limits = searchLimits(context);
  const timeLimitSeconds = smallerLimit(request.timeLimit, limits.timeLimitSeconds);
  const remainingSize = request.sizeLimit === 0 ? 0 : request.sizeLimit - (pagePosition?.sentCount ?? 0);
  if (remainingSize < 0 || (remainingSize === 0 && request.sizeLimit > 0)) {
    throw new LdapError('sizeLimitExceeded', `the search asked for ${request.sizeLimit} entries at most`);
  }
  const pageSize = controls.paged && smallerLimit(controls.paged.size, limits.pageSize);
  return {
    base,
    scope: request.scope,
    deref: services.config.aliases.dereference ? request.deref : 'never',
    filter: request.filter,
    directGroupsOnly: !services.config.groups.nested,
    viewer,
    selects: selection.readSelection,
    manageDsaIT: controls.manageDsaIT,
    subentries: subentriesOf(context, request),
    refuseLong: services.longWorker !== undefined,
    otherThreads: controls.paged ? undefined : services.longWorker,
    sizeLimit: pageSize === undefined ? smallerLimit(remainingSize, limits.sizeLimit) : remainingSize,
    deadline: timeLimitSeconds === 0 ? Number.POSITIVE_INFINITY : performance.now() + timeLimitSeconds * 1000,
    lookLimit: limits.lookLimit === 0 ? Number.POSITIVE_INFINITY : limits.lookLimit,
    signal: context,
    readLockTimes: (params, candidates) => readLockTimes(context, params, candidates),
    client: context.client,
    resume: pagePosition?.resumeKey,
    pageSize,
    onCut: (searchOutcome) => noteCost(context, request, searchOutcome),
  };
}

/** As in slapd, a base search finds a subentry without the control (RFC 3672 §3). Followers find all entries. */
function subentriesOf({ controls }: Context, { scope }: SearchRequest): SearchParams['subentries'] {
  if (controls.subentries) return 'only';
  return scope === 'base' || controls.sync || controls.persistentSearch ? undefined : 'none';
}

function finish({ context, request, params, pagePosition }: PreparedSearch, searchOutcome: SearchOutcome): Outcome {
  const { services, session, controls } = context;
  noteCost(context, request, searchOutcome);
  if (!controls.paged) return SUCCESS;
  const sentCount = (pagePosition?.sentCount ?? 0) + searchOutcome.entries;
  const cookie = searchOutcome.resume
    ? services.pageCookies.seal({ resumeKey: searchOutcome.resume, sentCount }, request, params.base, session.key)
    : Buffer.alloc(0);
  return pagedOutcome(cookie);
}

export function noteCost(context: Context, request: SearchRequest, searchOutcome: SearchOutcome): void {
  const { services, session } = context;
  context.searchReport = searchOutcome;
  services.slowSearches.logIfSlow(request, session, searchOutcome);
  services.searchTally?.count(searchOutcome);
}

/** Ends a paged search at the request of the client: a page size of 0 (RFC 2696 §3). The estimate 0 means unknown. */
export function endOfPages(): Outcome {
  return pagedOutcome(Buffer.alloc(0));
}

export function pagedOutcome(cookie: Buffer): Outcome {
  const value = encodePagedResults({ size: 0, cookie });
  return { ...SUCCESS, controls: [{ oid: ControlOid.pagedResults, critical: false, value }] };
}

/** The filter that every entry matches (RFC 4526). */
export const ABSOLUTE_TRUE: Filter = { type: 'and', filters: [] };

/** A search of a virtual tree. */
interface VirtualSearch {
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
async function searchVirtual(
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
