import type { AttributeType } from '../../../schema/schema-types.js';
import { CELL_HEADER, nextCell } from '../../../store/row.js';
import { MASTER } from '../../model/tables.js';
import { type Candidate, FALSE, type FormTest, type Lookup, type Term, TRUE, type Tri } from './compiled-filter.js';
import { cellBytes, passes } from './filter-terms.js';
import type { FilterDescription, FilterDescriptions, NormalForms } from './forms.js';

/** A term on the values of one attribute description. Without `test`, a term on their presence. */
export class ValuesTerm implements Term {
  readonly kind = 'term';
  readonly lookup: Lookup | undefined;
  readonly isExact: boolean;
  readonly #descriptions: FilterDescriptions;
  readonly #description: FilterDescription;
  readonly #test: FormTest | undefined;
  readonly #normalForms: NormalForms | undefined;

  constructor(
    descriptions: FilterDescriptions,
    description: FilterDescription,
    test: FormTest | undefined,
    forms: NormalForms | undefined,
    lookup: Lookup | undefined,
    isExact: boolean,
  ) {
    this.#descriptions = descriptions;
    this.#description = description;
    this.#test = test;
    this.#normalForms = forms;
    this.lookup = lookup;
    this.isExact = isExact && description.isComplete;
  }

  get types(): readonly AttributeType[] {
    return this.#description.types;
  }

  evaluate(candidate: Candidate): Tri {
    const test = this.#test;
    const normalForms = this.#normalForms;
    if (test && normalForms && normalForms.termCount > 1) return hasMatch(normalForms, candidate, test) ? TRUE : FALSE;
    const { row } = candidate;
    const { firstBytes } = this.#description;
    for (let offset = 0; offset < row.length; ) {
      const cellEnd = nextCell(row, offset);
      if (row[offset] === MASTER.upAttributes && firstBytes[row[offset + CELL_HEADER]!] === 1) {
        if (
          this.#descriptions.matchesCell(this.#description, row, offset) &&
          (!test || passes(test, cellBytes(candidate, offset, cellEnd)))
        )
          return TRUE;
      }
      offset = cellEnd;
    }
    return FALSE;
  }
}

function hasMatch(forms: NormalForms, candidate: Candidate, test: FormTest): boolean {
  if (test.equalNorm !== undefined) return forms.hasForm(candidate, test.equalNorm);
  const candidateForms = forms.formsOf(candidate);
  for (let i = 0; i < candidateForms.length; i++) if (test.matches(candidateForms[i]!)) return true;
  return false;
}
