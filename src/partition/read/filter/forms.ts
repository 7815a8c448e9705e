import { CELL_HEADER, nextCell } from '../../../store/row.js';
import { MASTER } from '../../model/tables.js';
import type { Candidate, Normalize } from './compiled-filter.js';
import { cellBytes } from './filter-terms.js';
import type { Wanted, WantedDescriptions } from './wanted.js';

/**
 * The normal forms of the values that several terms of one filter look at: each value is normalized once a row, however
 * many the terms are.
 */
export class Forms {
  readonly #descriptions: WantedDescriptions;
  readonly #wanted: Wanted;
  readonly #normalize: Normalize;
  /** How many terms look at them. One alone stops at the first value that matches instead. */
  terms = 0;
  /** The row that `#list` is of. */
  #row: Buffer | undefined;
  #list: readonly Buffer[] = [];
  #names: Set<string> | undefined;

  constructor(descriptions: WantedDescriptions, wanted: Wanted, normalize: Normalize) {
    this.#descriptions = descriptions;
    this.#wanted = wanted;
    this.#normalize = normalize;
  }

  of(candidate: Candidate): readonly Buffer[] {
    if (candidate.row !== this.#row) {
      this.#list = this.#read(candidate);
      this.#names = undefined;
      this.#row = candidate.row;
    }
    return this.#list;
  }

  /** Whether the form is among them, as Latin-1. */
  has(candidate: Candidate, form: string): boolean {
    const list = this.of(candidate);
    this.#names ??= new Set(list.map((one) => one.toString('latin1')));
    return this.#names.has(form);
  }

  #read(candidate: Candidate): Buffer[] {
    const { row } = candidate;
    const wanted = this.#wanted;
    const normalize = this.#normalize;
    const found: Buffer[] = [];
    for (let at = 0; at < row.length; ) {
      const next = nextCell(row, at);
      if (row[at] === MASTER.upAttributes && wanted.begins[row[at + CELL_HEADER]!] === 1) {
        const meant = this.#descriptions.means(wanted, row, at);
        const form = meant ? normalize(cellBytes(candidate, at, next)) : undefined;
        if (form) found.push(form);
      }
      at = next;
    }
    return found;
  }
}

/** The forms that the terms of one filter share, by what they are forms of. */
export class SharedForms {
  readonly #descriptions: WantedDescriptions;
  readonly #forms = new Map<Normalize, Map<Wanted, Forms>>();

  constructor(descriptions: WantedDescriptions) {
    this.#descriptions = descriptions;
  }

  /** For one more term. */
  of(wanted: Wanted, normalize: Normalize): Forms {
    const known = this.#forms.get(normalize);
    const byWanted = known ?? new Map<Wanted, Forms>();
    if (!known) this.#forms.set(normalize, byWanted);
    const forms = byWanted.get(wanted) ?? new Forms(this.#descriptions, wanted, normalize);
    byWanted.set(wanted, forms);
    forms.terms++;
    return forms;
  }
}
