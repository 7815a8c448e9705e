import type { Maybe, Reader } from '../../../store/contract.js';
import { chain, fold, isPromise } from '../../../store/maybe.js';
import { ENTRY_UUID_OID, type Index, type IndexSet, OBJECT_CLASS_OID } from '../../model/index-set.js';
import {
  cutNorm,
  EQUALITY,
  equalityPrefix,
  gramPrefix,
  PRESENCE_PREFIX,
  prefixEnd,
  UUID_BYTES,
} from '../../model/tables.js';
import { MAX_NORM } from '../../model/thresholds.js';
import type { Chain, CompiledFilter, Lookup, Term } from '../filter/compiled-filter.js';
import { boundRange } from '../filter/store-filter.js';
import { commonIds, MAX_COMPARED } from './id-set.js';
import { type Counted, countSource, type Source, sourceIds } from './sources.js';

/**
 * A part of the filter that indexes can answer: the union of `sources` holds every entry for which the filter is true.
 */
export interface IndexPlan {
  readonly sources: readonly Source[];
  /** The candidates themselves, where finding their number brought them along. */
  readonly ids?: Buffer;
  /** Number of index rows, capped at `COUNT_CAP` a source for ranges. */
  readonly count: number;
  readonly term: string;
}

/** Called for each term that was considered, for `explain`. */
export type Consider = (term: Term, count: number | undefined, why: string) => void;

/** What a plan is made with. */
export interface Asking {
  readonly indexes: IndexSet;
  readonly reader: Reader;
  readonly consider?: Consider | undefined;
  /** Ranges that are read to count them become their ids, or stay ranges, or there are to be none. */
  readonly ranges?: 'ids' | 'kept' | 'none' | undefined;
  /** Ids, rising, of all entries that may be in a group; undefined where it cannot tell. */
  readonly membersOf: (group: Buffer) => Maybe<Buffer | undefined>;
  /** Ids, rising, of the entries in a chain; absent where nothing is to be looked up in other entries. */
  readonly inChain?: ((chain: Chain) => Maybe<Buffer>) | undefined;
  /** Called again and again while the plan is made: lets others through where that takes long. */
  readonly pause?: (() => Maybe<void>) | undefined;
}

/** Ranges are read up to here to count them: an index has no constant-time count of a range. */
const COUNT_CAP = 2000;

/**
 * The cheapest index plan for the filter, or undefined where indexes cannot answer it: a term takes its own index
 * rows, an AND its best part, an OR the union of all its parts. Equality and presence counts are exact, ranges capped.
 */
export function planIndexes(filter: CompiledFilter, asking: Asking): Maybe<IndexPlan | undefined> {
  switch (filter.kind) {
    case 'undefined':
      return { sources: [], count: 0, term: '' };
    case 'not':
      return undefined;
    case 'term':
      return (asking.consider ? undefined : fetchOne(filter, asking)) ?? planTerm(filter, asking);
    case 'and':
      return planAnd(filter.of, asking);
    case 'or':
      return planOr(filter.of, asking);
  }
}

/** With so few candidates it is asked of each whether it is in a group: its members are not gone through. */
const FEW_MEMBERS = 1000;

/** Whether finding the candidates means going from entry to entry. */
function isWayOff(part: CompiledFilter): boolean {
  return part.kind === 'term' && (part.group !== undefined || part.chain?.by === 'chain');
}

/**
 * Parts of an AND in the order in which they are looked at, which ends at one that leaves a single entry: equality
 * first, and there objectClass last; groups and chains behind all others.
 */
function rarestFirst(parts: readonly CompiledFilter[]): readonly CompiledFilter[] {
  const rank = (part: CompiledFilter): number => {
    if (isWayOff(part)) return 3;
    if (part.kind !== 'term' || part.lookup?.kind !== 'equality') return 2;
    return part.types[0]?.oid === OBJECT_CLASS_OID ? 1 : 0;
  };
  for (let i = 1; i < parts.length; i++)
    if (rank(parts[i]!) < rank(parts[i - 1]!)) return [...parts].sort((a, b) => rank(a) - rank(b));
  return parts;
}

/** As `planIndexes` for a part of a filter: counted, not read. */
function planPart(filter: CompiledFilter, asking: Asking): Maybe<IndexPlan | undefined> {
  return filter.kind === 'term' ? planTerm(filter, asking) : planIndexes(filter, asking);
}

/** Up to so many ids are read instead of counted. */
const FETCH = 128;

/**
 * A filter that is one equality over one attribute: the commonest of all. Its ids are read at once, which also counts
 * them.
 */
function fetchOne(term: Term, asking: Asking): Maybe<IndexPlan | undefined> {
  if (term.lookup?.kind !== 'equality' || term.types.length !== 1) return undefined;
  const type = term.types[0]!;
  const index = asking.indexes.of(type);
  if (!index?.ready) return undefined;
  const prefix = equalityPrefix(cutNorm(term.lookup.norm));
  const make = (ids: Buffer): IndexPlan | undefined => {
    const count = ids.length / UUID_BYTES;
    return count < FETCH ? { sources: [{ table: index.table, prefix }], ids, count, term: type.name } : undefined;
  };
  const more = term.chain && asking.inChain?.(term.chain);
  const ids = asking.reader.postings(index.table, prefix, FETCH);
  if (!more) return isPromise(ids) ? ids.then((i) => make(i) ?? planTerm(term, asking)) : make(ids);
  return chain(ids, (i) => chain(more, (others) => (others.length === 0 && make(i)) || planTerm(term, asking)));
}

function planAnd(parts: readonly CompiledFilter[], asking: Asking): Maybe<IndexPlan | undefined> {
  const ordered = asking.consider ? parts : rarestFirst(parts);
  return fold(ordered, undefined as IndexPlan | undefined, (best, part) => {
    const enough = part.kind === 'term' && part.group ? FEW_MEMBERS : 1;
    if (best && best.count <= enough && !asking.consider) return best;
    // The first is the rarest by its kind: its ids are worth reading at once.
    const plan = best ? planPart(part, asking) : planIndexes(part, asking);
    return chain(plan, (found) => paused(asking, cheaper(best, found)));
  });
}

function cheaper(a: IndexPlan | undefined, b: IndexPlan | undefined): IndexPlan | undefined {
  if (!a || !b) return a ?? b;
  return b.count < a.count ? b : a;
}

/** The value, when others have been let through. */
function paused<T>({ pause }: Asking, value: T): Maybe<T> {
  const passed = pause?.();
  return isPromise(passed) ? passed.then(() => value) : value;
}

/** Undefined where one of the parts has no plan. */
function planOr(parts: readonly CompiledFilter[], asking: Asking): Maybe<IndexPlan | undefined> {
  const plans: IndexPlan[] = [];
  const all = fold(parts, true, (before, part) => {
    if (!before) return false;
    return chain(planPart(part, asking), (plan) => {
      if (!plan) return false;
      plans.push(plan);
      return paused(asking, true);
    });
  });
  return chain(all, (every) => (every ? union(plans) : undefined));
}

function union(plans: readonly IndexPlan[]): IndexPlan {
  return {
    sources: plans.flatMap(({ sources }) => sources),
    count: plans.reduce((sum, { count }) => sum + count, 0),
    term: [...new Set(plans.map(({ term }) => term))].filter(Boolean).join(' '),
  };
}

function planTerm(term: Term, asking: Asking): Maybe<IndexPlan | undefined> {
  const { consider } = asking;
  if (term.group) return planMembers(term, term.group, asking);
  if (term.chain?.by === 'chain' && asking.inChain) return planChain(term, term.chain, asking.inChain, asking);
  const choices = choicesOf(term, asking);
  if (typeof choices === 'string') {
    consider?.(term, undefined, choices);
    return undefined;
  }
  const taken = fold(choices, [] as Counted[], (sources, alternatives) =>
    chain(fewest(alternatives, asking), (counted) => {
      sources.push(counted);
      return sources;
    }),
  );
  const more = term.chain && asking.inChain?.(term.chain);
  return chain(taken, (all) =>
    chain(more, (ids) => {
      if (ids && ids.length > 0) all.push({ source: { ids }, count: ids.length / UUID_BYTES });
      const count = all.reduce((sum, one) => sum + one.count, 0);
      consider?.(term, count, term.lookup!.kind);
      return { sources: all.map(({ source }) => source), count, term: term.types.map(({ name }) => name).join(',') };
    }),
  );
}

function planMembers(term: Term, group: Buffer, { membersOf, consider }: Asking): Maybe<IndexPlan | undefined> {
  return chain(membersOf(group), (ids) => {
    const count = ids && ids.length / UUID_BYTES;
    consider?.(term, count, ids ? 'members' : 'the members of the group cannot be gone through');
    return ids && { sources: [{ ids }], count: count!, term: term.types[0]!.name };
  });
}

function planChain(
  term: Term,
  links: Chain,
  inChain: NonNullable<Asking['inChain']>,
  { consider }: Asking,
): Maybe<IndexPlan> {
  return chain(inChain(links), (ids) => {
    const count = ids.length / UUID_BYTES;
    consider?.(term, count, 'chain');
    return { sources: [{ ids }], count, term: term.types[0]!.name };
  });
}

/** For each type of a term the sources of which any one will do, or why no index can answer it. */
function choicesOf({ lookup, types }: Term, { indexes, ranges }: Asking): Source[][] | string {
  if (!lookup || types.length === 0) return 'no index can answer this match';
  const choices: Source[][] = [];
  for (const type of types) {
    const ids = type.oid === ENTRY_UUID_OID ? idsOf(lookup) : undefined;
    if (ids) {
      choices.push([{ ids }]);
      continue;
    }
    const index = indexes.of(type);
    if (!index) return `${type.name} has no index`;
    if (!index.ready) return `the index of ${type.name} is being built`;
    if (lookup.kind === 'presence' && !index.presence) return `every entry has ${type.name}`;
    const sources = termSources(index, lookup).filter((source) => ranges !== 'none' || !('range' in source));
    if (sources.length === 0)
      return `the index of ${type.name} has no substring rows, or the part is shorter than three characters`;
    choices.push(sources);
  }
  return choices;
}

/** The entryUUIDs that a lookup of entryUUID names: they are the keys of the rows. */
function idsOf(lookup: Lookup): Buffer | undefined {
  if (lookup.kind !== 'equality' && lookup.kind !== 'anyOf') return undefined;
  const norms = lookup.kind === 'anyOf' ? lookup.norms : [lookup.norm];
  return norms.every(({ length }) => length === UUID_BYTES) ? Buffer.concat(norms) : undefined;
}

/** Of alternatives the one with the fewest rows; of long ones, what they have in common. Its count is of now. */
function fewest(sources: readonly Source[], asking: Asking): Maybe<Counted> {
  const { reader, pause } = asking;
  const keepRanges = asking.ranges === 'kept';
  if (sources.length === 1) return countSource(sources[0]!, reader, COUNT_CAP, { pause, keepRanges });
  const recent = asking.consider ? undefined : asking.indexes.recent;
  const counted = fold(sources, [] as Counted[], (found, source) =>
    chain(countSource(source, reader, COUNT_CAP, { recent, keepRanges }), (one) => {
      found.push(one);
      return found;
    }),
  );
  return chain(counted, (all) => {
    const [best, ...others] = all.sort((a, b) => a.count - b.count);
    return chain(narrowed(best!, others, reader), (found) =>
      found.remembered ? countSource(found.source, reader, COUNT_CAP) : found,
    );
  });
}

/** Up to so many candidates are looked at, and one more for so many ids of the next list: reading it costs as much. */
const FEW = 2;
const IDS_A_CANDIDATE = 256;

/** Narrows a source by the next longer ones, one after another, while it is worth it. */
function narrowed(best: Counted, others: readonly Counted[], reader: Reader): Maybe<Counted> {
  const [next, ...rest] = others;
  if (!next || next.count > MAX_COMPARED || best.count <= FEW + next.count / IDS_A_CANDIDATE) return best;
  return chain(common(best, next, reader), (both) => (both ? narrowed(both, rest, reader) : best));
}

/**
 * Where lists lie while they are compared, if the engine answers at once. Memory of its own for each would be garbage
 * outside the heap, of which a few thousand searches a second make the collector stop the thread five times a second.
 */
const compared = [
  Buffer.allocUnsafeSlow((MAX_COMPARED + 1) * UUID_BYTES),
  Buffer.allocUnsafeSlow((MAX_COMPARED + 1) * UUID_BYTES),
] as const;

/** Undefined when one of them has grown since it was counted. */
function common(a: Counted, b: Counted, reader: Reader): Maybe<Counted | undefined> {
  const idsOf = ({ source }: Counted, into: Buffer): Maybe<Buffer> =>
    sourceIds(source, reader, MAX_COMPARED + 1, undefined, into);
  return chain(idsOf(a, compared[0]), (some) =>
    chain(idsOf(b, compared[1]), (others) => {
      if (Math.max(some.length, others.length) > MAX_COMPARED * UUID_BYTES) return undefined;
      const ids = commonIds(some, others);
      return { source: { ids }, count: ids.length / UUID_BYTES };
    }),
  );
}

/** Alternatives, each of which alone holds every match. */
function termSources(index: Index, lookup: Lookup): Source[] {
  const { table } = index;
  switch (lookup.kind) {
    case 'equality':
      return [{ table, prefix: equalityPrefix(cutNorm(lookup.norm)) }];
    case 'anyOf':
      return [{ table, prefixes: lookup.norms.map((norm) => equalityPrefix(cutNorm(norm))) }];
    case 'presence':
      return [{ table, prefix: PRESENCE_PREFIX }];
    case 'from':
    case 'upTo':
      return [{ table, range: boundRange(EQUALS, lookup) }];
    case 'pattern':
      return patternSources(index, lookup);
  }
}

const EQUALS = Buffer.of(EQUALITY);

function patternSources(index: Index, lookup: Extract<Lookup, { kind: 'pattern' }>): Source[] {
  const { table } = index;
  const sources: Source[] = [];
  if (lookup.initial && lookup.initial.length > 0) {
    const prefix = Buffer.concat([EQUALS, lookup.initial.subarray(0, MAX_NORM)]);
    sources.push({ table, range: { from: prefix, to: prefixEnd(prefix) } });
  }
  if (!index.substringReady) return sources;
  for (const part of [...lookup.any, ...(lookup.final ? [lookup.final] : [])]) {
    // A few grams of each part are enough to find a rare one.
    const step = Math.max(1, Math.floor((part.length - 2) / 8));
    for (let at = 0; at + 3 <= part.length; at += step) sources.push({ table, prefix: gramPrefix(part, at) });
  }
  return sources;
}
