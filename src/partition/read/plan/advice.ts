import type { IndexSet } from '../../model/index-set.js';
import type { CompiledFilter } from '../filter/compiled-filter.js';

/** Returns the commands that add the indexes the filter lacks; undefined where the filter lacks none. */
export function adviceFor(indexes: IndexSet, filter: CompiledFilter): string | undefined {
  const commands = new Set<string>();
  const visit = (part: CompiledFilter): void => {
    if (part.kind === 'and' || part.kind === 'or') part.parts.forEach(visit);
    if (part.kind === 'term' && part.chain) {
      const { type } = part.chain;
      if (!indexes.ofType(type)) commands.add(`rowan index add ${type.name}`);
    }
    if (part.kind !== 'term' || !part.lookup || part.lookup.kind === 'presence') return;
    const isInner = part.lookup.kind === 'pattern' && !part.lookup.initial;
    for (const type of part.types) {
      const index = indexes.ofType(type);
      if (!index || (isInner && !index.hasSubstrings))
        commands.add(`rowan index add ${type.name}${isInner ? ' --substring' : ''}`);
    }
  };
  visit(filter);
  return commands.size > 0 ? [...commands].join('; ') : undefined;
}
