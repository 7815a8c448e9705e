import type { IndexSet } from '../../model/index-set.js';
import type { CompiledFilter } from '../filter/compiled-filter.js';

/** The indexes that would help most, as commands. */
export function adviceFor(indexes: IndexSet, filter: CompiledFilter): string | undefined {
  const names = new Set<string>();
  const visit = (part: CompiledFilter): void => {
    if (part.kind === 'and' || part.kind === 'or') part.of.forEach(visit);
    if (part.kind === 'term' && part.chain) {
      const { type } = part.chain;
      if (!indexes.of(type)) names.add(`rowan index add ${type.name}`);
    }
    if (part.kind !== 'term' || !part.lookup || part.lookup.kind === 'presence') return;
    const middle = part.lookup.kind === 'pattern' && !part.lookup.initial;
    for (const type of part.types) {
      const index = indexes.of(type);
      if (!index || (middle && !index.substring))
        names.add(`rowan index add ${type.name}${middle ? ' --substring' : ''}`);
    }
  };
  visit(filter);
  return names.size > 0 ? [...names].join('; ') : undefined;
}
