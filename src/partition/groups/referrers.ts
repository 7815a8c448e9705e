import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { KeyRange, Maybe } from '../../store/contract.js';
import { awaitMaybe, chain, isPromise, reduceMaybe, runWork, type Work } from '../../store/maybe.js';
import { UNIQUE_MEMBER_MATCH, withoutUid } from '../model/group-rows.js';
import { cutNorm, equalityPrefix, MASTER_TABLE, PRESENCE_PREFIX, UUID_BYTES } from '../model/tables.js';
import { MAX_NORM } from '../model/thresholds.js';
import { search } from '../read/run/search.js';
import type { SearchContext } from '../read/run/search-context.js';
import { type AbortConditions, UNLIMITED_SEARCH } from '../read/search-params.js';

/** A limit that no list of entries reaches. */
export const UNLIMITED = 0x7fffffff;
const NAMES_PER_READ = 64;

/** An index by which the entries that name a given entry are found. */
interface ReferringIndex {
  readonly type: AttributeType;
  readonly table: string;
  /** Whether values may have a UID after the DN. */
  readonly mayHaveUids: boolean;
}

/** The entries that name a given entry by one attribute. */
export interface Referrers {
  readonly type: AttributeType;
  readonly ids: Buffer;
}

/** The attributes by which entries name other entries: those with an index, and those without. */
export interface ReferrerLookup {
  readonly indexes: readonly ReferringIndex[];
  readonly types: readonly AttributeType[];
  /** Attributes without a ready index. To find names in them, all entries with these attributes are read. */
  readonly unindexedTypes: ReadonlySet<AttributeType>;
}

/** Returns the attributes to look up, without types that no entry has. `mayHaveUids`: as in `GroupsState`. */
export function referrerLookup(
  { shared, store }: SearchContext,
  types: readonly AttributeType[],
  mayHaveUids: boolean,
): Maybe<ReferrerLookup> {
  const emptyLookup = {
    indexes: [] as ReferringIndex[],
    types: [] as AttributeType[],
    unindexedTypes: new Set<AttributeType>(),
  };
  return reduceMaybe(types, emptyLookup, (lookup, type) => {
    const index = shared.indexes.ofType(type);
    if (!index?.isReady) {
      lookup.unindexedTypes.add(type);
      return lookup;
    }
    return chain(store.postingCount(index.table, PRESENCE_PREFIX, 1), (count) => {
      const { table } = index;
      if (count === 0) return lookup;
      lookup.indexes.push({ type, table, mayHaveUids: mayHaveUids && type.equality?.oid === UNIQUE_MEMBER_MATCH });
      lookup.types.push(type);
      return lookup;
    });
  });
}

/** Returns the entries that name one of `names` (`Dn.norm` as Latin-1). `until` limits the reading of all entries. */
export function findReferrers(
  context: SearchContext,
  lookup: ReferrerLookup,
  names: readonly string[],
  until?: AbortConditions,
): Maybe<Referrers[]> {
  return runWork(findReferrersWork(context, lookup, names, until));
}

function* findReferrersWork(
  context: SearchContext,
  lookup: ReferrerLookup,
  names: readonly string[],
  until: AbortConditions | undefined,
): Work<Referrers[]> {
  const { unindexedTypes } = lookup;
  const referrers =
    unindexedTypes.size > 0 ? yield* awaitMaybe(readReferrers(context, unindexedTypes, new Set(names), until)) : [];
  for (const indexed of (yield* awaitMaybe(indexedReferrers(context, lookup, names))).values())
    referrers.push(...indexed);
  return referrers;
}

export function indexedReferrers(
  context: SearchContext,
  lookup: ReferrerLookup,
  names: readonly string[],
): Maybe<Map<string, Referrers[]>> {
  const { nameChanges: changes } = context.shared;
  const namesByNormText = new Map(names.map((name) => [name, name]));
  if (!changes.isEmpty) {
    namesByNormText.clear();
    for (const name of names) for (const normText of changes.storedNormTexts(name)) namesByNormText.set(normText, name);
  }
  const referrersByName = new Map(names.map((name) => [name, [] as Referrers[]]));
  return chain(
    runWork(referrersByNormTextWork(context, lookup, [...namesByNormText.keys()])),
    (referrersByNormText) => {
      for (const [normText, referrers] of referrersByNormText)
        referrersByName.get(namesByNormText.get(normText)!)!.push(...referrers);
      return referrersByName;
    },
  );
}

/** Returns the entries whose indexed values have one of the normal forms, by normal form. */
export function findReferrersByNormText(
  context: SearchContext,
  lookup: Pick<ReferrerLookup, 'indexes'>,
  normTexts: readonly string[],
): Maybe<Map<string, Referrers[]>> {
  return runWork(referrersByNormTextWork(context, lookup, normTexts));
}

function* referrersByNormTextWork(
  context: SearchContext,
  { indexes }: Pick<ReferrerLookup, 'indexes'>,
  normTexts: readonly string[],
): Work<Map<string, Referrers[]>> {
  const sortedTexts = [...normTexts].sort();
  const referrersByNormText = new Map(sortedTexts.map((form) => [form, [] as Referrers[]]));
  const add = (normText: string, type: AttributeType, ids: Buffer): void => {
    if (ids.length > 0) referrersByNormText.get(normText)!.push({ type, ids });
  };
  for (const { type, table, mayHaveUids } of indexes) {
    for (let offset = 0; offset < sortedTexts.length; offset += NAMES_PER_READ) {
      const norms = sortedTexts.slice(offset, offset + NAMES_PER_READ).map((name) => Buffer.from(name, 'latin1'));
      const lists = context.store.postingsMany(
        table,
        norms.map((norm) => equalityPrefix(cutNorm(norm))),
        UNLIMITED,
      );
      for (const [i, ids] of (yield* awaitMaybe(lists)).entries()) add(sortedTexts[offset + i]!, type, ids);
      if (!mayHaveUids) continue;
      const withUid = norms.map((norm) => idsWithUid(context, type, table, norm));
      const uidLists = withUid.some(isPromise) ? yield* awaitMaybe(Promise.all(withUid)) : (withUid as Buffer[]);
      for (const [i, ids] of uidLists.entries()) add(sortedTexts[offset + i]!, type, ids);
    }
  }
  return referrersByNormText;
}

const UID_SEPARATOR = Buffer.from(',');

/** Returns the entries with a value that has a UID after the DN: its normal form begins with the DN's and `,#`. */
function idsWithUid(context: SearchContext, type: AttributeType, table: string, norm: Buffer): Maybe<Buffer> {
  const prefix = Buffer.concat([norm, UID_SEPARATOR]);
  const ids = context.store.rangePostings(table, uidRange(prefix.subarray(0, MAX_NORM)), UNLIMITED);
  // A normal form of more than `MAX_NORM` bytes is cut in the key, also with `#`, so the values have to be compared.
  const isCut = prefix.length >= MAX_NORM;
  if (!isCut) return ids;
  return isPromise(ids)
    ? ids.then((some) => filterByDn(context, type, norm, some))
    : ids.length === 0
      ? ids
      : filterByDn(context, type, norm, ids);
}

function uidRange(prefix: Buffer): KeyRange {
  const offset = (byte: string) => Buffer.concat([Buffer.from('='), prefix, Buffer.from(byte)]);
  return { from: offset('#'), to: offset('$') };
}

/** Returns those of the entries `ids` that have a value with this DN. */
async function filterByDn(context: SearchContext, type: AttributeType, norm: Buffer, ids: Buffer): Promise<Buffer> {
  const normTexts = new Set([norm.toString('latin1')]);
  const matchingIds: Buffer[] = [];
  for (let offset = 0; offset < ids.length; offset += UUID_BYTES) {
    const id = ids.subarray(offset, offset + UUID_BYTES);
    const row = await context.store.get(MASTER_TABLE.name, id);
    if (row && hasNamingValue(context, row, type, normTexts)) matchingIds.push(id);
  }
  return Buffer.concat(matchingIds);
}

/** Returns the referrers by reading every entry that has one of the attributes. */
async function readReferrers(
  context: SearchContext,
  types: ReadonlySet<AttributeType>,
  normTexts: ReadonlySet<string>,
  until: AbortConditions | undefined,
): Promise<Referrers[]> {
  const referrers: Referrers[] = [];
  const filters = [...types].map(({ name }) => ({ type: 'present', attribute: name }) as const);
  const base: Dn = context.schema.parseDn('');
  await search(
    context,
    {
      ...UNLIMITED_SEARCH,
      ...(until && { deadline: until.deadline, signal: until.signal }),
      base,
      scope: 'subordinate',
      filter: { type: 'or', filters },
      selects: { includes: ({ description }) => types.has(description.type) },
    },
    {
      entry({ id, row }) {
        for (const type of types)
          if (hasNamingValue(context, row, type, normTexts)) referrers.push({ type, ids: Buffer.from(id) });
      },
      reference: () => undefined,
    },
  );
  return referrers;
}

function hasNamingValue(
  context: SearchContext,
  row: Buffer,
  type: AttributeType,
  normTexts: ReadonlySet<string>,
): boolean {
  const reader = context.reader.read(row);
  for (let i = 0; i < reader.attributeCount; i++) {
    if (reader.descriptions[i]!.description.type !== type) continue;
    for (let v = reader.firstValues[i]!; v < reader.firstValues[i + 1]!; v++) {
      const norm = type.equality!.normalize(withoutUid(type, reader.value(v)));
      if (norm && normTexts.has(norm.toString('latin1'))) return true;
    }
  }
  return false;
}
