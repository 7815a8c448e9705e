import { LdapError } from '../../ldap/ldap-error.js';
import type { ChangeGroup } from '../../partition/feed/change-feed.js';
import { type ChangePosition, DISORDER_MS, type NumberedChange } from '../../partition/feed/change-reader.js';
import { type Maybe, UNLIMITED_SEARCH } from '../../partition/index.js';
import { decodeBefore } from '../../partition/model/before-image.js';
import { contextCsn, csnMicros, generalizedTime } from '../../partition/model/csn.js';
import { type Node, parentIdOf, UUID_BYTES } from '../../partition/model/tables.js';
import { IdSet } from '../../partition/read/plan/id-set.js';
import { encodeSyncDone, encodeSyncInfo, encodeSyncState, type SyncState } from '../../protocol/controls/sync.js';
import type { Control, SearchRequest } from '../../protocol/ldap-messages.js';
import { ControlOid, SYNC_INFO } from '../../protocol/oids.js';
import type { Context, SearchReply } from '../request/context.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';
import { FollowedSearch, UNLIMITED } from './followed-search.js';

const EMPTY = Buffer.alloc(0);
/** The most change records that a refresh sorts. */
const MAX_DELTA = 50_000;
const NO_ATTRIBUTES = { includes: () => false };

/** A search that keeps a copy of its entries up to date (RFC 4533). */
export async function syncSearch(context: Context, request: SearchRequest, reply: SearchReply): Promise<Outcome> {
  const { isPersistent, cookie } = context.controls.sync!;
  return new Synchronization(new FollowedSearch(context, request, reply, isPersistent), cookie).run(isPersistent);
}

class Synchronization {
  readonly #search: FollowedSearch;
  readonly #context: Context;
  /** Number of the consumer's configuration, and the greatest entryCSN of its copy: `rid=001,csn=…` in the cookie. */
  readonly #rid: string;
  readonly #csn: string | undefined;
  /** Version of the access rules at the beginning. */
  readonly #accessVersion: number;
  #lastCookie = '';
  /** A further CSN of the cookie of a present phase, with `;`. */
  #coveredCsn = '';
  readonly #changed = new ChangedEntries();

  constructor(search: FollowedSearch, cookie: string) {
    this.#search = search;
    this.#context = search.context;
    this.#rid = /(?:^|,)rid=(\d{1,3})(?:,|$)/.exec(cookie)?.[1] ?? '000';
    // slapd sends CSNs in the order of their replica IDs.
    this.#csn = /(?:^|,)csn=(?:[^,]*;)?([^,;]+)/.exec(cookie)?.[1]?.replace('#fff#', '#000#');
    this.#accessVersion = this.#context.services.partition.accessVersion;
  }

  async run(isPersistent: boolean): Promise<Outcome> {
    const oldestMs = Date.now() - DISORDER_MS;
    const known = await this.#knownPosition();
    const start = known ?? (await this.#context.services.partition.feed.latest());
    if (known) {
      await this.#search.requireVisibleBase();
      this.#search.limits = this.#search.params;
    } else {
      await this.#sendAll();
      // slapd removes absent entries up to a CSN of their replica ID. Changes above this CSN may still appear.
      this.#coveredCsn = `${generalizedTime(oldestMs).slice(0, -1)}.000000Z#000000#000#000000;`;
      if (!isPersistent) return this.#done(start, false);
      await this.#sendInfo('refreshPresent', start);
      this.#coveredCsn = '';
    }
    let isRefresh = known !== undefined;
    let end = start;
    const onChanges = async ({ changes, end }: ChangeGroup): Promise<void> => {
      await this.#requireSameRules();
      for (const change of changes) this.#changed.add(change);
      // The changes of a refresh are sent together, so that a name is free before another entry takes it.
      if (isRefresh) return;
      await this.#sendChanges('modify');
      if (this.#cookie(end) !== this.#lastCookie) await this.#sendInfo('newcookie', end);
    };
    await this.#search.follow(start, onChanges, async (position) => {
      end = position;
      await this.#sendChanges('add');
      if (isRefresh && isPersistent) await this.#sendInfo('refreshDelete', position);
      isRefresh = false;
      this.#search.limits = UNLIMITED;
    });
    return this.#done(end, true);
  }

  /** Sends all entries. If these are whole trees, parents come before their children. */
  async #sendAll(): Promise<void> {
    const { request, params } = this.#search;
    const isTree = request.scope === 'sub' && request.filter.type === 'present';
    const sentIds = new IdSet();
    const postponed: { readonly id: Buffer; readonly depth: number }[] = [];
    await this.#search.searchAll((hit) => {
      const { id, dn, row } = hit;
      if (isTree && !sentIds.has(parentIdOf(row), 0)) {
        const depth = this.#context.services.schema.parseDnBytes(dn).rdns.length;
        if (depth > params.base.rdns.length) return void postponed.push({ id: Buffer.from(id), depth });
      }
      if (isTree) sentIds.add(id, 0);
      return this.#search.send(hit, stateControl('add', id));
    });
    for (const { id } of postponed.sort((a, b) => a.depth - b.depth))
      await this.#search.sendIfFound(id, stateControl('add', id));
  }

  /**
   * Returns the position of the cookie. Undefined if all entries have to be sent: change records do not go back so far,
   * the changes since are too many to be sorted, or the access rules have changed.
   */
  async #knownPosition(): Promise<ChangePosition | undefined> {
    const { services, session } = this.#context;
    if (this.#csn === undefined) return undefined;
    const rules = session.isAdmin ? undefined : await services.partition.accessRules();
    if (rules && rules.time > csnMicros(this.#csn) / 1000) return undefined;
    const position = await services.partition.feed.find(this.#csn);
    const latest = await services.partition.feed.latest();
    const maxDelta = Math.min(MAX_DELTA, this.#search.params.lookLimit);
    return position && latest.number - position.number > maxDelta ? undefined : position;
  }

  #cookie({ csn }: ChangePosition): string {
    return csn === undefined ? `rid=${this.#rid}` : `rid=${this.#rid},csn=${this.#coveredCsn}${contextCsn(csn)}`;
  }

  #done(end: ChangePosition, refreshDeletes: boolean): Outcome {
    const value = encodeSyncDone(this.#cookie(end), refreshDeletes);
    return { ...SUCCESS, controls: [{ oid: ControlOid.syncDone, critical: false, value }] };
  }

  #sendInfo(kind: Parameters<typeof encodeSyncInfo>[0], position: ChangePosition): Maybe<void> {
    this.#lastCookie = this.#cookie(position);
    return this.#search.reply.intermediate!(SYNC_INFO, encodeSyncInfo(kind, this.#lastCookie));
  }

  async #requireSameRules(): Promise<void> {
    const { services, session } = this.#context;
    if (!session.isAdmin && (await services.partition.freshAccessVersion()) !== this.#accessVersion)
      throw new LdapError('syncRefreshRequired', 'the access rules have changed');
  }

  /** Sends what has become of the gathered entries. `state`: that of entries which the client probably has. */
  async #sendChanges(state: SyncState): Promise<void> {
    const entries = await this.#changed.takeInOrder(this.#search);
    const sentIds = new Set(entries.map(({ id }) => idKey(id)));
    for (const { id, dn, lastDn, isNew, isDeleted } of entries) {
      await this.#search.proceed();
      if (isDeleted) await this.#sendDeletion(id, dn);
      else {
        await this.#sendAbove(id, state, lastDn, sentIds);
        await this.#sendChange(id, isNew ? 'add' : state, dn);
      }
    }
    for (const { id, renames } of entries) if (renames.length > 0) await this.#sendBelow(id, state, sentIds);
  }

  /** Sends those above an entry if one was moved after the last change: slapd would not find the entry's place. */
  async #sendAbove(id: Buffer, state: SyncState, lastDn: Buffer, sentIds: Set<string>): Promise<void> {
    const parent = (await this.#search.readStored(id))?.parent;
    if (!parent || lastDn.subarray(-parent.dn.length).equals(parent.dn)) return;
    const above: Buffer[] = [];
    for (let node: Node | undefined = parent; node; node = node.parent)
      if (!sentIds.has(idKey(node.id))) above.unshift(node.id);
    for (const ancestor of above) {
      sentIds.add(idKey(ancestor));
      await this.#search.sendIfFound(ancestor, stateControl(state, ancestor));
    }
  }

  /** Sends the entry as it is now, or its deletion if the search does not find it. */
  async #sendChange(id: Buffer, state: SyncState, oldDn: Buffer): Promise<void> {
    if (!(await this.#search.sendIfFound(id, stateControl(state, id)))) await this.#sendDeletion(id, oldDn);
  }

  #sendDeletion(id: Buffer, oldDn: Buffer): Maybe<void> {
    // Whoever does not see all entries must not learn the name of one that was perhaps never visible.
    const dn = this.#search.params.viewer.sightOf ? EMPTY : oldDn;
    return this.#search.send({ id, row: EMPTY, dn, sight: undefined }, stateControl('delete', id));
  }

  /** Sends the entries below one whose name has changed, because theirs have, too, but those that were sent. */
  async #sendBelow(id: Buffer, state: SyncState, sentIds: Set<string>): Promise<void> {
    const { schema } = this.#context.services;
    const { scope } = this.#search.request;
    const name = (await this.#search.readStored(id))?.name;
    if (!name || scope === 'base' || scope === 'one') return;
    const below: { readonly id: Buffer; readonly depth: number }[] = [];
    const { deadline, lookLimit } = this.#search.limits;
    const limits = { deadline, lookLimit: lookLimit - sentIds.size, selects: NO_ATTRIBUTES, signal: this.#context };
    await this.#search.searchIfThere(
      { ...UNLIMITED_SEARCH, ...limits, base: name, scope: 'subordinate', filter: { type: 'and', filters: [] } },
      (hit) => {
        const key = idKey(hit.id);
        if (!sentIds.has(key)) below.push({ id: Buffer.from(hit.id), depth: schema.parseDnBytes(hit.dn).rdns.length });
        sentIds.add(key);
      },
    );
    for (const entry of below.sort((a, b) => a.depth - b.depth)) {
      await this.#search.proceed();
      await this.#sendChange(entry.id, state, EMPTY);
    }
  }
}

function stateControl(state: SyncState, id: Buffer): Control {
  return { oid: ControlOid.syncState, critical: false, value: encodeSyncState(state, id) };
}

/** An entry that changes have changed, perhaps several times. */
interface ChangedEntry {
  readonly id: Buffer;
  /** DN before the first change, UTF-8. */
  readonly dn: Buffer;
  /** DN after the last change, UTF-8. */
  lastDn: Buffer;
  /** Whether the first change adds or restores the entry. */
  readonly isNew: boolean;
  isDeleted: boolean;
  /** Of each rename: entryUUID of the parent before it and the normalized RDN, as Latin-1, where it changes them. */
  readonly renames: { readonly parent: string | undefined; readonly rdn: string | undefined }[];
}

/** Gathers the entries that changes have changed, each once. */
class ChangedEntries {
  readonly #entriesById = new Map<string, ChangedEntry>();

  add({ id, dn, newDn, op, beforeImage }: NumberedChange): void {
    const key = idKey(id);
    const isNew = op === 'add' || op === 'restore';
    const lastDn = Buffer.from(newDn ?? dn);
    const first = { id: Buffer.from(id), dn: Buffer.from(dn), lastDn, isNew, isDeleted: false, renames: [] };
    const entry: ChangedEntry = this.#entriesById.get(key) ?? first;
    entry.lastDn = lastDn;
    if (op === 'rename' && beforeImage) {
      const { info } = decodeBefore(beforeImage);
      entry.renames.push({
        parent: info.get('parentId')?.toString('latin1'),
        rdn: info.get('normRdn')?.toString('latin1'),
      });
    }
    entry.isDeleted = op === 'delete';
    this.#entriesById.set(key, entry);
  }

  /**
   * Removes all entries, and returns them in an order in which a consumer can apply their present states: an entry
   * before those below it, and one that gives up a name before one that takes it. Where entries exchange names, one is
   * deleted first.
   */
  async takeInOrder(search: FollowedSearch): Promise<ChangedEntry[]> {
    const { partition } = search.context.services;
    const entries = [...this.#entriesById.values()];
    this.#entriesById.clear();
    const places = new Map<ChangedEntry, string>();
    const present = new Map(entries.filter((entry) => !entry.isDeleted).map((entry) => [idKey(entry.id), entry]));
    const parents = new Map<ChangedEntry, Node | undefined>();
    /** The entries that a consumer may have at a place where they are not any more. */
    const leavers = new Map<string, ChangedEntry[]>();
    for (const entry of entries) {
      await search.slice.yieldIfOver();
      const { id, isNew, isDeleted, renames } = entry;
      if (!isDeleted) parents.set(entry, (await search.readStored(id))?.parent);
      const place = isNew || isDeleted || renames.length > 0 ? await partition.placeById(id) : undefined;
      if (place === undefined) continue;
      if (!isDeleted) places.set(entry, place);
      for (const former of formerPlaces(entry, place)) {
        const others = leavers.get(former) ?? [];
        others.push(entry);
        leavers.set(former, others);
      }
    }
    const ordered = new Set<ChangedEntry>();
    const begun = new Set<ChangedEntry>();
    /** Each entry waits for the next one. `above`: those above it, the topmost last; `leavers`: of its place. */
    const waiting: { entry: ChangedEntry; above: (ChangedEntry | undefined)[]; leavers: ChangedEntry[] }[] = [];
    const begin = (entry: ChangedEntry | undefined): void => {
      if (!entry || begun.has(entry)) return;
      begun.add(entry);
      const above: (ChangedEntry | undefined)[] = [];
      for (let node = parents.get(entry); node; node = node.parent) above.unshift(present.get(idKey(node.id)));
      waiting.push({ entry, above, leavers: [...(leavers.get(places.get(entry) ?? '') ?? [])].reverse() });
    };
    for (const entry of entries.sort((a, b) => Number(a.isDeleted) - Number(b.isDeleted))) {
      begin(entry);
      for (let last = waiting.at(-1); last; last = waiting.at(-1)) {
        const leaver = last.leavers.at(-1);
        if (last.above.length > 0) begin(last.above.pop());
        else if (leaver && !begun.has(leaver)) begin(leaver);
        else if (leaver) {
          if (!ordered.has(leaver)) ordered.add({ ...leaver, isDeleted: true });
          last.leavers.pop();
        } else ordered.add(waiting.pop()!.entry);
        await search.slice.yieldIfOver();
      }
    }
    return [...ordered];
  }
}

/** Returns the places, as `Partition.placeById` has them, that the entry has had but has not any more. */
function formerPlaces({ renames, isDeleted }: ChangedEntry, place: string): Set<string> {
  const places = new Set(isDeleted ? [place] : []);
  let former = place;
  for (const { parent, rdn } of renames.toReversed()) {
    former = (parent ?? former.slice(0, UUID_BYTES)) + (rdn ?? former.slice(UUID_BYTES));
    if (former !== place) places.add(former);
  }
  return places;
}

function idKey(id: Buffer): string {
  return id.toString('latin1');
}
