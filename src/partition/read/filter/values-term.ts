import type { AttributeType } from '../../../schema/schema-types.js';
import { CELL_HEADER, nextCell } from '../../../store/row.js';
import { MASTER } from '../../model/tables.js';
import { type Candidate, FALSE, type FormTest, type Lookup, type Term, TRUE, type Tri } from './compiled-filter.js';
import type { FilterDescription, FilterDescriptions } from './filter-descriptions.js';
import { cellBytes, passes } from './filter-terms.js';
import type { NormalForms } from './forms.js';

/** A term on the values of one attribute description; without `test`, on their presence. */
export class ValuesTerm implements Term {
  readonly kind = 'term';
  readonly lookup: Lookup | undefined;
  readonly exact: boolean;
  readonly #descriptions: FilterDescriptions;
  readonly #description: FilterDescription;
  readonly #test: FormTest | undefined;
  readonly #forms: NormalForms | undefined;

  constructor(
    descriptions: FilterDescriptions,
    description: FilterDescription,
    test: FormTest | undefined,
    forms: NormalForms | undefined,
    lookup: Lookup | undefined,
    exact: boolean,
  ) {
    this.#descriptions = descriptions;
    this.#description = description;
    this.#test = test;
    this.#forms = forms;
    this.lookup = lookup;
    this.exact = exact && description.isComplete;
  }

  get types(): readonly AttributeType[] {
    return this.#description.types;
  }

  evaluate(candidate: Candidate): Tri {
    const test = this.#test;
    const forms = this.#forms;
    if (test && forms && forms.terms > 1) return hasMatch(forms, candidate, test) ? TRUE : FALSE;
    const { row } = candidate;
    const { firstBytes } = this.#description;
    for (let at = 0; at < row.length; ) {
      const next = nextCell(row, at);
      if (row[at] === MASTER.upAttributes && firstBytes[row[at + CELL_HEADER]!] === 1) {
        if (
          this.#descriptions.matchesCell(this.#description, row, at) &&
          (!test || passes(test, cellBytes(candidate, at, next)))
        )
          return TRUE;
      }
      at = next;
    }
    return FALSE;
  }
}

function hasMatch(forms: NormalForms, candidate: Candidate, test: FormTest): boolean {
  if (test.equal !== undefined) return forms.has(candidate, test.equal);
  const list = forms.of(candidate);
  for (let i = 0; i < list.length; i++) if (test.matches(list[i]!)) return true;
  return false;
}
