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
  terms = 0;
  /** The row whose forms `#list` holds. */
  #row: Buffer | undefined;
  #list: readonly Buffer[] = [];
  /** The forms of `#list` as Latin-1, built when first needed. */
  #set: Set<string> | undefined;

  constructor(descriptions: FilterDescriptions, description: FilterDescription, normalize: Normalize) {
    this.#descriptions = descriptions;
    this.#description = description;
    this.#normalize = normalize;
  }

  /** Returns the forms of the candidate's values. */
  of(candidate: Candidate): readonly Buffer[] {
    if (candidate.row !== this.#row) {
      this.#list = this.#read(candidate);
      this.#set = undefined;
      this.#row = candidate.row;
    }
    return this.#list;
  }

  /** Whether a value of the candidate has this form (Latin-1). */
  has(candidate: Candidate, form: string): boolean {
    const list = this.of(candidate);
    this.#set ??= new Set(list.map((item) => item.toString('latin1')));
    return this.#set.has(form);
  }

  #read(candidate: Candidate): Buffer[] {
    const { row } = candidate;
    const description = this.#description;
    const normalize = this.#normalize;
    const forms: Buffer[] = [];
    for (let at = 0; at < row.length; ) {
      const next = nextCell(row, at);
      if (row[at] === MASTER.upAttributes && description.firstBytes[row[at + CELL_HEADER]!] === 1) {
        const matches = this.#descriptions.matchesCell(description, row, at);
        const form = matches ? normalize(cellBytes(candidate, at, next)) : undefined;
        if (form) forms.push(form);
      }
      at = next;
    }
    return forms;
  }
}

/** The normal forms that the terms of one filter share, by rule and description. */
export class SharedForms {
  readonly #descriptions: FilterDescriptions;
  readonly #forms = new Map<Normalize, Map<FilterDescription, NormalForms>>();

  constructor(descriptions: FilterDescriptions) {
    this.#descriptions = descriptions;
  }

  /** Returns the forms for a further term. */
  of(description: FilterDescription, normalize: Normalize): NormalForms {
    const known = this.#forms.get(normalize);
    const byDescription = known ?? new Map<FilterDescription, NormalForms>();
    if (!known) this.#forms.set(normalize, byDescription);
    const forms = byDescription.get(description) ?? new NormalForms(this.#descriptions, description, normalize);
    byDescription.set(description, forms);
    forms.terms++;
    return forms;
  }
}
