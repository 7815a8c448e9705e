import { LdapError } from '../../ldap/ldap-error.js';
import type { Viewer } from '../../partition/model/viewer.js';
import type { SearchOutcome, SearchParams } from '../../partition/read/search-params.js';
import type { Hit } from '../../partition/read/sink.js';
import { encodePagedResults } from '../../protocol/controls/paged-results.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Beside, ReplyEntry } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import { requestRights, viewerOf } from '../request/access.js';
import { besideEntries, type Teller } from '../request/beside-entry.js';
import type { Context, SearchReply } from '../request/context.js';
import type { PagePosition } from '../services/page-cookies.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';
import { searchVirtual } from './search-virtual.js';

/** What is looked for, and what of it is given out. */
interface Asked {
  readonly params: SearchParams;
  readonly selection: Selection;
  /** Of a later page. */
  readonly from: PagePosition | undefined;
}

/** RFC 4511 §4.5. */
export function search(context: Context, request: SearchRequest, reply: SearchReply): Maybe<Outcome> {
  const { services, controls } = context;
  const base = services.schema.parseDn(request.base);
  const selection = services.selections.of(request.attributes);
  const virtual = services.virtual.find(base, request.scope);
  if (virtual) return searchVirtual(context, request, virtual, selection, reply);
  const viewer = viewerOf(context);
  const from = controls.paged && startOfPage(context, request, base);
  if (controls.paged?.size === 0) return endOfPages();
  const params = paramsOf(context, request, base, selection, viewer, from);
  const asked = { params, selection, from };
  return chain(besideEntries(context, request, selection), (teller) => run(context, request, asked, reply, teller));
}

function run(
  context: Context,
  request: SearchRequest,
  { params, selection, from }: Asked,
  reply: SearchReply,
  teller: Teller | undefined,
): Maybe<Outcome> {
  const { typesOnly } = request;
  const found = context.services.partition.search(params, {
    entry: teller
      ? (hit) => chain(teller(hit), (beside) => reply.entry(withBeside(hit, beside), selection, typesOnly))
      : (hit) => reply.entry(hit, selection, typesOnly),
    reference: (urls) => reply.reference(urls),
  });
  if (isPromise(found)) return found.then((outcome) => finish(context, request, params, from, outcome));
  return finish(context, request, params, from, found);
}

function withBeside(hit: Hit, beside: Beside | undefined): ReplyEntry {
  if (!beside) return hit;
  const { id, row, dn, sight } = hit;
  return {
    id,
    row,
    dn,
    sight,
    beside,
    numSubordinates: () => hit.numSubordinates(),
    memberOf: () => hit.memberOf(),
    withMembers: (most) => hit.withMembers(most),
  };
}

function startOfPage(context: Context, request: SearchRequest, base: Dn): PagePosition | undefined {
  const { services, session, controls } = context;
  const cookie = controls.paged!.cookie;
  return cookie.length === 0 ? undefined : services.pages.open(cookie, request, base, session.key);
}

/** The smaller of two limits of which 0 means none. */
function smaller(a: number, b: number): number {
  return a === 0 ? b : b === 0 ? a : Math.min(a, b);
}

/** The settings', and where the access rules have others for who asks, theirs. */
function limitsOf(context: Context) {
  const { admin, search: others } = context.services.config.limits;
  if (context.session.isAdmin) return { ...admin, pageSize: admin.sizeLimit };
  const given = requestRights(context)?.limits ?? {};
  const { sizeLimit = others.sizeLimit, lookLimit = others.lookLimit, pageSize = sizeLimit } = given;
  return { sizeLimit, pageSize, lookLimit, timeLimitSeconds: given.timeLimit ?? others.timeLimitSeconds };
}

/** The server's limit counts in each page, the client's in all of them together. */
function paramsOf(
  context: Context,
  request: SearchRequest,
  base: Dn,
  selection: Selection,
  viewer: Viewer,
  from: PagePosition | undefined,
): SearchParams {
  const { services, controls } = context;
  const limits = limitsOf(context);
  const seconds = smaller(request.timeLimit, limits.timeLimitSeconds);
  const left = request.sizeLimit === 0 ? 0 : request.sizeLimit - (from?.sent ?? 0);
  if (left < 0 || (left === 0 && request.sizeLimit > 0)) {
    throw new LdapError('sizeLimitExceeded', `the search asked for ${request.sizeLimit} entries at most`);
  }
  const pageSize = controls.paged && smaller(controls.paged.size, limits.pageSize);
  return {
    base,
    scope: request.scope,
    deref: services.config.aliases.dereference ? request.deref : 'never',
    filter: request.filter,
    ownGroups: !services.config.groups.nested,
    viewer,
    selects: selection.reads,
    manageDsaIT: controls.manageDsaIT,
    leaveLong: services.long !== undefined,
    leaveMany: controls.paged ? undefined : services.long,
    sizeLimit: pageSize === undefined ? smaller(left, limits.sizeLimit) : left,
    deadline: seconds === 0 ? Number.POSITIVE_INFINITY : performance.now() + seconds * 1000,
    lookLimit: limits.lookLimit === 0 ? Number.POSITIVE_INFINITY : limits.lookLimit,
    signal: context,
    asker: context.asker,
    resume: from?.resume,
    pageSize,
  };
}

function finish(
  context: Context,
  request: SearchRequest,
  params: SearchParams,
  from: PagePosition | undefined,
  found: SearchOutcome,
): Outcome {
  const { services, session, controls } = context;
  const { base, scope, filter } = request;
  const { dn: boundAs, connection } = session;
  services.slowSearches.consider({ base, scope, filter, boundAs, connection }, found);
  if (!controls.paged) return SUCCESS;
  const sent = (from?.sent ?? 0) + found.entries;
  const cookie = found.resume
    ? services.pages.seal({ resume: found.resume, sent }, request, params.base, session.key)
    : Buffer.alloc(0);
  return paged(cookie);
}

/** A size of 0: the client wants no more entries (RFC 2696 §3). No estimate is made: 0 says so. */
function endOfPages(): Outcome {
  return paged(Buffer.alloc(0));
}

function paged(cookie: Buffer): Outcome {
  const value = encodePagedResults({ size: 0, cookie });
  return { ...SUCCESS, controls: [{ oid: ControlOid.pagedResults, critical: false, value }] };
}
