import { CELL_HEADER, nextCell } from '../../../store/row.js';
import { MASTER } from '../../model/tables.js';
import type { Candidate, Normalize } from './compiled-filter.js';
import type { FilterDescription, FilterDescriptions } from './filter-descriptions.js';
import { cellBytes } from './filter-terms.js';

/** The normal forms of the values that several terms of a filter test. Each value is normalized once per row. */
export class NormalForms {
  readonly #descriptions: FilterDescriptions;
  readonly #description: FilterDescription;
  readonly #normalize: Normalize;
  /** Number of terms that use the forms. A single term instead stops at the first value that matches. */
  termCount = 0;
  /** The row whose forms `#forms` holds. */
  #row: Buffer | undefined;
  #forms: readonly Buffer[] = [];
  /** The forms of `#forms` as Latin-1, built when first needed. */
  #formTexts: Set<string> | undefined;

  constructor(descriptions: FilterDescriptions, description: FilterDescription, normalize: Normalize) {
    this.#descriptions = descriptions;
    this.#description = description;
    this.#normalize = normalize;
  }

  formsOf(candidate: Candidate): readonly Buffer[] {
    if (candidate.row !== this.#row) {
      this.#forms = this.#readForms(candidate);
      this.#formTexts = undefined;
      this.#row = candidate.row;
    }
    return this.#forms;
  }

  hasForm(candidate: Candidate, form: string): boolean {
    const forms = this.formsOf(candidate);
    this.#formTexts ??= new Set(forms.map((item) => item.toString('latin1')));
    return this.#formTexts.has(form);
  }

  #readForms(candidate: Candidate): Buffer[] {
    const { row } = candidate;
    const description = this.#description;
    const normalize = this.#normalize;
    const forms: Buffer[] = [];
    for (let at = 0; at < row.length; ) {
      const cellEnd = nextCell(row, at);
      if (row[at] === MASTER.upAttributes && description.firstBytes[row[at + CELL_HEADER]!] === 1) {
        const matches = this.#descriptions.matchesCell(description, row, at);
        const form = matches ? normalize(cellBytes(candidate, at, cellEnd)) : undefined;
        if (form) forms.push(form);
      }
      at = cellEnd;
    }
    return forms;
  }
}

/** The normal forms that the terms of one filter share, by rule and description. */
export class SharedForms {
  readonly #descriptions: FilterDescriptions;
  readonly #formsByRule = new Map<Normalize, Map<FilterDescription, NormalForms>>();

  constructor(descriptions: FilterDescriptions) {
    this.#descriptions = descriptions;
  }

  /** Returns the forms for a further term. */
  formsFor(description: FilterDescription, normalize: Normalize): NormalForms {
    const existingForms = this.#formsByRule.get(normalize);
    const byDescription = existingForms ?? new Map<FilterDescription, NormalForms>();
    if (!existingForms) this.#formsByRule.set(normalize, byDescription);
    const forms = byDescription.get(description) ?? new NormalForms(this.#descriptions, description, normalize);
    byDescription.set(description, forms);
    forms.termCount++;
    return forms;
  }
}
