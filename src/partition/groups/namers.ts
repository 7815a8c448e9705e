import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { KeyRange, Maybe } from '../../store/contract.js';
import { awaited, chain, done, fold, isPromise, type Work } from '../../store/maybe.js';
import { UNIQUE_MEMBER_MATCH, withoutUid } from '../model/group-rows.js';
import { cutNorm, equalityPrefix, MASTER_TABLE, PRESENCE_PREFIX, UUID_BYTES } from '../model/tables.js';
import { MAX_NORM } from '../model/thresholds.js';
import { search } from '../read/run/search.js';
import type { SearchContext } from '../read/run/search-context.js';
import { EVERYTHING, type Until } from '../read/search-params.js';

/** More than any list has. */
export const ALL = 0x7fffffff;
/** Names whose lists are asked for together. */
const TOGETHER = 64;

/** An attribute with an index by which the entries are found that name somebody. */
interface Indexed {
  readonly type: AttributeType;
  readonly table: string;
  /** Values may have a UID behind the DN. */
  readonly uids: boolean;
}

/** Entries that name somebody. */
export interface Naming {
  /** The attribute by which they do. */
  readonly type: AttributeType;
  /** Their ids, one after another. */
  readonly ids: Buffer;
}

/** How the entries are found that name somebody. */
export interface Namers {
  readonly indexed: readonly Indexed[];
  /** The attributes of these. */
  readonly types: readonly AttributeType[];
  /** Attributes without an index: all entries are looked at that have them. */
  readonly others: ReadonlySet<AttributeType>;
}

/** By these types, of which those that no entry has are left out. `uids`: as `GroupsState`. */
export function namersIn(
  { shared, store }: SearchContext,
  types: readonly AttributeType[],
  uids: boolean,
): Maybe<Namers> {
  const found = { indexed: [] as Indexed[], types: [] as AttributeType[], others: new Set<AttributeType>() };
  return fold(types, found, (all, type) => {
    const index = shared.indexes.of(type);
    if (!index?.ready) {
      all.others.add(type);
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

/**
 * Entries that name one of those, some of them more than once; `names` are `Dn.norm` as Latin-1. `until`: what ends
 * looking at every entry.
 */
export function idsNaming(
  context: SearchContext,
  namers: Namers,
  names: readonly string[],
  until?: Until,
): Maybe<Naming[]> {
  return done(idsNamingIn(context, namers, names, until));
}

function* idsNamingIn(
  context: SearchContext,
  namers: Namers,
  names: readonly string[],
  until: Until | undefined,
): Work<Naming[]> {
  const { others } = namers;
  const found = others.size > 0 ? yield* awaited(idsByLooking(context, others, new Set(names), until)) : [];
  for (const some of (yield* awaited(indexedNaming(context, namers, names))).values()) found.push(...some);
  return found;
}

/** The same for each of the names, by indexes alone. */
export function indexedNaming(
  context: SearchContext,
  namers: Namers,
  names: readonly string[],
): Maybe<Map<string, Naming[]>> {
  const { names: changes } = context.shared;
  const forms = new Map(names.map((name) => [name, name]));
  if (!changes.isEmpty) {
    forms.clear();
    for (const name of names) for (const form of changes.storedForms(name)) forms.set(form, name);
  }
  const found = new Map(names.map((name) => [name, [] as Naming[]]));
  return chain(done(naming(context, namers, [...forms.keys()])), (all) => {
    for (const [form, some] of all) found.get(forms.get(form)!)!.push(...some);
    return found;
  });
}

/** Entries whose indexed values have one of the forms, by these. */
export function idsHolding(
  context: SearchContext,
  namers: Pick<Namers, 'indexed'>,
  forms: readonly string[],
): Maybe<Map<string, Naming[]>> {
  return done(naming(context, namers, forms));
}

function* naming(
  context: SearchContext,
  { indexed }: Pick<Namers, 'indexed'>,
  forms: readonly string[],
): Work<Map<string, Naming[]>> {
  const sorted = [...forms].sort();
  const found = new Map(sorted.map((form) => [form, [] as Naming[]]));
  const add = (form: string, type: AttributeType, ids: Buffer): void => {
    if (ids.length > 0) found.get(form)!.push({ type, ids });
  };
  for (const { type, table, uids } of indexed) {
    for (let at = 0; at < sorted.length; at += TOGETHER) {
      const some = sorted.slice(at, at + TOGETHER).map((name) => Buffer.from(name, 'latin1'));
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

/** Those whose value goes on with a UID behind the DN: forms that begin with the DN's, `,#`. */
function idsWithUid(context: SearchContext, type: AttributeType, table: string, norm: Buffer): Maybe<Buffer> {
  const head = Buffer.concat([norm, UID]);
  const ids = context.store.rangePostings(table, uidRange(head.subarray(0, MAX_NORM)), ALL);
  // A form is cut behind `MAX_NORM` bytes, with `#`, too.
  const isCut = head.length >= MAX_NORM;
  if (!isCut) return ids;
  return isPromise(ids)
    ? ids.then((some) => verified(context, type, norm, some))
    : ids.length === 0
      ? ids
      : verified(context, type, norm, ids);
}

function uidRange(head: Buffer): KeyRange {
  const at = (byte: string) => Buffer.concat([Buffer.from('='), head, Buffer.from(byte)]);
  return { from: at('#'), to: at('$') };
}

/** Those of the entries that have a value with this DN. */
async function verified(context: SearchContext, type: AttributeType, norm: Buffer, ids: Buffer): Promise<Buffer> {
  const wanted = new Set([norm.toString('latin1')]);
  const right: Buffer[] = [];
  for (let at = 0; at < ids.length; at += UUID_BYTES) {
    const id = ids.subarray(at, at + UUID_BYTES);
    const row = await context.store.get(MASTER_TABLE.name, id);
    if (row && namesOneOf(context, row, type, wanted)) right.push(id);
  }
  return Buffer.concat(right);
}

/** By looking at every entry that has such an attribute. */
async function idsByLooking(
  context: SearchContext,
  types: ReadonlySet<AttributeType>,
  wanted: ReadonlySet<string>,
  until: Until | undefined,
): Promise<Naming[]> {
  const found: Naming[] = [];
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
        for (const type of types)
          if (namesOneOf(context, row, type, wanted)) found.push({ type, ids: Buffer.from(id) });
      },
      reference: () => undefined,
    },
  );
  return found;
}

function namesOneOf(context: SearchContext, row: Buffer, type: AttributeType, wanted: ReadonlySet<string>): boolean {
  const reader = context.reader.read(row);
  for (let i = 0; i < reader.count; i++) {
    if (reader.stored[i]!.description.type !== type) continue;
    for (let v = reader.firsts[i]!; v < reader.firsts[i + 1]!; v++) {
      const norm = type.equality!.normalize(withoutUid(type, reader.value(v)));
      if (norm && wanted.has(norm.toString('latin1'))) return true;
    }
  }
  return false;
}
