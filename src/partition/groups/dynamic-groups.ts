import { TimeSlice } from '../../fair/time-slice.js';
import { parseFilter } from '../../ldap/filter-text.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter, Scope } from '../../ldap/ldap-types.js';
import { countFilterItems, parseLdapUrl } from '../../ldap/ldap-url.js';
import { utf8Bytes } from '../../ldap/text.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import { attributeValues } from '../model/entry-cells.js';
import { groupTypes } from '../model/group-rows.js';
import { OBJECT_CLASS_OID } from '../model/index-set.js';
import { largeOffsetsOf, readAllLarge, retryWhileReplaced } from '../model/large.js';
import { presentRow } from '../model/present-row.js';
import { equalityPrefix, indexTable, MASTER_TABLE, UUID_BYTES } from '../model/tables.js';
import { MEMBER_URLS } from '../model/thresholds.js';
import { seenRow, type Viewer } from '../model/viewer.js';
import {
  type Candidate,
  type CompiledFilter,
  evaluate,
  type FilterInputs,
  TRUE,
} from '../read/filter/compiled-filter.js';
import type { SearchContext } from '../read/run/search-context.js';
import { countVisibleChildren } from '../read/run/visible-children.js';
import { parentIdOffset } from '../tree/master-row.js';
import { suffixRdnIndex } from '../tree/nodes.js';
import { shortRow } from './names.js';
import type { Referrers } from './referrers.js';

const OBJECT_CLASS_TABLE = indexTable(OBJECT_CLASS_OID).name;
const IDS_PER_READ = 256;
/** The most characters of memberURLs that are cached. With more, every request reads the URLs from the store. */
const MAX_CACHED_CHARS = 4 * 1024 * 1024;

/** Viewer for compiling the filters of URLs. The rights of the real viewer are checked on each candidate. */
const ANY_VIEWER: Viewer = { sightOf: () => undefined };

export interface MemberUrl {
  readonly type: AttributeType;
  readonly base: Dn;
  readonly scope: Scope;
  readonly parsedFilter: Filter;
  readonly filter: CompiledFilter;
  readonly inputs: FilterInputs;
  readonly urlLength: number;
}

interface DynamicGroup {
  readonly id: Buffer;
  readonly urls: readonly MemberUrl[];
  readonly urlLength: number;
}

/** All dynamic groups, by directory, for one version of the groups. */
const groupsByContext = new WeakMap<
  SearchContext,
  { readonly version: bigint; readonly groups: readonly DynamicGroup[] }
>();

/** Returns the dynamic groups whose URLs match the entry, if the viewer could find the entry by their filters. */
export function dynamicGroupsOf(
  context: SearchContext,
  version: bigint,
  member: { readonly id: Buffer; readonly dn: Dn },
  viewer: Viewer,
): Maybe<Referrers[]> {
  const cached = groupsByContext.get(context);
  const isCurrent = cached?.version === version;
  if (isCurrent && cached.groups.length === 0) return [];
  const urlTest = new UrlTest(context, member, viewer);
  return isCurrent ? matchingGroups(cached.groups, urlTest) : readMatchingGroups(context, version, urlTest);
}

async function readMatchingGroups(context: SearchContext, version: bigint, urlTest: UrlTest): Promise<Referrers[]> {
  const groups: DynamicGroup[] = [];
  let urlLength = 0;
  const readAndKeep = async function* () {
    for await (const group of readGroups(context)) {
      urlLength += group.urlLength;
      if (urlLength <= MAX_CACHED_CHARS) groups.push(group);
      yield group;
    }
  };
  const matches = await matchingGroups(readAndKeep(), urlTest);
  if (urlLength <= MAX_CACHED_CHARS) groupsByContext.set(context, { version, groups });
  return matches;
}

async function matchingGroups(
  groups: Iterable<DynamicGroup> | AsyncIterable<DynamicGroup>,
  urlTest: UrlTest,
): Promise<Referrers[]> {
  const matches: Referrers[] = [];
  for await (const { id: ids, urls } of groups) {
    for (const url of urls) if (await urlTest.isSelectedBy(url)) matches.push({ type: url.type, ids });
  }
  return matches;
}

async function* readGroups(context: SearchContext): AsyncGenerator<DynamicGroup> {
  for await (const id of dynamicGroupIds(context)) {
    const group = await readGroup(context, id);
    if (group) yield group;
  }
}

export function hasDynamicGroups({ schema, store, shared }: SearchContext): Maybe<boolean> {
  const { dynamicClass: dynamic } = groupTypes(schema);
  if (!dynamic) return false;
  shared.indexes.require(schema.requireDescription('objectClass').type);
  return chain(store.postings(OBJECT_CLASS_TABLE, equalityPrefix(dynamic), 1), ({ length }) => length > 0);
}

export async function* dynamicGroupIds({ schema, store }: SearchContext): AsyncGenerator<Buffer> {
  const { dynamicClass: dynamic } = groupTypes(schema);
  if (!dynamic) return;
  const prefix = equalityPrefix(dynamic);
  for (let lastId: Buffer | undefined; ; ) {
    const ids = await store.postings(OBJECT_CLASS_TABLE, prefix, IDS_PER_READ, lastId);
    for (let i = 0; i < ids.length; i += UUID_BYTES) yield Buffer.from(ids.subarray(i, i + UUID_BYTES));
    if (ids.length < IDS_PER_READ * UUID_BYTES) return;
    lastId = Buffer.from(ids.subarray(ids.length - UUID_BYTES));
  }
}

async function readGroup(context: SearchContext, id: Buffer): Promise<DynamicGroup | undefined> {
  const types = groupTypes(context.schema).urlTypes;
  const row = await shortRow(context, id, types);
  if (!row) return undefined;
  const urls: MemberUrl[] = [];
  const slice = new TimeSlice();
  for (const url of urlsIn(context, row)) {
    urls.push(url);
    const pause = slice.yieldIfOver();
    if (isPromise(pause)) await pause;
  }
  return { id, urls, urlLength: urls.reduce((size, url) => size + url.urlLength, 0) };
}

/** Yields the URLs in a row, at most `MEMBER_URLS`. Parses each when it is needed, because parsing is costly. */
export function* urlsIn(context: SearchContext, row: Buffer): Generator<MemberUrl> {
  let urlLength = 0;
  let count = 0;
  for (const type of groupTypes(context.schema).urlTypes) {
    for (const text of attributeValues(context, row, type.name)) {
      urlLength += text.length;
      if (++count > MEMBER_URLS.values || urlLength > MEMBER_URLS.bytes) return;
      const url = compileUrl(context, type, text.toString());
      if (url) yield url;
    }
  }
}

/** Compiles a URL. Undefined if it is malformed, too complex, of another host, or has a critical extension. */
function compileUrl(context: SearchContext, type: AttributeType, text: string): MemberUrl | undefined {
  const url = parseLdapUrl(text);
  if (url?.host !== '' || url.criticalExtensions.length > 0) return undefined;
  if (countFilterItems(url) > MEMBER_URLS.items) return undefined;
  try {
    const base = context.schema.parseDn(url.dn);
    const parsedFilter = parseFilter(url.filter);
    return {
      type,
      base,
      scope: url.scope,
      parsedFilter,
      urlLength: text.length,
      ...context.compiler.compile(parsedFilter, ANY_VIEWER),
    };
  } catch (error) {
    if (error instanceof LdapError) return undefined;
    throw error;
  }
}

/** Tests an entry against URLs on behalf of a viewer. Reads the row of the entry when a test first needs it. */
export class UrlTest {
  readonly #context: SearchContext;
  readonly #id: Buffer;
  readonly #dn: Dn;
  readonly #viewer: Viewer;
  readonly #slice = new TimeSlice();
  #candidate: Promise<Candidate | undefined> | undefined;

  constructor(context: SearchContext, { id, dn }: { readonly id: Buffer; readonly dn: Dn }, viewer: Viewer) {
    this.#context = context;
    this.#id = id;
    this.#dn = dn;
    this.#viewer = viewer;
  }

  async isSelectedBy(url: MemberUrl): Promise<boolean> {
    const pause = this.#slice.yieldIfOver();
    if (isPromise(pause)) await pause;
    if (!isInScope(this.#dn, url, this.#context.shared.suffixes)) return false;
    return retryWhileReplaced(async (again) => {
      if (again) this.#candidate = undefined;
      this.#candidate ??= this.#read();
      const candidate = await this.#candidate;
      return candidate !== undefined && this.#matches(candidate, url);
    });
  }

  async #read(): Promise<Candidate | undefined> {
    const { store, nodes, descriptions } = this.#context;
    const { sightOf } = this.#viewer;
    const storedRow = await store.get(MASTER_TABLE.name, this.#id);
    const parent = storedRow && (await nodes.byIdAt(storedRow, parentIdOffset(storedRow)));
    if (!parent) return undefined;
    const row = presentRow(this.#context, storedRow);
    const sight = sightOf?.({ id: this.#id, parent, row });
    if (sightOf && !sight) return undefined;
    const visibleRow = seenRow(descriptions, row, sight, 'search');
    const dn = utf8Bytes(this.#dn.text);
    return { row: visibleRow, dn, hasSubordinates: false, numSubordinates: 0, sight, largeValues: undefined };
  }

  async #matches(candidate: Candidate, { filter, inputs }: MemberUrl): Promise<boolean> {
    const { store, descriptions } = this.#context;
    const { row } = candidate;
    const visibleCount = inputs.needsSubordinates
      ? await countVisibleChildren(this.#context, store, this.#viewer, { id: this.#id, row })
      : 0;
    const cells = largeOffsetsOf(descriptions, row, inputs.valueTypes);
    const large = cells.length > 0 ? await readAllLarge(store, MASTER_TABLE.name, this.#id, row, cells) : undefined;
    return (
      evaluate(filter, {
        ...candidate,
        numSubordinates: visibleCount,
        hasSubordinates: visibleCount > 0,
        largeValues: large,
      }) === TRUE
    );
  }
}

function isInScope(dn: Dn, { base, scope }: Pick<MemberUrl, 'base' | 'scope'>, suffixes: readonly Dn[]): boolean {
  const depth = base.rdns.length === 0 ? dn.rdns.length : suffixRdnIndex(dn, [base]);
  if (depth < 0) return false;
  if (scope === 'sub') return true;
  if (scope === 'base') return depth === 0;
  // The root has no entry; its children are the suffixes.
  return base.rdns.length === 0 ? suffixRdnIndex(dn, suffixes) === 0 : depth === 1;
}
