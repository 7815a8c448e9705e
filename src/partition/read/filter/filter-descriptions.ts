import { BoundedMap } from '../../../cache/bounded-map.js';
import type { Schema } from '../../../schema/schema.js';
import type { AttributeDescription, AttributeType } from '../../../schema/schema-types.js';
import type { DescriptionTable } from '../../model/descriptions.js';
import { isHidden } from '../../model/viewer.js';

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
