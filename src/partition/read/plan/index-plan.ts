import type { Maybe, Reader } from '../../../store/contract.js';
import { chain, isPromise, reduceMaybe } from '../../../store/maybe.js';
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
import { type CountedSource, countSource, type Source, sourceIds } from './sources.js';

/** A plan to answer a filter by indexes: `sources` together have all entries for which the filter is True. */
export interface IndexPlan {
  readonly sources: readonly Source[];
  /** The ids of all candidates, if planning has read them all. */
  readonly ids?: Buffer;
  /** Number of index rows. In a range at most `COUNT_CAP` rows are counted. */
  readonly count: number;
  /** The attribute types whose indexes the plan uses, for `explain`. */
  readonly typeNames: string;
}

/** Called for each term that the planner considers, for `explain`. */
export type TermReporter = (term: Term, count: number | undefined, reason: string) => void;

export interface PlanContext {
  readonly indexes: IndexSet;
  readonly reader: Reader;
  readonly reportTerm?: TermReporter | undefined;
  /** What becomes of a range that was read: a list of ids (default), or `kept`. `none`: plans have no ranges. */
  readonly rangeUse?: 'ids' | 'kept' | 'none' | undefined;
  /** Returns the sorted ids of all possible members of a group; undefined if they cannot be listed. */
  readonly membersOf: (group: Buffer) => Maybe<Buffer | undefined>;
  /** Returns the sorted ids of the entries in a chain. Absent: other entries must not be read. */
  readonly inChain?: ((chain: Chain) => Maybe<Buffer>) | undefined;
  /** Called at intervals during planning, so that other work can run. */
  readonly pause?: (() => Maybe<void>) | undefined;
}

/** The most rows of a range that are counted. Counting a range reads its rows. */
const COUNT_CAP = 2000;

/**
 * Returns the cheapest index plan for the filter; undefined if indexes cannot answer it. A term uses its own index
 * rows, an AND its cheapest operand, an OR all operands. Counts of equality and presence are exact.
 */
export function planIndexes(filter: CompiledFilter, context: PlanContext): Maybe<IndexPlan | undefined> {
  switch (filter.kind) {
    case 'undefined':
      return { sources: [], count: 0, typeNames: '' };
    case 'not':
      return undefined;
    case 'term':
      return (context.reportTerm ? undefined : planEquality(filter, context)) ?? planTerm(filter, context);
    case 'and':
      return planAnd(filter.parts, context);
    case 'or':
      return planOr(filter.parts, context);
  }
}

/** With up to this number of candidates, each is checked for membership in a group, and its members are not listed. */
const FEW_MEMBERS = 1000;

/**
 * Orders the operands of an AND: equalities, equality on objectClass, further terms, groups and chains. Planning stops
 * at the first operand with a single candidate.
 */
function orderOperands(operands: readonly CompiledFilter[]): readonly CompiledFilter[] {
  const rank = (operand: CompiledFilter): number => {
    if (operand.kind !== 'term') return 2;
    if (operand.group !== undefined || operand.chain?.kind === 'chain') return 3;
    if (operand.lookup?.kind !== 'equality') return 2;
    return operand.types[0]?.oid === OBJECT_CLASS_OID ? 1 : 0;
  };
  for (let i = 1; i < operands.length; i++)
    if (rank(operands[i]!) < rank(operands[i - 1]!)) return [...operands].sort((a, b) => rank(a) - rank(b));
  return operands;
}

/** Like `planIndexes`, for an operand. Counts the index rows without reading ids. */
function planOperand(filter: CompiledFilter, context: PlanContext): Maybe<IndexPlan | undefined> {
  return filter.kind === 'term' ? planTerm(filter, context) : planIndexes(filter, context);
}

/** The most ids of an equality that are read to count them. */
const MAX_READ = 128;

/**
 * Plans an equality on one attribute, the most common filter. Reads the ids at once, which also counts them. Returns
 * undefined for any other term.
 */
function planEquality(term: Term, context: PlanContext): Maybe<IndexPlan | undefined> {
  if (term.lookup?.kind !== 'equality' || term.types.length !== 1) return undefined;
  const type = term.types[0]!;
  const index = context.indexes.ofType(type);
  if (!index?.isReady) return undefined;
  const prefix = equalityPrefix(cutNorm(term.lookup.norm));
  const planFor = (ids: Buffer): IndexPlan | undefined => {
    const count = ids.length / UUID_BYTES;
    return count < MAX_READ
      ? { sources: [{ table: index.table, prefix }], ids, count, typeNames: type.name }
      : undefined;
  };
  const chainIds = term.moreIds ?? (term.chain && context.inChain?.(term.chain));
  const ids = context.reader.postings(index.table, prefix, MAX_READ);
  if (!chainIds) return isPromise(ids) ? ids.then((read) => planFor(read) ?? planTerm(term, context)) : planFor(ids);
  return chain(ids, (read) =>
    chain(chainIds, (more) => (more.length === 0 && planFor(read)) || planTerm(term, context)),
  );
}

function planAnd(operands: readonly CompiledFilter[], context: PlanContext): Maybe<IndexPlan | undefined> {
  const orderedOperands = context.reportTerm ? operands : orderOperands(operands);
  return reduceMaybe(orderedOperands, undefined as IndexPlan | undefined, (best, operand) => {
    const fewCount = operand.kind === 'term' && operand.group ? FEW_MEMBERS : 1;
    if (best && best.count <= fewCount && !context.reportTerm) return best;
    // The first operand probably has the fewest candidates, so its ids are read at once.
    const plan = best ? planOperand(operand, context) : planIndexes(operand, context);
    return chain(plan, (found) => afterPause(context, cheaper(best, found)));
  });
}

function cheaper(a: IndexPlan | undefined, b: IndexPlan | undefined): IndexPlan | undefined {
  if (!a || !b) return a ?? b;
  return b.count < a.count ? b : a;
}

/** Returns the value, after letting other work run. */
function afterPause<T>({ pause }: PlanContext, value: T): Maybe<T> {
  const maybePause = pause?.();
  return isPromise(maybePause) ? maybePause.then(() => value) : value;
}

/** Returns undefined if an operand has no plan. */
function planOr(operands: readonly CompiledFilter[], context: PlanContext): Maybe<IndexPlan | undefined> {
  const plans: IndexPlan[] = [];
  const areAllPlanned = reduceMaybe(operands, true, (isPlanned, operand) => {
    if (!isPlanned) return false;
    return chain(planOperand(operand, context), (plan) => {
      if (!plan) return false;
      plans.push(plan);
      return afterPause(context, true);
    });
  });
  return chain(areAllPlanned, (isPlanned) => (isPlanned ? unionPlan(plans) : undefined));
}

function unionPlan(plans: readonly IndexPlan[]): IndexPlan {
  return {
    sources: plans.flatMap(({ sources }) => sources),
    count: plans.reduce((sum, { count }) => sum + count, 0),
    typeNames: [...new Set(plans.map(({ typeNames }) => typeNames))].filter(Boolean).join(' '),
  };
}

function planTerm(term: Term, context: PlanContext): Maybe<IndexPlan | undefined> {
  const { reportTerm } = context;
  if (term.group) return planMembers(term, term.group, context);
  if (term.chain?.kind === 'chain' && context.inChain) return planChain(term, term.chain, context.inChain, context);
  const sourceChoices = sourcesByType(term, context);
  if (typeof sourceChoices === 'string') {
    reportTerm?.(term, undefined, sourceChoices);
    return undefined;
  }
  const countedSources = reduceMaybe(sourceChoices, [] as CountedSource[], (sources, alternatives) =>
    chain(chooseSource(alternatives, context), (source) => {
      sources.push(source);
      return sources;
    }),
  );
  const chainIds = term.moreIds ?? (term.chain && context.inChain?.(term.chain));
  return chain(countedSources, (countedAlternatives) =>
    chain(chainIds, (ids) => {
      if (ids && ids.length > 0) countedAlternatives.push({ source: { ids }, count: ids.length / UUID_BYTES });
      const count = countedAlternatives.reduce((sum, source) => sum + source.count, 0);
      reportTerm?.(term, count, term.lookup!.kind);
      const typeNames = term.types.map(({ name }) => name).join(',');
      return { sources: countedAlternatives.map(({ source }) => source), count, typeNames };
    }),
  );
}

function planMembers(term: Term, group: Buffer, { membersOf, reportTerm }: PlanContext): Maybe<IndexPlan | undefined> {
  return chain(membersOf(group), (ids) => {
    const count = ids && ids.length / UUID_BYTES;
    reportTerm?.(term, count, ids ? 'members' : 'the members of the group cannot be gone through');
    return ids && { sources: [{ ids }], count: count!, typeNames: term.types[0]!.name };
  });
}

function planChain(
  term: Term,
  termChain: Chain,
  inChain: NonNullable<PlanContext['inChain']>,
  { reportTerm }: PlanContext,
): Maybe<IndexPlan> {
  return chain(inChain(termChain), (ids) => {
    const count = ids.length / UUID_BYTES;
    reportTerm?.(term, count, 'chain');
    return { sources: [{ ids }], count, typeNames: term.types[0]!.name };
  });
}

/** Returns alternative sources for each type of a term, or the reason why no index can answer the term. */
function sourcesByType({ lookup, types }: Term, { indexes, rangeUse }: PlanContext): Source[][] | string {
  if (!lookup || types.length === 0) return 'no index can answer this match';
  const sourceChoices: Source[][] = [];
  for (const type of types) {
    const ids = type.oid === ENTRY_UUID_OID ? namedIds(lookup) : undefined;
    if (ids) {
      sourceChoices.push([{ ids }]);
      continue;
    }
    const index = indexes.ofType(type);
    if (!index) return `${type.name} has no index`;
    if (!index.isReady) return `the index of ${type.name} is being built`;
    if (lookup.kind === 'presence' && !index.hasPresence) return `every entry has ${type.name}`;
    const sources = termSources(index, lookup).filter((source) => rangeUse !== 'none' || !('range' in source));
    if (sources.length === 0)
      return `the index of ${type.name} has no substring rows, or the part is shorter than three characters`;
    sourceChoices.push(sources);
  }
  return sourceChoices;
}

/** Returns the entryUUIDs in a lookup on entryUUID. They are the keys of master rows, so no index is needed. */
function namedIds(lookup: Lookup): Buffer | undefined {
  if (lookup.kind !== 'equality' && lookup.kind !== 'anyOf') return undefined;
  const norms = lookup.kind === 'anyOf' ? lookup.norms : [lookup.norm];
  return norms.every(({ length }) => length === UUID_BYTES) ? Buffer.concat(norms) : undefined;
}

/**
 * Returns the alternative with the fewest rows or, if all have many rows, an intersection of alternatives. Its count is
 * current, not a cached one.
 */
function chooseSource(sources: readonly Source[], context: PlanContext): Maybe<CountedSource> {
  const { reader, pause } = context;
  const keepRanges = context.rangeUse === 'kept';
  if (sources.length === 1) return countSource(sources[0]!, reader, COUNT_CAP, { pause, keepRanges });
  const recentCounts = context.reportTerm ? undefined : context.indexes.recentCounts;
  const countedSources = reduceMaybe(sources, [] as CountedSource[], (list, source) =>
    chain(countSource(source, reader, COUNT_CAP, { recentCounts, keepRanges }), (result) => {
      list.push(result);
      return list;
    }),
  );
  return chain(countedSources, (countedAlternatives) => {
    const [best, ...otherSources] = countedAlternatives.sort((a, b) => a.count - b.count);
    return chain(narrowSource(best!, otherSources, reader), (found) =>
      found.isRemembered ? countSource(found.source, reader, COUNT_CAP) : found,
    );
  });
}

/**
 * Sources with up to this number of candidates are not narrowed. The number grows by 1 for every `IDS_PER_CANDIDATE`
 * ids of the next list, since reading these ids costs as much as examining one candidate.
 */
const FEW = 2;
const IDS_PER_CANDIDATE = 256;

/** Intersects a source with the next longer sources in turn, as long as that saves time. */
function narrowSource(best: CountedSource, others: readonly CountedSource[], reader: Reader): Maybe<CountedSource> {
  const [nextSource, ...furtherSources] = others;
  if (!nextSource || nextSource.count > MAX_COMPARED || best.count <= FEW + nextSource.count / IDS_PER_CANDIDATE)
    return best;
  return chain(intersect(best, nextSource, reader), (both) =>
    both ? narrowSource(both, furtherSources, reader) : best,
  );
}

/**
 * Memory for the two lists of `intersect` on a store that answers synchronously. Allocating memory for each list would
 * create garbage outside the heap: at some thousand searches a second the collector would stop the thread five times a
 * second.
 */
const listMemory = [
  Buffer.allocUnsafeSlow((MAX_COMPARED + 1) * UUID_BYTES),
  Buffer.allocUnsafeSlow((MAX_COMPARED + 1) * UUID_BYTES),
] as const;

/** Returns undefined if a list has grown since it was counted. */
function intersect(a: CountedSource, b: CountedSource, reader: Reader): Maybe<CountedSource | undefined> {
  const readIds = ({ source }: CountedSource, into: Buffer): Maybe<Buffer> =>
    sourceIds(source, reader, MAX_COMPARED + 1, undefined, into);
  return chain(readIds(a, listMemory[0]), (idsOfA) =>
    chain(readIds(b, listMemory[1]), (idsOfB) => {
      if (Math.max(idsOfA.length, idsOfB.length) > MAX_COMPARED * UUID_BYTES) return undefined;
      const ids = commonIds(idsOfA, idsOfB);
      return { source: { ids }, count: ids.length / UUID_BYTES };
    }),
  );
}

/** Returns alternative sources. Each of them has all matching entries. */
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
  if (!index.hasAllSubstrings) return sources;
  for (const substring of [...lookup.any, ...(lookup.final ? [lookup.final] : [])]) {
    // About eight keys of each part suffice to find a rare one.
    const stride = Math.max(1, Math.floor((substring.length - 2) / 8));
    for (let offset = 0; offset + 3 <= substring.length; offset += stride)
      sources.push({ table, prefix: gramPrefix(substring, offset) });
  }
  return sources;
}
