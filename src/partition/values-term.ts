import type { Filter } from '../ldap/types.js';
import type { AttributeType } from '../schema/types.js';
import { CELL_HEADER, nextCell } from '../store/row.js';
import { type Candidate, FALSE, type Lookup, type Term, TRUE, type Tri } from './filter.js';
import { cellBytes } from './filter-terms.js';
import { MASTER } from './tables.js';
import type { Wanted, WantedDescriptions } from './wanted.js';

/** A term over the values of one description; without `test` it asks for presence. */
export class ValuesTerm implements Term {
  readonly kind = 'term';
  readonly filter: Filter;
  readonly lookup: Lookup | undefined;
  readonly exact: boolean;
  readonly #descriptions: WantedDescriptions;
  readonly #wanted: Wanted;
  readonly #test: ((value: Buffer) => boolean) | undefined;

  constructor(
    descriptions: WantedDescriptions,
    filter: Filter,
    wanted: Wanted,
    test: ((value: Buffer) => boolean) | undefined,
    lookup: Lookup | undefined,
    exact: boolean,
  ) {
    this.#descriptions = descriptions;
    this.filter = filter;
    this.#wanted = wanted;
    this.#test = test;
    this.lookup = lookup;
    this.exact = exact && wanted.whole;
  }

  get types(): readonly AttributeType[] {
    return this.#wanted.types;
  }

  evaluate(candidate: Candidate): Tri {
    const { row } = candidate;
    const { begins } = this.#wanted;
    const test = this.#test;
    for (let at = 0; at < row.length; ) {
      const next = nextCell(row, at);
      if (row[at] === MASTER.upAttributes && begins[row[at + CELL_HEADER]!] === 1) {
        if (this.#descriptions.means(this.#wanted, row, at) && (!test || test(cellBytes(candidate, at, next))))
          return TRUE;
      }
      at = next;
    }
    return FALSE;
  }
}
