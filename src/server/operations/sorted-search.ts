import { createHash, randomBytes } from 'node:crypto';
import { LdapError, ResultCode, type ResultName } from '../../ldap/ldap-error.js';
import type { Maybe } from '../../partition/index.js';
import { resolveKeys, SortOrder } from '../../partition/read/order/sort-order.js';
import { Sorter, type SorterOptions } from '../../partition/read/order/sorter.js';
import { Spill } from '../../partition/read/order/spill.js';
import { IdSet } from '../../partition/read/plan/id-set.js';
import { type SearchOutcome, type SearchParams, sizeLimitError } from '../../partition/read/search-params.js';
import type { Hit, SearchSink } from '../../partition/read/sink.js';
import { encodeSortResponse } from '../../protocol/controls/sort.js';
import { encodeVirtualListResponse, type VirtualListTarget } from '../../protocol/controls/virtual-list.js';
import type { Control, SearchRequest } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import type { Dn } from '../../schema/schema-types.js';
import { viewerOf } from '../request/access.js';
import type { Context, SearchReply } from '../request/context.js';
import { extrasReader } from '../request/state-attributes.js';
import type { OrderedList } from '../services/ordered-lists.js';
import { searchDigest } from '../services/page-cookies.js';
import type { RequestControls } from '../words/controls.js';
import { errorOutcome, type Outcome, outcome, SUCCESS } from '../words/outcome.js';
import { endOfPages, noteCost, pagedOutcome, replySink, search, searchParams } from './search.js';

/** Whether the search is to be sorted. Throws if a critical control cannot be obeyed beside the others. */
export function isSorted(controls: RequestControls): boolean {
  const { sort, virtualList, sync, persistentSearch, asOf, showDeleted } = controls;
  if (!sort && !virtualList) return false;
  if (!sync && !persistentSearch && asOf === undefined && !showDeleted) return true;
  if (!virtualList && !sort?.isCritical) return false;
  const problem = 'a search of changes, of the past, or of deleted entries is not sorted';
  throw new LdapError('unavailableCriticalExtension', problem);
}

/** Search with server-side sorting (RFC 2891): all entries, a page (RFC 2696), or a window (virtual list view). */
export async function sortedSearch(context: Context, request: SearchRequest, reply: SearchReply): Promise<Outcome> {
  const { services, controls } = context;
  const { sort, virtualList, paged } = controls;
  if (!sort) return windowFailure('sortControlMissing', 'a virtual list view needs the sort control');
  if (virtualList && paged) return windowFailure('unwillingToPerform', 'a virtual list view has no pages');
  const base = services.schema.parseDn(request.base);
  const isVirtual = services.virtual.find(base, request.scope) !== undefined;
  const keys = resolveKeys(services.schema, sort.keys);
  if ('result' in keys) return answerUnsorted(context, request, reply, keys.result, keys.attribute);
  if (isVirtual) return answerUnsorted(context, request, reply, 'unwillingToPerform', sort.keys[0]!.attribute);
  const order = new SortOrder(services.schema, services.partition.descriptions, keys);
  return new SortedSearch(context, request, base, order).answer(reply);
}

/** Answers a search that cannot be sorted: a critical control fails it (RFC 2891 §2). */
async function answerUnsorted(
  context: Context,
  request: SearchRequest,
  reply: SearchReply,
  result: ResultName,
  attribute: string,
): Promise<Outcome> {
  const { sort, virtualList } = context.controls;
  const control = sortResponse(result, attribute);
  const problem = `nothing can be sorted by attribute '${attribute.slice(0, 100)}' here, and the rule that is asked for`;
  if (sort!.isCritical) return withControl(outcome('unavailableCriticalExtension', problem), control);
  if (virtualList) return withControl(windowFailure('sortControlMissing', problem), control);
  return withControl(await search(context, request, reply), control);
}

function sortResponse(result: ResultName, attribute?: string): Control {
  const value = encodeSortResponse(ResultCode[result], attribute);
  return { oid: ControlOid.sortResponse, critical: false, value };
}

function withControl(ended: Outcome, control: Control): Outcome {
  return { ...ended, controls: [control, ...(ended.controls ?? [])] };
}

/** The outcome of a search that fails for its virtual list view (draft-ietf-ldapext-ldapv3-vlv-09 §5.2). */
function windowFailure(result: ResultName, problem: string, contentCount = 0): Outcome {
  const code = result === 'sortControlMissing' ? result : 'virtualListViewError';
  const value = encodeVirtualListResponse(0, contentCount, ResultCode[result]);
  return withControl(outcome(code, problem), { oid: ControlOid.virtualListResponse, critical: false, value });
}

/** Errors after which entries have been sent in order. */
const LIMITS: readonly ResultName[] = ['sizeLimitExceeded', 'timeLimitExceeded', 'adminLimitExceeded'];
const ID_BYTES = 16;
const TOKEN_BYTES = 16;
/** Up to this number of entries, a search sends what it finds in the order of an index. It remembers their ids. */
const MAX_WALKED = 10_000;
/** Entries that are read and sent together. */
const SEND_BATCH = 512;

const NO_SINK: SearchSink = { entry: () => undefined, reference: () => undefined };

class SortedSearch {
  readonly #context: Context;
  readonly #request: SearchRequest;
  readonly #base: Dn;
  readonly #order: SortOrder;
  #params!: SearchParams;
  #sink = NO_SINK;
  /** Names the client and the keys in cookies. */
  readonly #client: string;
  /** Entries sent in answer to this request, and in earlier pages. */
  #sentCount = 0;
  #earlierCount = 0;
  /** The steps of the search so far. */
  #cost: SearchOutcome | undefined;

  constructor(context: Context, request: SearchRequest, base: Dn, order: SortOrder) {
    this.#context = context;
    this.#request = request;
    this.#base = base;
    this.#order = order;
    const { manageDsaIT, sort } = context.controls;
    this.#client = JSON.stringify([context.session.key, manageDsaIT, sort!.keys]);
  }

  async answer(reply: SearchReply): Promise<Outcome> {
    const { paged, virtualList } = this.#context.controls;
    const { pageCookies, orderedLists, selections } = this.#context.services;
    const position = paged?.cookie.length
      ? pageCookies.open(paged.cookie, this.#request, this.#base, this.#client)
      : undefined;
    const token = position?.resumeKey.subarray(0, TOKEN_BYTES) ?? randomBytes(TOKEN_BYTES);
    if (paged?.size === 0) {
      orderedLists.drop(token.toString('latin1'));
      return withControl(endOfPages(), sortResponse('success'));
    }
    const selection = selections.forAttributes(this.#request.attributes);
    const viewer = viewerOf(this.#context);
    const params = searchParams(this.#context, this.#request, this.#base, selection, viewer, position);
    const onCut = (step: SearchOutcome) => this.#note(step);
    // A request that moves to another thread would not find its list there.
    this.#params = { ...params, resume: undefined, refuseLong: false, otherThreads: undefined, onCut };
    this.#sink = replySink(
      this.#request,
      reply,
      selection,
      await extrasReader(this.#context, this.#request, selection),
    );
    this.#earlierCount = position?.sentCount ?? 0;
    try {
      const start = position?.resumeKey.readUInt32BE(TOKEN_BYTES);
      const ended = await (virtualList ? this.#sendWindow() : this.#sendEntries(token, start));
      return withControl(ended, sortResponse('success'));
    } catch (error) {
      if (!(error instanceof LdapError) || !LIMITS.includes(error.result)) throw error;
      const result = error.result === 'sizeLimitExceeded' ? 'success' : error.result;
      return withControl(errorOutcome(error), sortResponse(result));
    } finally {
      if (this.#cost) noteCost(this.#context, this.#request, { ...this.#cost, entries: this.#sentCount });
    }
  }

  /** Sends all entries, or a page. `start`: where it begins in the list that the token names; absent: the first. */
  async #sendEntries(token: Buffer, start: number | undefined): Promise<Outcome> {
    const { orderedLists } = this.#context.services;
    const { pageSize } = this.#params;
    const key = token.toString('latin1');
    const { list, isPageFull } =
      start === undefined ? await this.#begin() : { list: orderedLists.find(key), isPageFull: false };
    if (!list)
      throw new LdapError('unwillingToPerform', 'paged results: the order is no longer kept here; search again');
    if (isPageFull) return this.#endPage(token, list, 0);
    let next: number | undefined;
    try {
      next = await orderedLists.read(list, async (ids) => {
        const count = ids.length / ID_BYTES;
        const end = pageSize === undefined ? count : Math.min(count, (start ?? 0) + pageSize - this.#sentCount);
        await this.#send(ids, start ?? 0, end);
        return end < count ? end : undefined;
      });
    } finally {
      if (next === undefined) {
        orderedLists.drop(key);
        orderedLists.discard(list);
      }
    }
    if (next !== undefined) return this.#endPage(token, list, next);
    return pageSize === undefined ? SUCCESS : endOfPages();
  }

  /** Ends a page that is not the last one. `next`: where the next one begins in the list. */
  #endPage(token: Buffer, list: OrderedList, next: number): Outcome {
    const { orderedLists, pageCookies } = this.#context.services;
    orderedLists.keep(token.toString('latin1'), list);
    const resumeKey = Buffer.alloc(TOKEN_BYTES + 4);
    resumeKey.set(token);
    resumeKey.writeUInt32BE(next, TOKEN_BYTES);
    const position = { resumeKey, sentCount: this.#earlierCount + this.#sentCount };
    return pagedOutcome(pageCookies.seal(position, this.#request, this.#base, this.#client));
  }

  /** Sends what an index has in order, until the page is full or too little matches. Returns the list of the rest. */
  async #begin(): Promise<{ readonly list: OrderedList; readonly isPageFull: boolean }> {
    const params = this.#params;
    const { pageSize, sizeLimit } = params;
    const wanted = pageSize ?? (sizeLimit || Number.POSITIVE_INFINITY);
    const isWalk = wanted <= MAX_WALKED;
    const sentIds = new IdSet();
    let lastRecord = '';
    const entry = (hit: Hit): Maybe<void> => {
      lastRecord = this.#order.record(hit.row, hit.sight, hit.id);
      sentIds.add(hit.id, 0);
      this.#sentCount++;
      return this.#sink.entry(hit);
    };
    const walked = isWalk && (await this.#search({ ...params, walk: this.#order }, { ...this.#sink, entry }));
    const limit = pageSize === undefined ? wanted - this.#sentCount + 1 : Number.POSITIVE_INFINITY;
    // An entry that was changed meanwhile may have come to lie behind those that were sent, and a new one before them.
    const leavesOut = (record: string, id: Buffer): boolean => record <= lastRecord || sentIds.has(id, 0);
    const references = isWalk ? NO_SINK : this.#sink;
    const collect = () => this.#collect(limit, leavesOut, references);
    const list = { owner: this.#context.client?.identity?.() ?? this.#context.session.key, collect };
    return { list, isPageFull: walked !== false && walked.resume !== undefined };
  }

  /** Sends the entries `[start, end)` of a list, as far as they still match. */
  async #send(ids: Spill, start: number, end: number): Promise<void> {
    const { sizeLimit } = this.#params;
    for (let i = start; i < end; i += SEND_BATCH) {
      const candidates = await ids.read(i * ID_BYTES, Math.min(end, i + SEND_BATCH) * ID_BYTES);
      if (sizeLimit > 0 && this.#sentCount >= sizeLimit) throw sizeLimitError();
      const remaining = sizeLimit > 0 ? sizeLimit - this.#sentCount : 0;
      const params = { ...this.#params, pageSize: undefined, sizeLimit: remaining, candidates };
      this.#sentCount += (await this.#search(params, this.#sink)).entries;
    }
  }

  /** Sorts all entries that the search finds. */
  async #collect(limit: number, leavesOut: SorterOptions['leavesOut'], { reference }: SearchSink): Promise<Spill> {
    const { client, services } = this.#context;
    const sorter = new Sorter(this.#order, services.orderedLists.room, { limit, leavesOut, client });
    const found = { sizeLimit: 0, pageSize: undefined, order: sorter, selects: this.#order.selection };
    try {
      await this.#search({ ...this.#params, ...found }, { ...NO_SINK, reference });
      return await sorter.finish();
    } finally {
      await sorter.close();
    }
  }

  /** Returns the ids of all entries in order: from indexes, if these tell them. */
  async #collectAll(): Promise<Spill> {
    let told: Buffer | undefined;
    const takeIds = (ids: Buffer): void => {
      told = ids;
    };
    await this.#search({ ...this.#params, walk: this.#order, takeIds }, NO_SINK);
    if (!told) return this.#collect(Number.POSITIVE_INFINITY, () => false, this.#sink);
    const ids = new Spill(this.#context.services.orderedLists.room);
    await ids.append(told);
    return ids;
  }

  async #search(params: SearchParams, sink: SearchSink): Promise<SearchOutcome> {
    const step = await this.#context.services.partition.search(params, sink);
    this.#note(step);
    return step;
  }

  /** Adds the cost of a step. The first one tells how the search was planned. */
  #note(step: SearchOutcome): void {
    const rowsExamined = (this.#cost?.rowsExamined ?? 0) + step.rowsExamined;
    this.#cost = { ...(this.#cost ?? step), rowsExamined };
  }

  /** Sends a window of the list (draft-ietf-ldapext-ldapv3-vlv-09 §5). */
  async #sendWindow(): Promise<Outcome> {
    const request = { ...this.#request, attributes: [] };
    const digest = createHash('sha256').update(searchDigest(request, this.#base)).update(this.#client).digest();
    const contextId = digest.subarray(0, TOKEN_BYTES);
    const list = await this.#windowList(contextId.toString('latin1'));
    return this.#context.services.orderedLists.read(list, (ids) => this.#sendWindowOf(ids, contextId));
  }

  async #sendWindowOf(ids: Spill, contextId: Buffer): Promise<Outcome> {
    const { before, after, target } = this.#context.controls.virtualList!;
    const count = ids.length / ID_BYTES;
    const position = await this.#positionOf(target, ids);
    if (typeof position === 'string') return windowFailure(position, 'the list has no such target', count);
    await this.#send(ids, Math.max(0, position - 1 - before), Math.min(count, position + after));
    const value = encodeVirtualListResponse(position, count, ResultCode.success, contextId);
    return withControl(SUCCESS, { oid: ControlOid.virtualListResponse, critical: false, value });
  }

  /** Returns the list of the window. It is used again while nothing in the directory, nor the rights, have changed. */
  async #windowList(key: string): Promise<OrderedList> {
    const { services, session } = this.#context;
    const state = [(await services.partition.feed.latest()).number, session.rights];
    const kept = services.orderedLists.find(key);
    const isCurrent = kept?.state?.every((item, i) => item === state[i]);
    const list = isCurrent ? kept! : { owner: session.key, state, collect: () => this.#collectAll() };
    services.orderedLists.keep(key, list);
    return list;
  }

  /** Returns the position of the target, from 1; the reason if there is none. */
  async #positionOf(target: VirtualListTarget, ids: Spill): Promise<number | ResultName> {
    if ('value' in target) {
      const bound = this.#order.bound(target.value);
      return bound === undefined ? 'inappropriateMatching' : this.#findBound(bound, ids);
    }
    const count = ids.length / ID_BYTES;
    const { offset, contentCount } = target;
    if (offset === 1) return Math.min(1, count);
    if (offset !== 0 && offset === contentCount) return count;
    const isOtherCount = contentCount !== 0 && contentCount !== count;
    if (offset === 0 || offset > (isOtherCount ? contentCount : count)) return 'offsetRangeError';
    return isOtherCount ? Math.max(1, Math.floor((count * offset) / contentCount)) : offset;
  }

  /** Returns the position of the first entry whose record is not below the bound. Reads a few entries of the list. */
  async #findBound(bound: string, ids: Spill): Promise<number> {
    let low = 0;
    let high = ids.length / ID_BYTES;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const candidates = await ids.read(middle * ID_BYTES, (middle + 1) * ID_BYTES);
      let isBelow = false;
      const entry = ({ row, sight, id }: Hit): void => {
        isBelow = this.#order.record(row, sight, id) < bound;
      };
      const params = { ...this.#params, selects: this.#order.selection, sizeLimit: 0, candidates };
      await this.#search(params, { ...NO_SINK, entry });
      if (isBelow) low = middle + 1;
      else high = middle;
    }
    return low + 1;
  }
}
