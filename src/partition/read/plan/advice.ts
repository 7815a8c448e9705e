import { isComputed } from '../../model/computed.js';
import { type IndexSet, isMissing, type MissingIndex } from '../../model/index-set.js';
import type { CompiledFilter } from '../filter/compiled-filter.js';

/** Returns the indexes that the filter lacks. Each is listed once. */
export function missingIndexes(indexes: IndexSet, filter: CompiledFilter): MissingIndex[] {
  const missing = new Map<string, MissingIndex>();
  const addMissing = (index: MissingIndex): void => {
    const { type } = index;
    if (isMissing(indexes, index) && !type.secret && !isComputed(type)) missing.set(indexCommand(index), index);
  };
  const visit = (part: CompiledFilter): void => {
    if (part.kind === 'and' || part.kind === 'or') part.parts.forEach(visit);
    if (part.kind === 'term' && part.chain) addMissing({ type: part.chain.type, substring: false });
    if (part.kind !== 'term' || !part.lookup || part.lookup.kind === 'presence') return;
    const isInner = part.lookup.kind === 'pattern' && !part.lookup.initial;
    for (const type of part.types) addMissing({ type, substring: isInner });
  };
  visit(filter);
  return [...missing.values()];
}

/** Returns the command that adds the index. */
export function indexCommand({ type, substring }: MissingIndex): string {
  return `rowan index add ${type.name}${substring ? ' --substring' : ''}`;
}

/** Returns the commands that add the indexes the filter lacks; undefined where the filter lacks none. */
export function adviceFor(indexes: IndexSet, filter: CompiledFilter): string | undefined {
  return missingIndexes(indexes, filter).map(indexCommand).join('; ') || undefined;
}
