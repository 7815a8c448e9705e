import { LdapError } from '../../ldap/ldap-error.js';
import type { Viewer } from '../../partition/model/viewer.js';
import type { SearchOutcome, SearchParams } from '../../partition/read/search-params.js';
import type { Hit } from '../../partition/read/sink.js';
import { encodePagedResults } from '../../protocol/controls/paged-results.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import type { Dn } from '../../schema/schema-types.js';
import type { EntryExtras, ReplyEntry } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import { requestRights, viewerOf } from '../request/access.js';
import type { Context, SearchReply } from '../request/context.js';
import { type ExtrasReader, extrasReader } from '../request/entry-extras.js';
import { readLockTimes } from '../request/state-attributes.js';
import type { PagePosition } from '../services/page-cookies.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';
import { searchVirtual } from './search-virtual.js';

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
  const { typesOnly } = request;
  const searchOutcome = context.services.partition.search(params, {
    entry: readExtras
      ? (hit) => chain(readExtras(hit), (extras) => reply.entry(withExtras(hit, extras), selection, typesOnly))
      : (hit) => reply.entry(hit, selection, typesOnly),
    reference: (urls) => reply.reference(urls),
  });
  if (isPromise(searchOutcome)) return searchOutcome.then((outcome) => finish(search, outcome));
  return finish(search, searchOutcome);
}

function withExtras(hit: Hit, extras: EntryExtras | undefined): ReplyEntry {
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

function noteCost(context: Context, request: SearchRequest, searchOutcome: SearchOutcome): void {
  const { services, session } = context;
  context.searchReport = searchOutcome;
  services.slowSearches.logIfSlow(request, session, searchOutcome);
  services.searchTally?.count(searchOutcome);
}

/** Ends a paged search at the request of the client: a page size of 0 (RFC 2696 §3). The estimate 0 means unknown. */
function endOfPages(): Outcome {
  return pagedOutcome(Buffer.alloc(0));
}

function pagedOutcome(cookie: Buffer): Outcome {
  const value = encodePagedResults({ size: 0, cookie });
  return { ...SUCCESS, controls: [{ oid: ControlOid.pagedResults, critical: false, value }] };
}
