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
  const visit = (operand: CompiledFilter): void => {
    if (operand.kind === 'and' || operand.kind === 'or') operand.parts.forEach(visit);
    if (operand.kind === 'term' && operand.chain) addMissing({ type: operand.chain.type, substring: false });
    if (operand.kind !== 'term' || !operand.lookup || operand.lookup.kind === 'presence') return;
    const isInner = operand.lookup.kind === 'pattern' && !operand.lookup.initial;
    for (const type of operand.types) addMissing({ type, substring: isInner });
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
