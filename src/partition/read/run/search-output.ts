import { LdapError } from '../../../ldap/ldap-error.js';
import type { Maybe } from '../../../store/contract.js';
import { chain } from '../../../store/maybe.js';
import { EMPTY } from '../../../store/row.js';
import type { Node } from '../../model/node.js';
import { seenRow } from '../../model/seen-row.js';
import type { Sight } from '../../model/viewer.js';
import { dnOf } from '../../tree/master-row.js';
import { IdSet } from '../plan/id-set.js';
import type { SearchParams } from '../search-params.js';
import type { Hit, MembersRow, SearchSink } from '../sink.js';
import type { Areas } from './area.js';
import type { ExaminedEntry } from './examined-entry.js';
import { formatResume, pathHash, type Resume } from './page.js';
import type { SearchContext } from './search-context.js';
import { countVisibleChildren, hasVisibleChild } from './visible-children.js';

/** Passes the entries and references of one search to its sink, up to size limit and page size. */
export class SearchOutput {
  entries = 0;
  /** Put before the entry's key in the resume cookie. */
  keyPrefix: Buffer = EMPTY;
  /** Resume cookie for the next page; undefined unless this page is full. */
  resume: Buffer | undefined;
  readonly #context: SearchContext;
  readonly #params: SearchParams;
  readonly #sink: SearchSink;
  readonly #areas: Areas;
  /** Position of the last returned entry, and its parent. */
  #lastPosition: Resume | undefined;
  #lastParent: Node | undefined;
  #hasReferences = false;
  /** Ids of the returned entries. Only set if `#isRepeated` needs them. */
  #passedIds: IdSet | undefined;

  constructor(context: SearchContext, params: SearchParams, sink: SearchSink, areas: Areas) {
    this.#context = context;
    this.#params = params;
    this.#sink = sink;
    this.#areas = areas;
  }

  get hasBegun(): boolean {
    return this.entries > 0 || this.#hasReferences;
  }

  passReference(urls: readonly string[]): Maybe<void> {
    this.#hasReferences = true;
    return this.#sink.reference(urls);
  }

  /** Passes on an entry of area number `areaIndex`, or ends a full page. Throws `sizeLimitExceeded`. */
  passEntry({ id, storedRow, parent, kind, key, sight }: ExaminedEntry, areaIndex: number): Maybe<void> {
    const { sizeLimit, pageSize } = this.#params;
    if ((kind === 's' || kind === 't') && this.#isRepeated(id)) return;
    if (sizeLimit > 0 && this.entries >= sizeLimit) {
      throw new LdapError('sizeLimitExceeded', 'there are more entries than were asked for or are allowed');
    }
    if (pageSize !== undefined && this.entries >= pageSize) {
      this.#endPage();
      return;
    }
    this.entries++;
    if (pageSize !== undefined) {
      this.#lastPosition = { areaIndex, kind, key: Buffer.concat([this.keyPrefix, key]) };
      this.#lastParent = parent;
    }
    const row = seenRow(this.#context.descriptions, storedRow, sight, 'read');
    return this.#sink.entry(new SearchHit(this.#context, this.#params, id, row, dnOf(storedRow, parent), sight));
  }

  /** A scan without snapshot can meet an entry twice: the entry is moved meanwhile. */
  #isRepeated(id: Buffer): boolean {
    if (this.#context.store.supports.snapshot) return false;
    this.#passedIds ??= new IdSet();
    return !this.#passedIds.add(id, 0);
  }

  /** Ends a full page when another entry matches: the next page starts after the last returned entry. */
  #endPage(): void {
    const lastPosition = this.#lastPosition ?? { areaIndex: 0, kind: 'b', key: EMPTY };
    const isBelow = lastPosition.kind === 's' && lastPosition.key.length > 0;
    const base = this.#areas.areaAt(lastPosition.areaIndex).node;
    const key = isBelow ? Buffer.concat([pathHash(this.#lastParent!, base), lastPosition.key]) : lastPosition.key;
    this.resume = formatResume({ ...lastPosition, key });
  }
}

class SearchHit implements Hit {
  readonly id: Buffer;
  readonly row: Buffer;
  readonly dn: Buffer;
  readonly sight: Sight | undefined;
  readonly #context: SearchContext;
  readonly #params: SearchParams;

  constructor(
    context: SearchContext,
    params: SearchParams,
    id: Buffer,
    row: Buffer,
    dn: Buffer,
    sight: Sight | undefined,
  ) {
    this.#context = context;
    this.#params = params;
    this.id = id;
    this.row = row;
    this.dn = dn;
    this.sight = sight;
  }

  hasSubordinates(): Maybe<boolean> {
    return hasVisibleChild(this.#context, this.#context.store, this.#params.viewer, this);
  }

  numSubordinates(): Maybe<number> {
    return countVisibleChildren(this.#context, this.#context.store, this.#params.viewer, this);
  }

  memberOf(): Maybe<Buffer[]> {
    const { schema, membershipsOf } = this.#context;
    const { viewer, directGroupsOnly } = this.#params;
    const member = { id: Buffer.from(this.id), dn: schema.parseDnBytes(this.dn) };
    return chain(membershipsOf(member, viewer, 'read', directGroupsOnly), (groups) =>
      Array.from(groups.values(), ({ dn }) => dn),
    );
  }

  async withMembers(limit: number): Promise<MembersRow> {
    const { schema, rowWithMembers } = this.#context;
    const { row, sight } = this;
    const { viewer, manageDsaIT } = this.#params;
    const mayRead = !sight || sight.all('read') || sight.allows('read', schema.requireDescription('member'));
    if (manageDsaIT || !mayRead) return { row, hasMore: false };
    return rowWithMembers(row, viewer, this.#params, limit);
  }
}
