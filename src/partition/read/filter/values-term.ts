import type { AttributeType } from '../../../schema/schema-types.js';
import { CELL_HEADER, nextCell } from '../../../store/row.js';
import { MASTER } from '../../model/tables.js';
import { type Candidate, FALSE, type FormTest, type Lookup, type Term, TRUE, type Tri } from './compiled-filter.js';
import { cellBytes, passes } from './filter-terms.js';
import type { Forms } from './forms.js';
import type { Wanted, WantedDescriptions } from './wanted.js';

/** A term over the values of one description; without `test` it asks for presence. */
export class ValuesTerm implements Term {
  readonly kind = 'term';
  readonly lookup: Lookup | undefined;
  readonly exact: boolean;
  readonly #descriptions: WantedDescriptions;
  readonly #wanted: Wanted;
  readonly #test: FormTest | undefined;
  readonly #forms: Forms | undefined;

  constructor(
    descriptions: WantedDescriptions,
    wanted: Wanted,
    test: FormTest | undefined,
    forms: Forms | undefined,
    lookup: Lookup | undefined,
    exact: boolean,
  ) {
    this.#descriptions = descriptions;
    this.#wanted = wanted;
    this.#test = test;
    this.#forms = forms;
    this.lookup = lookup;
    this.exact = exact && wanted.whole;
  }

  get types(): readonly AttributeType[] {
    return this.#wanted.types;
  }

  evaluate(candidate: Candidate): Tri {
    const test = this.#test;
    const forms = this.#forms;
    if (test && forms && forms.terms > 1) return isAmong(forms, candidate, test) ? TRUE : FALSE;
    const { row } = candidate;
    const { begins } = this.#wanted;
    for (let at = 0; at < row.length; ) {
      const next = nextCell(row, at);
      if (row[at] === MASTER.upAttributes && begins[row[at + CELL_HEADER]!] === 1) {
        if (this.#descriptions.means(this.#wanted, row, at) && (!test || passes(test, cellBytes(candidate, at, next))))
          return TRUE;
      }
      at = next;
    }
    return FALSE;
  }
}

function isAmong(forms: Forms, candidate: Candidate, test: FormTest): boolean {
  if (test.equal !== undefined) return forms.has(candidate, test.equal);
  const list = forms.of(candidate);
  for (let i = 0; i < list.length; i++) if (test.matches(list[i]!)) return true;
  return false;
}
