import type { AttributeType } from '../schema/types.js';
import type { Maybe, Reader } from '../store/contract.js';
import { chain, isPromise } from '../store/maybe.js';
import type { CompiledFilter, Lookup, Term } from './filter.js';
import { commonIds, MAX_COMPARED } from './id-set.js';
import { ENTRY_UUID_OID, type Index, type IndexSet, OBJECT_CLASS_OID } from './indexes.js';
import type { RecentCounts } from './recent-counts.js';
import { type Counted, countSource, type Source, sourceIds } from './sources.js';
import { boundRange } from './store-filter.js';
import {
  cutNorm,
  EQUALITY,
  equalityPrefix,
  gramPrefix,
  MAX_NORM,
  PRESENCE_PREFIX,
  prefixEnd,
  UUID_BYTES,
} from './tables.js';

/** A part of the filter that indexes can answer: the union of `sources` holds every entry for which the filter is true. */
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

/** Ranges are read up to here to count them: an index has no constant-time count of a range. */
const COUNT_CAP = 2000;

/**
 * The cheapest index plan for the filter, or undefined where indexes cannot answer it: a term takes its own index
 * rows, an AND its best part, an OR the union of all its parts. Equality and presence counts are exact, ranges capped.
 */
export function planIndexes(
  filter: CompiledFilter,
  indexes: IndexSet,
  reader: Reader,
  consider?: Consider,
): Maybe<IndexPlan | undefined> {
  switch (filter.kind) {
    case 'undefined':
      return { sources: [], count: 0, term: '' };
    case 'not':
      return undefined;
    case 'term':
      return (consider ? undefined : fetchOne(filter, indexes, reader)) ?? planTerm(filter, indexes, reader, consider);
    case 'and':
      return planAnd(consider ? filter.of : rarestFirst(filter.of), 0, undefined, indexes, reader, consider);
    case 'or':
      return planOr(filter.of, 0, { sources: [], count: 0, term: '' }, indexes, reader, consider);
  }
}

/**
 * Parts of an AND in the order in which they are looked at, which ends at one that leaves a single entry: equality first,
 * and there objectClass last.
 */
function rarestFirst(parts: readonly CompiledFilter[]): readonly CompiledFilter[] {
  const rank = (part: CompiledFilter): number => {
    if (part.kind !== 'term' || part.lookup?.kind !== 'equality') return 2;
    return part.types[0]?.oid === OBJECT_CLASS_OID ? 1 : 0;
  };
  for (let i = 1; i < parts.length; i++)
    if (rank(parts[i]!) < rank(parts[i - 1]!)) return [...parts].sort((a, b) => rank(a) - rank(b));
  return parts;
}

/** As `planIndexes` for a part of a filter: counted, not read. */
function planPart(
  filter: CompiledFilter,
  indexes: IndexSet,
  reader: Reader,
  consider?: Consider,
): Maybe<IndexPlan | undefined> {
  return filter.kind === 'term'
    ? planTerm(filter, indexes, reader, consider)
    : planIndexes(filter, indexes, reader, consider);
}

/** Up to so many ids are read instead of counted. */
const FETCH = 128;

/** A filter that is one equality over one attribute: the commonest of all. Its ids are read at once, which also counts them. */
function fetchOne(term: Term, indexes: IndexSet, reader: Reader): Maybe<IndexPlan | undefined> {
  if (term.lookup?.kind !== 'equality' || term.types.length !== 1) return undefined;
  const type = term.types[0]!;
  const index = indexes.of(type);
  if (!index?.ready) return undefined;
  const prefix = equalityPrefix(cutNorm(term.lookup.norm));
  const make = (ids: Buffer): IndexPlan | undefined => {
    const count = ids.length / UUID_BYTES;
    return count < FETCH ? { sources: [{ table: index.table, prefix }], ids, count, term: type.name } : undefined;
  };
  const ids = reader.postings(index.table, prefix, FETCH);
  return isPromise(ids) ? ids.then((i) => make(i) ?? planTerm(term, indexes, reader)) : make(ids);
}

function planAnd(
  parts: readonly CompiledFilter[],
  from: number,
  best: IndexPlan | undefined,
  indexes: IndexSet,
  reader: Reader,
  consider?: Consider,
): Maybe<IndexPlan | undefined> {
  let found = best;
  for (let i = from; i < parts.length; i++) {
    if (found && found.count <= 1 && !consider) break;
    const part = parts[i]!;
    // The first is the rarest by its kind: its ids are worth reading at once.
    const plan = found ? planPart(part, indexes, reader, consider) : planIndexes(part, indexes, reader, consider);
    if (isPromise(plan)) return plan.then((p) => planAnd(parts, i + 1, cheaper(found, p), indexes, reader, consider));
    found = cheaper(found, plan);
  }
  return found;
}

function cheaper(a: IndexPlan | undefined, b: IndexPlan | undefined): IndexPlan | undefined {
  if (!a || !b) return a ?? b;
  return b.count < a.count ? b : a;
}

function planOr(
  parts: readonly CompiledFilter[],
  from: number,
  sum: IndexPlan,
  indexes: IndexSet,
  reader: Reader,
  consider?: Consider,
): Maybe<IndexPlan | undefined> {
  let all = sum;
  for (let i = from; i < parts.length; i++) {
    const plan = planPart(parts[i]!, indexes, reader, consider);
    if (isPromise(plan)) return plan.then((p) => p && planOr(parts, i + 1, union(all, p), indexes, reader, consider));
    if (!plan) return undefined;
    all = union(all, plan);
  }
  return all;
}

function union(a: IndexPlan, b: IndexPlan): IndexPlan {
  return {
    sources: [...a.sources, ...b.sources],
    count: a.count + b.count,
    term: a.term ? `${a.term} ${b.term}` : b.term,
  };
}

function planTerm(term: Term, indexes: IndexSet, reader: Reader, consider?: Consider): Maybe<IndexPlan | undefined> {
  const refuse = (why: string): undefined => {
    consider?.(term, undefined, why);
    return undefined;
  };
  if (!term.lookup || term.types.length === 0) return refuse('no index can answer this match');
  const choices: Source[][] = [];
  for (const type of term.types) {
    if (type.oid === ENTRY_UUID_OID && term.lookup.kind === 'equality' && term.lookup.norm.length === UUID_BYTES) {
      choices.push([{ ids: term.lookup.norm }]);
      continue;
    }
    const index = indexes.of(type);
    if (!index) return refuse(`${type.name} has no index`);
    if (!index.ready) return refuse(`the index of ${type.name} is being built`);
    if (term.lookup.kind === 'presence' && !index.presence) return refuse(`every entry has ${type.name}`);
    const sources = termSources(index, term.lookup);
    if (sources.length === 0)
      return refuse(`the index of ${type.name} has no substring rows, or the part is shorter than three characters`);
    choices.push(sources);
  }
  const name = term.types.map((type: AttributeType) => type.name).join(',');
  const recent = consider ? undefined : indexes.recent;
  return sumSources(choices, 0, [], 0, { reader, recent }, (sources, count) => {
    consider?.(term, count, term.lookup!.kind);
    return { sources, count, term: name };
  });
}

/** Where a plan counts, and what it need not count again. */
interface Counting {
  readonly reader: Reader;
  readonly recent: RecentCounts | undefined;
}

/** For each type the source with the fewest rows; their counts added up. */
function sumSources(
  choices: readonly (readonly Source[])[],
  from: number,
  taken: readonly Source[],
  count: number,
  counting: Counting,
  done: (sources: readonly Source[], count: number) => IndexPlan,
): Maybe<IndexPlan> {
  let sources = taken;
  let total = count;
  for (let i = from; i < choices.length; i++) {
    const best = fewest(choices[i]!, counting);
    if (isPromise(best)) {
      return best.then((b) => sumSources(choices, i + 1, [...sources, b.source], total + b.count, counting, done));
    }
    sources = [...sources, best.source];
    total += best.count;
  }
  return done(sources, total);
}

/** Of alternatives the one with the fewest rows; of long ones, what they have in common. Its count is of now. */
function fewest(sources: readonly Source[], counting: Counting): Maybe<Counted> {
  if (sources.length === 1) return countSource(sources[0]!, counting.reader, COUNT_CAP);
  return chain(countEach(sources, 0, [], counting), (counted) => {
    const [best, ...others] = [...counted].sort((a, b) => a.count - b.count);
    return chain(narrowed(best!, others, counting.reader), (found) =>
      found.remembered ? countSource(found.source, counting.reader, COUNT_CAP) : found,
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

function countEach(
  sources: readonly Source[],
  from: number,
  found: readonly Counted[],
  counting: Counting,
): Maybe<readonly Counted[]> {
  const all = [...found];
  for (let i = from; i < sources.length; i++) {
    const counted = countSource(sources[i]!, counting.reader, COUNT_CAP, counting.recent);
    if (isPromise(counted)) return counted.then((one) => countEach(sources, i + 1, [...all, one], counting));
    all.push(counted);
  }
  return all;
}

/**
 * Where lists lie while they are compared, if the engine answers at once. Memory of its own for each would be garbage outside
 * the heap, of which a few thousand searches a second make the collector stop the thread five times a second.
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
