import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Dn } from '../../schema/schema-types.js';
import { isPromise } from '../../store/maybe.js';
import { nextCell, packSorted, valueStart } from '../../store/row.js';
import { INDEX_BYTES } from '../model/descriptions.js';
import { attributeValues, valueQualifier } from '../model/entry-cells.js';
import { groupTypes, withoutUid } from '../model/group-rows.js';
import { presentRow } from '../model/present-row.js';
import { MASTER, MASTER_TABLE, PRESENCE_PREFIX, UUID_BYTES } from '../model/tables.js';
import type { Viewer } from '../model/viewer.js';
import { IdSet } from '../read/plan/id-set.js';
import { sortIds } from '../read/plan/sources.js';
import { search } from '../read/run/search.js';
import type { SearchContext } from '../read/run/search-context.js';
import { type AbortConditions, UNLIMITED_SEARCH } from '../read/search-params.js';
import type { MembersRow } from '../read/sink.js';
import { findEntry } from '../tree/locate.js';
import { dynamicGroupIds, type MemberUrl, UrlTest, urlsIn } from './dynamic-groups.js';
import { dnOfNorm, findByNorm } from './names.js';
import { UNLIMITED } from './referrers.js';

/** The most members that are listed to serve as candidates of a search. */
const MAX_MEMBERS = 200_000;

/**
 * Returns the ids, in ascending order, of all entries that may be in the group with this name (`Dn.norm`), by the
 * values of the group and its nested groups. Undefined if the enumeration would be incomplete: there are too many
 * members, one of the groups is dynamic, or an attribute that names members has no index.
 */
export async function membersOf(context: SearchContext, group: Buffer): Promise<Buffer | undefined> {
  const { store, shared, schema } = context;
  const groups = new IdSet();
  for (const type of groupTypes(schema).memberTypes) {
    const index = shared.indexes.ofType(type);
    if (!index?.isReady) return undefined;
    const ids = await store.postings(index.table, PRESENCE_PREFIX, UNLIMITED);
    for (let offset = 0; offset < ids.length; offset += UUID_BYTES) groups.add(ids, offset);
  }
  const dynamic = new IdSet();
  for await (const id of dynamicGroupIds(context)) dynamic.add(id, 0);
  return new MemberSearch(context, groups, dynamic).search(dnOfNorm(group));
}

/** Walks from a group down to its members. */
class MemberSearch {
  readonly #context: SearchContext;
  readonly #groupIds: IdSet;
  readonly #dynamicIds: IdSet;
  readonly #slice = new TimeSlice();
  readonly #visitedIds = new IdSet();
  readonly #ids: Buffer[] = [];

  constructor(context: SearchContext, groups: IdSet, dynamic: IdSet) {
    this.#context = context;
    this.#groupIds = groups;
    this.#dynamicIds = dynamic;
  }

  async search(group: Dn): Promise<Buffer | undefined> {
    const groupId = await this.#findId(group);
    const pendingIds = groupId ? [groupId] : [];
    for (let id = pendingIds.pop(); id; id = pendingIds.pop()) {
      if (this.#dynamicIds.has(id, 0)) return undefined;
      for (const member of await this.#memberDns(id)) {
        const pause = this.#slice.yieldIfOver();
        if (isPromise(pause)) await pause;
        const memberId = await this.#findId(member);
        if (!memberId || !this.#visitedIds.add(memberId, 0)) continue;
        if (this.#ids.push(memberId) > MAX_MEMBERS) return undefined;
        if (this.#groupIds.has(memberId, 0) || this.#dynamicIds.has(memberId, 0)) pendingIds.push(memberId);
      }
    }
    return sortIds(Buffer.concat(this.#ids));
  }

  async #findId(dn: Dn): Promise<Buffer | undefined> {
    const entry = findEntry(this.#context, this.#context.store, dn, 'getHead');
    return (isPromise(entry) ? await entry : entry)?.node.id;
  }

  /** Returns the DNs that the group's values name as members. */
  async #memberDns(id: Buffer): Promise<Dn[]> {
    const { schema, store } = this.#context;
    const storedRow = await store.get(MASTER_TABLE.name, id);
    if (!storedRow) return [];
    const row = presentRow(this.#context, storedRow);
    return groupTypes(schema).memberTypes.flatMap((type) =>
      attributeValues(this.#context, row, type.name).map((value) => schema.parseDnBytes(withoutUid(type, value))),
    );
  }
}

const NO_ATTRIBUTES = { includes: () => false };

/** Whether a URL of the dynamic group in `row` selects the entry with this name (`Dn.norm`). */
export async function isDynamicMember(
  context: SearchContext,
  row: Buffer,
  norm: Buffer,
  viewer: Viewer,
): Promise<boolean> {
  const member = isDynamic(context, row) ? await findByNorm(context, norm) : undefined;
  if (!member) return false;
  const urlTest = new UrlTest(context, member, viewer);
  for (const url of urlsIn(context, row)) if (await urlTest.isSelectedBy(url)) return true;
  return false;
}

/**
 * Returns the row of a dynamic group extended by the members that its URLs select, as far as the viewer could find them
 * by the filters. The selected members follow the stored members. `maxMembers` limits the total number.
 */
export async function withMembers(
  context: SearchContext,
  row: Buffer,
  viewer: Viewer,
  until: AbortConditions,
  maxMembers: number,
): Promise<MembersRow> {
  const stored = storedMembers(context, row);
  const room = maxMembers - stored.normTexts.size;
  if (room < 0 || !isDynamic(context, row)) return { row, hasMore: false };
  const collector = new MemberCollector(context, stored.normTexts, room);
  for (const url of urlsIn(context, row)) await collector.add(url, viewer, until);
  const cells = collector.dns.slice(0, room).map((value, n) => {
    return { family: MASTER.upAttributes, qualifier: valueQualifier(stored.text, stored.nextIndex + n), value };
  });
  const hasMore = collector.dns.length > room;
  return {
    row: Buffer.concat([row.subarray(0, stored.endOffset), packSorted(cells), row.subarray(stored.endOffset)]),
    hasMore,
  };
}

function isDynamic(context: SearchContext, row: Buffer): boolean {
  const { dynamicClass: dynamic } = groupTypes(context.schema);
  const { type } = context.schema.requireDescription('objectClass');
  return attributeValues(context, row, type.name).some(
    (name) => dynamic && type.equality!.normalize(name)?.equals(dynamic),
  );
}

interface StoredMembers {
  /** The attribute description under which members are stored; `member` if there are none. */
  readonly text: string;
  /** `Dn.norm` as Latin-1. */
  readonly normTexts: ReadonlySet<string>;
  /** Index for the next value, and offset in the row for its cell. */
  readonly nextIndex: number;
  readonly endOffset: number;
}

function storedMembers({ schema, descriptions }: SearchContext, row: Buffer): StoredMembers {
  const member = schema.requireDescription('member');
  const normTexts = new Set<string>();
  let text: string | undefined;
  let nextIndex = 0;
  let endOffset = 0;
  for (let offset = 0; offset < row.length && row[offset]! <= MASTER.upAttributes; ) {
    const cellEnd = nextCell(row, offset);
    const description = row[offset] === MASTER.upAttributes ? descriptions.ofCell(row, offset) : undefined;
    if (description?.description === member) {
      const start = valueStart(row, offset);
      text = description.text;
      nextIndex = row.readUInt32BE(start - INDEX_BYTES) + 1;
      normTexts.add(member.type.equality!.normalize(row.subarray(start, cellEnd))!.toString('latin1'));
    }
    if (text === undefined || description?.description === member) endOffset = cellEnd;
    offset = cellEnd;
  }
  return { text: text ?? member.text, normTexts, nextIndex, endOffset };
}

/** Collects the entries that URLs select, without duplicates, until one more than `room` is found. */
class MemberCollector {
  readonly dns: Buffer[] = [];
  readonly #context: SearchContext;
  readonly #storedNormTexts: ReadonlySet<string>;
  readonly #room: number;
  readonly #ids = new IdSet();
  readonly #slice = new TimeSlice();

  constructor(context: SearchContext, storedNormTexts: ReadonlySet<string>, room: number) {
    this.#context = context;
    this.#storedNormTexts = storedNormTexts;
    this.#room = room;
  }

  /** Adds the entries that a URL selects. A missing base selects none. */
  async add(url: MemberUrl, viewer: Viewer, until: AbortConditions): Promise<void> {
    const pause = this.#slice.yieldIfOver();
    if (isPromise(pause)) await pause;
    try {
      await this.#search(url, viewer, until);
    } catch (error) {
      if (!(error instanceof LdapError) || error.result !== 'noSuchObject') throw error;
    }
  }

  async #search(
    { base, scope, parsedFilter: parsed }: MemberUrl,
    viewer: Viewer,
    { deadline, signal }: AbortConditions,
  ): Promise<void> {
    const params = {
      ...UNLIMITED_SEARCH,
      ofUrl: true,
      viewer,
      deadline,
      signal,
      base,
      scope,
      filter: parsed,
      selects: NO_ATTRIBUTES,
    };
    for (let resume: Buffer | undefined; this.dns.length <= this.#room; ) {
      const pageSize = Math.min(this.#room - this.dns.length + 1, 0x7fffffff);
      const outcome = await search(
        this.#context,
        { ...params, pageSize, resume },
        { entry: ({ id, dn }) => this.#addMember(id, dn), reference: () => undefined },
      );
      resume = outcome.resume;
      if (!resume) return;
    }
  }

  #addMember(id: Buffer, dn: Buffer): void {
    if (!this.#ids.add(id, 0)) return;
    const isStored = this.#storedNormTexts.size > 0 && this.#storedNormTexts.has(this.#normText(dn));
    if (!isStored) this.dns.push(Buffer.from(dn));
  }

  #normText(dn: Buffer): string {
    return this.#context.schema.parseDnBytes(dn).norm.toString('latin1');
  }
}
