import type { AttributeType } from '../../../schema/schema-types.js';
import { isComputed } from '../../model/computed.js';
import { normRule } from '../../model/implied.js';
import { ENTRY_UUID_OID, type IndexSet, isMissing, type MissingIndex } from '../../model/index-set.js';
import type { CompiledFilter, Lookup, Term } from '../filter/compiled-filter.js';

/** Returns the indexes that the filter lacks, each once; none where no indexes could answer the filter. */
export function missingIndexes(indexes: IndexSet, filter: CompiledFilter): MissingIndex[] {
  const lacked = (neededIndexes(filter) ?? []).filter((index) => isMissing(indexes, index));
  return [...new Map(lacked.map((index) => [indexCommand(index), index])).values()];
}

/** Returns the indexes that answer an OR together, or an AND each for itself; undefined where no index can. */
function neededIndexes(filter: CompiledFilter): MissingIndex[] | undefined {
  if (filter.kind === 'undefined') return [];
  if (filter.kind === 'not') return undefined;
  if (filter.kind === 'term') return neededByTerm(filter);
  const lists = filter.parts.map(neededIndexes);
  const answers = lists.filter((list) => list !== undefined);
  const isAnswered = filter.kind === 'or' ? answers.length === lists.length : answers.length > 0;
  return isAnswered ? answers.flat() : undefined;
}

function neededByTerm({ types, lookup, group, chain }: Term): MissingIndex[] | undefined {
  if (group) return [];
  const ofChain = chain ? [{ type: chain.type, substring: false }] : [];
  if (chain?.kind === 'chain') return ofChain;
  // The entryUUID is the key of the entry.
  const indexedTypes = types.filter(({ oid }) => oid !== ENTRY_UUID_OID);
  if (!lookup || !mayNarrow(lookup) || !indexedTypes.every(canBeIndexed)) return undefined;
  const substring = lookup.kind === 'pattern' && !lookup.initial;
  return [...ofChain, ...indexedTypes.map((type) => ({ type, substring }))];
}

/** Length of the parts of values that an index with substrings has, in bytes. */
const GRAM_BYTES = 3;

/** Whether an index leaves few candidates. Most entries have an attribute by whose presence clients search. */
function mayNarrow(lookup: Lookup): boolean {
  if (lookup.kind !== 'pattern') return lookup.kind !== 'presence';
  const { initial, any, final } = lookup;
  return initial !== undefined || [...any, ...(final ? [final] : [])].some(({ length }) => length >= GRAM_BYTES);
}

function canBeIndexed(type: AttributeType): boolean {
  return normRule(type) !== undefined && !isComputed(type);
}

/** Returns the command that adds the index. */
export function indexCommand({ type, substring }: MissingIndex): string {
  return `rowan index add ${type.name}${substring ? ' --substring' : ''}`;
}

/** Returns the commands that add the indexes the filter lacks; undefined where the filter lacks none. */
export function adviceFor(indexes: IndexSet, filter: CompiledFilter): string | undefined {
  return missingIndexes(indexes, filter).map(indexCommand).join('; ') || undefined;
}
