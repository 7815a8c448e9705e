import { BoundedMap } from '../../../cache/bounded-map.js';
import type { Schema } from '../../../schema/schema.js';
import type { AttributeDescription, AttributeType } from '../../../schema/schema-types.js';
import { CELL_HEADER, nextCell } from '../../../store/row.js';
import type { DescriptionTable } from '../../model/descriptions.js';
import { MASTER } from '../../model/tables.js';
import { isHidden } from '../../model/viewer.js';
import type { Candidate, Normalize } from './compiled-filter.js';
import { cellBytes } from './filter-terms.js';

/** An attribute description in a filter. All terms on the description share it. */
export interface FilterDescription {
  readonly description: AttributeDescription;
  /** The type and its subtypes, without hidden types. */
  readonly types: readonly AttributeType[];
  /** Whether every value of `types` counts: the description has no option, and no subtype is hidden. */
  readonly isComplete: boolean;
  /** Cache by number of the stored description: 1 matches, 2 does not match, absent: not known yet. */
  readonly decisions: number[];
  /** 1 for each first byte that a matching stored description may have. Excludes most cells at once. */
  readonly firstBytes: Uint8Array;
}

function firstBytesOf({ type: { subtypes } }: AttributeDescription): Uint8Array {
  const isFirstByte = new Uint8Array(256);
  for (const type of subtypes) {
    for (const name of [...type.names, type.oid, 'oid']) {
      isFirstByte[name.toLowerCase().charCodeAt(0)] = 1;
      isFirstByte[name.toUpperCase().charCodeAt(0)] = 1;
    }
  }
  return isFirstByte;
}

const MAX_CACHED = 4096;

/** Caches the descriptions in filters, and which stored descriptions match each of them. */
export class FilterDescriptions {
  readonly #schema: Schema;
  readonly #storedDescriptions: DescriptionTable;
  readonly #cache = new BoundedMap<AttributeDescription, FilterDescription>(MAX_CACHED);

  constructor(schema: Schema, stored: DescriptionTable) {
    this.#schema = schema;
    this.#storedDescriptions = stored;
  }

  get(description: AttributeDescription): FilterDescription {
    let filterDescription = this.#cache.get(description);
    if (!filterDescription) {
      const { subtypes } = description.type;
      const types = subtypes.filter((type) => !isHidden(type));
      const isComplete = description.options.length === 0 && types.length === subtypes.length;
      filterDescription = { description, types, isComplete, decisions: [], firstBytes: firstBytesOf(description) };
      this.#cache.set(description, filterDescription);
    }
    return filterDescription;
  }

  /** Whether the cell at `offset` has a value of the description. */
  matchesCell({ description, types, decisions }: FilterDescription, row: Buffer, offset: number): boolean {
    const storedDescription = this.#storedDescriptions.ofCell(row, offset);
    let decision = decisions[storedDescription.number];
    if (decision === undefined) {
      const matches =
        types.includes(storedDescription.description.type) &&
        this.#schema.matches(description, storedDescription.description);
      decision = matches ? 1 : 2;
      decisions[storedDescription.number] = decision;
    }
    return decision === 1;
  }
}

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
