import type { EntryReader } from '../partition/model/entry-reader.js';
import { largeQualifiers } from '../partition/model/tables.js';
import type { ViewedEntry } from '../partition/model/viewer.js';
import { UNRESTRICTED } from '../partition/model/viewer.js';
import {
  type CompiledFilter,
  emptyCandidate,
  evaluate,
  FALSE,
  TRUE,
} from '../partition/read/filter/compiled-filter.js';
import type { FilterCompiler } from '../partition/read/filter/filter-compiler.js';
import type { AttributeType } from '../schema/schema-types.js';
import type { EntryTest, Requester } from './requester.js';
import { NO_RIGHTS } from './right.js';
import type { AccessRule, Who } from './rule.js';

/** Tests whether a rule applies to an entry. The caller has already found that the rule covers the entry's place. */
export type Condition = (entry: ViewedEntry) => boolean;

export interface CompiledRule {
  readonly rule: AccessRule;
  readonly filters: readonly CompiledFilter[] | undefined;
}

export function compileRule(compiler: FilterCompiler, rule: AccessRule): CompiledRule {
  const filters = rule.to.filters?.map(({ filter }) => compiler.compile(filter, UNRESTRICTED).filter);
  return { rule, filters };
}

/** Returns the condition for a rule to apply to an entry at its places; undefined if there is none. */
export function conditionOf(
  { rule, filters }: CompiledRule,
  test: EntryTest | undefined,
  requester: Requester,
  reader: EntryReader,
): Condition | undefined {
  const filterMatches = filters && filterCondition(filters, rule.deny !== NO_RIGHTS);
  const entryCondition = test && testCondition(test, requester, reader);
  if (!filterMatches || !entryCondition) return filterMatches ?? entryCondition;
  return (entry) => entryCondition(entry) && filterMatches(entry);
}

/**
 * Returns a condition that holds if at least one filter is True. In a rule that denies, a filter that is Undefined
 * counts as True, and so does an entry with large values outside its row, which filters cannot read.
 */
export function filterCondition(
  filters: readonly CompiledFilter[],
  denies: boolean,
): (entry: Pick<ViewedEntry, 'row'>) => boolean {
  const candidate = emptyCandidate();
  return ({ row }) => {
    candidate.row = row;
    if (!denies) return filters.some((filter) => evaluate(filter, candidate) === TRUE);
    return largeQualifiers(row) !== undefined || filters.some((filter) => evaluate(filter, candidate) !== FALSE);
  };
}

function testCondition(test: EntryTest, requester: Requester, reader: EntryReader): Condition {
  const { user } = requester;
  if (test.self) return ({ id }) => id.equals(user!.id);
  if (test.attribute) {
    const types = new Set(test.attribute.flatMap(({ subtypes }) => subtypes));
    return ({ row }) => hasDnValue(reader, row, types, user!.dn.norm);
  }
  if (test.allTests) {
    const conditions = test.allTests.map((part) => testCondition(part, requester, reader));
    return (entry) => conditions.every((part) => part(entry));
  }
  const innerCondition = testCondition(test.not!, requester, reader);
  return (entry) => !innerCondition(entry);
}

/** Whether one of the attributes contains the DN. */
function hasDnValue(reader: EntryReader, row: Buffer, types: ReadonlySet<AttributeType>, norm: Buffer): boolean {
  reader.read(row);
  for (let i = 0; i < reader.attributeCount; i++) {
    const { type } = reader.descriptions[i]!.description;
    if (!types.has(type)) continue;
    for (let v = reader.firstValues[i]!; v < reader.firstValues[i + 1]!; v++)
      if (type.equality!.normalize(reader.value(v))?.equals(norm)) return true;
  }
  return false;
}

/** Adds to `into` the types whose values the rule reads in entries. */
export function collectReadTypes({ rule, filters }: CompiledRule, into: Set<AttributeType>): void {
  const visit = (filter: CompiledFilter): void => {
    if (filter.kind === 'term') for (const type of filter.types) into.add(type);
    else if (filter.kind === 'not') visit(filter.part);
    else if (filter.kind !== 'undefined') filter.parts.forEach(visit);
  };
  filters?.forEach(visit);
  const visitWho = ({ attribute = [], not = [] }: Who): void => {
    for (const { subtypes } of attribute) for (const type of subtypes) into.add(type);
    not.forEach(visitWho);
  };
  visitWho(rule.who);
}
