import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { ChangeGroup, Waiter } from '../../partition/feed/change-feed.js';
import type { ChangePosition, NumberedChange } from '../../partition/feed/change-reader.js';
import type { Maybe } from '../../partition/index.js';
import { cutNorm } from '../../partition/model/tables.js';
import type { StoredEntry } from '../../partition/partition.js';
import { requireTime, type SearchParams, sizeLimitError } from '../../partition/read/search-params.js';
import type { Hit } from '../../partition/read/sink.js';
import { writeBytes } from '../../protocol/asn1.js';
import { ChangeType, encodeEntryChange } from '../../protocol/controls/persistent-search.js';
import { encodeControls } from '../../protocol/encode.js';
import type { Control, SearchRequest } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import { ancestorOf } from '../../schema/dn.js';
import type { Dn } from '../../schema/schema-types.js';
import type { ReplyEntry } from '../entry/computed.js';
import { viewerOf } from '../request/access.js';
import type { Context, SearchReply } from '../request/context.js';
import { sessionRights } from '../request/rights.js';
import { isBindValid, outdatedBind } from '../request/validity.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';
import type { SessionRights } from '../words/session.js';
import { isInScope, searchParams } from './search.js';

const EMPTY = Buffer.alloc(0);
/** The names that a change is about, parsed once for all searches of the process. */
const namesByChange = new WeakMap<NumberedChange, readonly Dn[]>();
export const UNLIMITED = { sizeLimit: 0, deadline: Number.POSITIVE_INFINITY, lookLimit: Number.POSITIVE_INFINITY };

/** A search that tells of changes, while it runs or since an earlier one. Aliases and referral objects are entries. */
export class FollowedSearch {
  readonly context: Context;
  readonly request: SearchRequest;
  readonly reply: SearchReply;
  /** Parameters by the rights at the last `proceed`. */
  params: SearchParams;
  /** Number of the last change that `follow` has yielded. */
  #number: bigint | undefined;
  /** The user; of an anonymous client, its network. */
  readonly #identity: string;
  readonly slice: TimeSlice;
  #rights: SessionRights | undefined;
  /** The limits for changed entries. They hold until the refresh has ended. */
  limits: Pick<SearchParams, 'sizeLimit' | 'deadline' | 'lookLimit'> = UNLIMITED;
  #foundCount = 0;

  /** `isFollowing`: the search does not end with what there is now. */
  constructor(context: Context, request: SearchRequest, reply: SearchReply, isFollowing: boolean) {
    const base = context.services.schema.parseDn(request.base);
    const isVirtual = context.services.virtual.find(base, request.scope) !== undefined;
    if (!reply.intermediate || isVirtual) {
      const problem = isVirtual ? 'computed entries have no change records' : 'no changes are told to a long request';
      throw new LdapError('unwillingToPerform', problem);
    }
    context.isFollowing = isFollowing;
    this.context = context;
    this.request = request;
    this.reply = reply;
    this.params = this.#currentParams();
    this.#rights = context.session.rights;
    this.#identity = context.client?.identity?.() ?? context.session.key;
    this.slice = new TimeSlice(context.client);
    if (isFollowing) this.#requireRoom();
  }

  /** Returns the number of searches of the user that wait for changes. Throws if another one would be too many. */
  #requireRoom(): number {
    const { followedSearches, config } = this.context.services;
    const count = followedSearches.get(this.#identity) ?? 0;
    if (count < config.limits.followedSearches) return count;
    const problem = `${count} searches of this user wait for changes; no more are allowed (limits.followedSearches)`;
    throw new LdapError('adminLimitExceeded', problem);
  }

  /** Whether the search could find the changed entry before the change or after it. */
  #concerns(change: NumberedChange): boolean {
    const { schema } = this.context.services;
    const { dn, newDn = dn } = change;
    const names = namesByChange.get(change) ?? [dn, newDn].map((name) => schema.parseDnBytes(name));
    namesByChange.set(change, names);
    return names.some((name) => this.includesName(name));
  }

  #currentParams(): SearchParams {
    const { context, request } = this;
    const { schema, selections } = context.services;
    const selection = selections.forAttributes(request.attributes);
    const base = schema.parseDn(request.base);
    const params = searchParams(context, request, base, selection, viewerOf(context), undefined);
    return { ...params, deref: 'never', manageDsaIT: true, refuseLong: false, otherThreads: undefined };
  }

  /** Whether the search could find an entry of this name. */
  includesName(dn: Dn): boolean {
    return isInScope(dn, this.params.base, this.request.scope);
  }

  /** Calls `onHit` for all entries that the search finds now. */
  async searchAll(onHit: (hit: Hit) => Maybe<void>, params = this.params): Promise<void> {
    await this.context.services.partition.search(params, { entry: onHit, reference: () => undefined });
  }

  /** Throws `noSuchObject` if the client may not see the base. To whoever sees all, its deletion is a change. */
  async requireVisibleBase(): Promise<void> {
    const { params } = this;
    if (params.viewer.sightOf) await this.searchAll(() => undefined, { ...params, ...UNLIMITED, scope: 'base' });
  }

  /** Sends the entry `id` as it is now if the search finds it. Resolves with whether it does. */
  async sendIfFound(id: Buffer, control: Control | undefined): Promise<boolean> {
    const { partition } = this.context.services;
    const stored = await this.readStored(id);
    if (!stored || !this.includesName(stored.name)) return false;
    const found = partition.findStored(stored, this.params.filter, this.params.viewer);
    if (found !== 'unknown') {
      if (found) await this.#sendFound(found, control);
      return found !== undefined;
    }
    let isFound = false;
    const entry = (hit: Hit): Maybe<void> => {
      isFound = hit.id.equals(id);
      return isFound ? this.#sendFound(hit, control) : undefined;
    };
    const params = { ...this.params, ...UNLIMITED, onCut: undefined, base: stored.name, scope: 'base' } as const;
    await this.searchIfThere(params, entry);
    return isFound;
  }

  #sendFound(entry: ReplyEntry, control: Control | undefined): Maybe<void> {
    const { sizeLimit } = this.limits;
    if (sizeLimit > 0 && ++this.#foundCount > sizeLimit) throw sizeLimitError();
    return this.send(entry, control);
  }

  /** Whether the client may see the entry, as it is now, under the name `dn`. Of a long entry no more is known. */
  async seesAt(id: Buffer, dn: Buffer): Promise<boolean> {
    const { partition, schema } = this.context.services;
    const { viewer } = this.params;
    if (!viewer.sightOf) return true;
    const name = schema.parseDnBytes(dn);
    const stored = await this.readStored(id);
    const parent = name.rdns.length > 1 ? await partition.findRow(ancestorOf(name, 1)) : undefined;
    if (!stored?.isComplete || !parent) return false;
    const former = { id, dn, row: stored.row, normRdn: cutNorm(name.rdns[0]!.norm), parent: parent.node };
    return partition.findVirtual(former, { type: 'and', filters: [] }, viewer) !== undefined;
  }

  /** Searches at a base that may be gone by now, or have another name: later changes tell of that. */
  async searchIfThere(params: SearchParams, entry: (hit: Hit) => Maybe<void>): Promise<void> {
    try {
      await this.searchAll(entry, params);
    } catch (error) {
      if (!(error instanceof LdapError) || error.result !== 'noSuchObject') throw error;
    }
  }

  /** Returns an entry that is as new as the changes so far; undefined if it is gone. */
  readStored(id: Buffer): Maybe<StoredEntry | undefined> {
    const { partition } = this.context.services;
    const read = () => partition.readStored(id);
    return this.#number === undefined ? read() : partition.feed.share(id.toString('latin1'), this.#number, read);
  }

  /** Sends a deleted entry as it was, if the search would have found it and the entry was not purged or restored. */
  async sendDeleted({ id, dn }: NumberedChange, control: Control | undefined): Promise<void> {
    const { partition, schema } = this.context.services;
    const { filter, viewer } = this.params;
    if (!this.includesName(schema.parseDnBytes(dn))) return;
    const deleted = await partition.findDeleted(id, dn);
    const found = deleted && partition.findVirtual(deleted, filter, viewer);
    if (found) await this.send(found, control);
  }

  /** Sends an entry with stored attributes only: what is computed changes without a change of the entry. */
  send({ id, row, dn, sight }: ReplyEntry, control: Control | undefined): Maybe<void> {
    const { request, reply, context } = this;
    const controls = control ? writeBytes((writer) => encodeControls(writer, [control])) : EMPTY;
    const extras = { attributes: EMPTY, controls };
    const selection = context.services.selections.forAttributes(request.attributes);
    return reply.entry({ id, row, dn, sight, extras }, selection, request.typesOnly);
  }

  /**
   * Calls `onChanges` for the changes behind a position, as they come, and with the rights that the client has then, if
   * there are any in scope. Calls `onCaughtUp` when there are none for the first time. Then goes on until the operation
   * ends if the search is one that follows.
   */
  async follow(
    start: ChangePosition,
    onChanges: (group: ChangeGroup) => Promise<void>,
    onCaughtUp: (end: ChangePosition) => Maybe<void>,
  ): Promise<void> {
    const { context } = this;
    const { partition, followedSearches } = context.services;
    const waiter: Waiter = { wake: () => undefined };
    if (context.isFollowing) followedSearches.set(this.#identity, this.#requireRoom() + 1);
    const endWait = context.onAbortWhileWaiting(() => waiter.wake());
    let isCaughtUp = false;
    try {
      for await (const { changes, end } of partition.feed.follow(start, waiter)) {
        this.#number = end.number;
        const concerning = changes.filter((change) => this.#concerns(change));
        if (concerning.length > 0 || !isCaughtUp) await this.proceed();
        if (changes.length > 0) await onChanges({ changes: concerning, end });
        else if (!isCaughtUp) {
          await onCaughtUp(end);
          if (!context.isFollowing) return;
          context.onFollowing?.();
          isCaughtUp = true;
        }
        // Nothing wakes a search that has been ended before it waits.
        requireTime({ deadline: this.limits.deadline, signal: context });
      }
    } finally {
      endWait();
      const count = followedSearches.get(this.#identity) ?? 0;
      if (context.isFollowing && count > 1) followedSearches.set(this.#identity, count - 1);
      else if (context.isFollowing) followedSearches.delete(this.#identity);
    }
  }

  /** Called before each entry: gives way to others, then looks at the bind and the rights as they are now. */
  async proceed(): Promise<void> {
    const { context } = this;
    await this.slice.yieldIfOver();
    requireTime({ deadline: this.limits.deadline, signal: context });
    if (!(await isBindValid(context.services, context.session))) throw outdatedBind();
    const rights = await sessionRights(context);
    if (rights === this.#rights) return;
    this.#rights = rights;
    this.params = this.#currentParams();
  }
}

const TYPES = { add: 'add', restore: 'add', modify: 'modify', rename: 'modDN', delete: 'delete' } as const;

/** A search that goes on with entries as they change (draft-ietf-ldapext-psearch-03), until the client ends it. */
export async function persistentSearch(context: Context, request: SearchRequest, reply: SearchReply): Promise<Outcome> {
  const { changeTypes, changesOnly, returnECs } = context.controls.persistentSearch!;
  const search = new FollowedSearch(context, request, reply, true);
  const start = await context.services.partition.feed.latest();
  if (!changesOnly) await search.searchAll((hit) => search.send(hit, undefined));
  const send = async (change: NumberedChange): Promise<void> => {
    const type = ChangeType[TYPES[change.op]];
    if (!(changeTypes & type)) return;
    const previousDn =
      returnECs && change.op === 'rename' && (await search.seesAt(change.id, change.dn)) ? change.dn : undefined;
    const control = returnECs ? entryChange(type, change.number, previousDn) : undefined;
    if (change.op === 'delete') await search.sendDeleted(change, control);
    else await search.sendIfFound(change.id, control);
  };
  await search.follow(
    start,
    async ({ changes }) => {
      for (const change of changes) {
        await search.proceed();
        await send(change);
      }
    },
    () => undefined,
  );
  return SUCCESS;
}

function entryChange(type: number, number: bigint, previousDn: Buffer | undefined): Control {
  const value = encodeEntryChange(type, previousDn, Number(number));
  return { oid: ControlOid.entryChange, critical: false, value };
}
