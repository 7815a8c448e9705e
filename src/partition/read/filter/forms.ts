import { CELL_HEADER, nextCell } from '../../../store/row.js';
import { MASTER } from '../../model/tables.js';
import type { Candidate, Normalize } from './compiled-filter.js';
import type { FilterDescription, FilterDescriptions } from './filter-descriptions.js';
import { cellBytes } from './filter-terms.js';

/** The normal forms of one description's values in the current row. Several terms of a filter share them. */
export class NormalForms {
  readonly #descriptions: FilterDescriptions;
  readonly #description: FilterDescription;
  readonly #normalize: Normalize;
  /** Number of terms that use them. If there is only one, it computes normal forms until one matches. */
  termCount = 0;
  /** The row from which `#norms` was computed. */
  #row: Buffer | undefined;
  #norms: readonly Buffer[] = [];
  /** `#norms` as Latin-1, made when first needed. */
  #formTexts: Set<string> | undefined;

  constructor(descriptions: FilterDescriptions, description: FilterDescription, normalize: Normalize) {
    this.#descriptions = descriptions;
    this.#description = description;
    this.#normalize = normalize;
  }

  formsOf(candidate: Candidate): readonly Buffer[] {
    if (candidate.row !== this.#row) {
      this.#norms = this.#readForms(candidate);
      this.#formTexts = undefined;
      this.#row = candidate.row;
    }
    return this.#norms;
  }

  hasForm(candidate: Candidate, norm: string): boolean {
    const normalForms = this.formsOf(candidate);
    this.#formTexts ??= new Set(normalForms.map((item) => item.toString('latin1')));
    return this.#formTexts.has(norm);
  }

  #readForms(candidate: Candidate): Buffer[] {
    const { row } = candidate;
    const description = this.#description;
    const normalize = this.#normalize;
    const normalForms: Buffer[] = [];
    for (let offset = 0; offset < row.length; ) {
      const cellEnd = nextCell(row, offset);
      if (row[offset] === MASTER.upAttributes && description.firstBytes[row[offset + CELL_HEADER]!] === 1) {
        const matches = this.#descriptions.matchesCell(description, row, offset);
        const norm = matches ? normalize(cellBytes(candidate, offset, cellEnd)) : undefined;
        if (norm) normalForms.push(norm);
      }
      offset = cellEnd;
    }
    return normalForms;
  }
}

/** The `NormalForms` that the terms of one filter share, by rule and description. */
export class SharedForms {
  readonly #descriptions: FilterDescriptions;
  readonly #formsByRule = new Map<Normalize, Map<FilterDescription, NormalForms>>();

  constructor(descriptions: FilterDescriptions) {
    this.#descriptions = descriptions;
  }

  /** Returns the normal forms for one more term. */
  formsFor(description: FilterDescription, normalize: Normalize): NormalForms {
    const existingForms = this.#formsByRule.get(normalize);
    const byDescription = existingForms ?? new Map<FilterDescription, NormalForms>();
    if (!existingForms) this.#formsByRule.set(normalize, byDescription);
    const normalForms = byDescription.get(description) ?? new NormalForms(this.#descriptions, description, normalize);
    byDescription.set(description, normalForms);
    normalForms.termCount++;
    return normalForms;
  }
}
