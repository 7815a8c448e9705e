import type { Filter } from '../../ldap/ldap-types.js';
import { packSorted, unpackRow } from '../../store/row.js';
import { MASTER } from '../model/tables.js';
import { UNRESTRICTED } from '../model/viewer.js';
import { emptyCandidate, evaluate, TRUE } from './filter/compiled-filter.js';
import type { SearchContext } from './run/search-context.js';

/** Leaves values that match a filter. */
export interface ValueFilter {
  row(row: Buffer): Buffer;
  /** For values of memberOf. */
  groups(dns: readonly Buffer[]): Buffer[];
}

/** Returns what leaves the values for which, each by itself, the filter is TRUE (RFC 3876 §2). */
export function valueFilter({ compiler, schema }: SearchContext, filter: Filter): ValueFilter {
  const { filter: compiled } = compiler.compile(filter, UNRESTRICTED);
  const candidate = emptyCandidate();
  return {
    row(row) {
      const isMatch = (cell: Parameters<typeof packSorted>[0][number]): boolean => {
        candidate.row = packSorted([cell]);
        return evaluate(compiled, candidate) === TRUE;
      };
      return packSorted(unpackRow(row).filter((cell) => cell.family !== MASTER.upAttributes || isMatch(cell)));
    },
    groups(dns) {
      return dns.filter((dn) => {
        const groups = new Set([schema.parseDnBytes(dn).norm.toString('latin1')]);
        return evaluate(compiled, { ...emptyCandidate(), groups, directGroups: groups }) === TRUE;
      });
    },
  };
}
