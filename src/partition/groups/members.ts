import { TimeSlice } from '../../fair/time-slice.js';
import type { Dn } from '../../schema/schema-types.js';
import { isPromise } from '../../store/maybe.js';
import { attributeValues } from '../model/entry-cells.js';
import { groupTypes, withoutUid } from '../model/group-rows.js';
import { presentRow } from '../model/present-row.js';
import { MASTER_TABLE, PRESENCE_PREFIX, UUID_BYTES } from '../model/tables.js';
import { IdSet } from '../read/plan/id-set.js';
import { sortIds } from '../read/plan/sources.js';
import type { SearchContext } from '../read/run/search-context.js';
import { findEntry } from '../tree/locate.js';
import { dynamicGroupIds } from './dynamic-groups.js';
import { dnOfNorm } from './names.js';
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
