import type { Filter } from '../../../ldap/ldap-types.js';
import type { Draft } from '../../model/draft.js';
import { detachedRow } from '../../model/entry-cells.js';
import { UNRESTRICTED } from '../../model/viewer.js';
import { type CompiledFilter, evaluate, TRUE } from './compiled-filter.js';
import type { FilterCompiler } from './filter-compiler.js';

const NO_NAME = Buffer.alloc(0);

/** Whether an entry that is being written matches. A filter is compiled once. */
export function draftFits(compiler: FilterCompiler): (filter: Filter, entry: Draft) => boolean {
  const known = new WeakMap<Filter, CompiledFilter>();
  return (filter, entry) => {
    let compiled = known.get(filter);
    if (!compiled) {
      compiled = compiler.compile(filter, UNRESTRICTED).filter;
      known.set(filter, compiled);
    }
    const none = { dn: NO_NAME, hasSubordinates: false, numSubordinates: 0, sight: undefined, large: undefined };
    return evaluate(compiled, { row: detachedRow(entry), ...none }) === TRUE;
  };
}
