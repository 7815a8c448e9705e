import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { KeyRange, Maybe } from '../../store/contract.js';
import { awaited, chain, fold, isPromise, runWork, type Work } from '../../store/maybe.js';
import { UNIQUE_MEMBER_MATCH, withoutUid } from '../model/group-rows.js';
import { cutNorm, equalityPrefix, MASTER_TABLE, PRESENCE_PREFIX, UUID_BYTES } from '../model/tables.js';
import { MAX_NORM } from '../model/thresholds.js';
import { search } from '../read/run/search.js';
import type { SearchContext } from '../read/run/search-context.js';
import { EVERYTHING, type Until } from '../read/search-params.js';

/** A limit that no list reaches. */
export const ALL = 0x7fffffff;
const NAMES_PER_READ = 64;

/** An index that finds the entries that name a given entry. */
interface Indexed {
  readonly type: AttributeType;
  readonly table: string;
  /** True if values may have a UID after the DN. */
  readonly uids: boolean;
}

/** The entries that name a given entry by one attribute. */
export interface Referrers {
  readonly type: AttributeType;
  readonly ids: Buffer;
}

/** The indexes and attributes by which entries name other entries. */
export interface ReferrerLookup {
  readonly indexed: readonly Indexed[];
  readonly types: readonly AttributeType[];
  /** Attributes without a ready index. All entries with these attributes are read. */
  readonly unindexed: ReadonlySet<AttributeType>;
}

/** Returns the lookup for these types, without types that no entry has. `uids`: as in `GroupsState`. */
export function referrerLookup(
  { shared, store }: SearchContext,
  types: readonly AttributeType[],
  uids: boolean,
): Maybe<ReferrerLookup> {
  const found = { indexed: [] as Indexed[], types: [] as AttributeType[], unindexed: new Set<AttributeType>() };
  return fold(types, found, (all, type) => {
    const index = shared.indexes.ofType(type);
    if (!index?.isReady) {
      all.unindexed.add(type);
      return all;
    }
    return chain(store.postingCount(index.table, PRESENCE_PREFIX, 1), (count) => {
      const { table } = index;
      if (count === 0) return all;
      all.indexed.push({ type, table, uids: uids && type.equality?.oid === UNIQUE_MEMBER_MATCH });
      all.types.push(type);
      return all;
    });
  });
}

/** Returns entries that name one of `names` (`Dn.norm` as Latin-1). `until` bounds reading all entries. */
export function idsReferringTo(
  context: SearchContext,
  lookup: ReferrerLookup,
  names: readonly string[],
  until?: Until,
): Maybe<Referrers[]> {
  return runWork(idsReferringToSteps(context, lookup, names, until));
}

function* idsReferringToSteps(
  context: SearchContext,
  lookup: ReferrerLookup,
  names: readonly string[],
  until: Until | undefined,
): Work<Referrers[]> {
  const { unindexed } = lookup;
  const found = unindexed.size > 0 ? yield* awaited(idsByReading(context, unindexed, new Set(names), until)) : [];
  for (const some of (yield* awaited(indexedReferrers(context, lookup, names))).values()) found.push(...some);
  return found;
}

export function indexedReferrers(
  context: SearchContext,
  lookup: ReferrerLookup,
  names: readonly string[],
): Maybe<Map<string, Referrers[]>> {
  const { nameChanges: changes } = context.shared;
  const forms = new Map(names.map((name) => [name, name]));
  if (!changes.isEmpty) {
    forms.clear();
    for (const name of names) for (const form of changes.storedNormTexts(name)) forms.set(form, name);
  }
  const found = new Map(names.map((name) => [name, [] as Referrers[]]));
  return chain(runWork(referrersByForm(context, lookup, [...forms.keys()])), (all) => {
    for (const [form, some] of all) found.get(forms.get(form)!)!.push(...some);
    return found;
  });
}

/** Returns the referrers by form, for entries whose indexed values have a form of `forms`. */
export function idsWithForms(
  context: SearchContext,
  lookup: Pick<ReferrerLookup, 'indexed'>,
  forms: readonly string[],
): Maybe<Map<string, Referrers[]>> {
  return runWork(referrersByForm(context, lookup, forms));
}

function* referrersByForm(
  context: SearchContext,
  { indexed }: Pick<ReferrerLookup, 'indexed'>,
  forms: readonly string[],
): Work<Map<string, Referrers[]>> {
  const sorted = [...forms].sort();
  const found = new Map(sorted.map((form) => [form, [] as Referrers[]]));
  const add = (form: string, type: AttributeType, ids: Buffer): void => {
    if (ids.length > 0) found.get(form)!.push({ type, ids });
  };
  for (const { type, table, uids } of indexed) {
    for (let at = 0; at < sorted.length; at += NAMES_PER_READ) {
      const some = sorted.slice(at, at + NAMES_PER_READ).map((name) => Buffer.from(name, 'latin1'));
      const lists = context.store.postingsMany(
        table,
        some.map((norm) => equalityPrefix(cutNorm(norm))),
        ALL,
      );
      for (const [i, ids] of (yield* awaited(lists)).entries()) add(sorted[at + i]!, type, ids);
      if (!uids) continue;
      const withUid = some.map((norm) => idsWithUid(context, type, table, norm));
      const uidLists = withUid.some(isPromise) ? yield* awaited(Promise.all(withUid)) : (withUid as Buffer[]);
      for (const [i, ids] of uidLists.entries()) add(sorted[at + i]!, type, ids);
    }
  }
  return found;
}

const UID = Buffer.from(',');

/** Returns the entries whose value has a UID after the DN: forms that start with the form of the DN and `,#`. */
function idsWithUid(context: SearchContext, type: AttributeType, table: string, norm: Buffer): Maybe<Buffer> {
  const head = Buffer.concat([norm, UID]);
  const ids = context.store.rangePostings(table, uidRange(head.subarray(0, MAX_NORM)), ALL);
  // A form longer than `MAX_NORM` bytes is cut, also with `#`, so the matches must be verified.
  const isCut = head.length >= MAX_NORM;
  if (!isCut) return ids;
  return isPromise(ids)
    ? ids.then((some) => filterByDn(context, type, norm, some))
    : ids.length === 0
      ? ids
      : filterByDn(context, type, norm, ids);
}

function uidRange(head: Buffer): KeyRange {
  const at = (byte: string) => Buffer.concat([Buffer.from('='), head, Buffer.from(byte)]);
  return { from: at('#'), to: at('$') };
}

/** Returns the entries among `ids` that have a value with this DN. */
async function filterByDn(context: SearchContext, type: AttributeType, norm: Buffer, ids: Buffer): Promise<Buffer> {
  const wanted = new Set([norm.toString('latin1')]);
  const right: Buffer[] = [];
  for (let at = 0; at < ids.length; at += UUID_BYTES) {
    const id = ids.subarray(at, at + UUID_BYTES);
    const row = await context.store.get(MASTER_TABLE.name, id);
    if (row && hasNameIn(context, row, type, wanted)) right.push(id);
  }
  return Buffer.concat(right);
}

/** Reads every entry that has one of the attributes. */
async function idsByReading(
  context: SearchContext,
  types: ReadonlySet<AttributeType>,
  wanted: ReadonlySet<string>,
  until: Until | undefined,
): Promise<Referrers[]> {
  const found: Referrers[] = [];
  const filters = [...types].map(({ name }) => ({ type: 'present', attribute: name }) as const);
  const base: Dn = context.schema.parseDn('');
  await search(
    context,
    {
      ...EVERYTHING,
      ...(until && { deadline: until.deadline, signal: until.signal }),
      base,
      scope: 'subordinate',
      filter: { type: 'or', filters },
      selects: { takes: ({ description }) => types.has(description.type) },
    },
    {
      entry({ id, row }) {
        for (const type of types) if (hasNameIn(context, row, type, wanted)) found.push({ type, ids: Buffer.from(id) });
      },
      reference: () => undefined,
    },
  );
  return found;
}

function hasNameIn(context: SearchContext, row: Buffer, type: AttributeType, wanted: ReadonlySet<string>): boolean {
  const reader = context.reader.read(row);
  for (let i = 0; i < reader.attributeCount; i++) {
    if (reader.descriptions[i]!.description.type !== type) continue;
    for (let v = reader.firstValues[i]!; v < reader.firstValues[i + 1]!; v++) {
      const norm = type.equality!.normalize(withoutUid(type, reader.value(v)));
      if (norm && wanted.has(norm.toString('latin1'))) return true;
    }
  }
  return false;
}
