import { BoundedMap } from '../../../cache/bounded-map.js';
import type { Schema } from '../../../schema/schema.js';
import type { AttributeDescription, AttributeType } from '../../../schema/schema-types.js';
import type { DescriptionTable } from '../../model/descriptions.js';
import { isHidden } from '../../model/viewer.js';

/** What terms over one description have in common. */
export interface Wanted {
  readonly description: AttributeDescription;
  /** The type and those below it that may be searched. */
  readonly types: readonly AttributeType[];
  /** Nothing is left out: no option was asked for, no type is hidden. */
  readonly whole: boolean;
  /** By number of a stored description: 1 it is meant, 2 it is not, absent: not asked yet. */
  readonly meant: number[];
  /** 1 for bytes that a description which is meant may begin with: most cells need no closer look. */
  readonly begins: Uint8Array;
}

function firstBytes(wanted: AttributeDescription): Uint8Array {
  const begins = new Uint8Array(256);
  for (const type of wanted.type.subtypes) {
    for (const name of [...type.names, type.oid, 'oid']) {
      begins[name.toLowerCase().charCodeAt(0)] = 1;
      begins[name.toUpperCase().charCodeAt(0)] = 1;
    }
  }
  return begins;
}

/** So many descriptions that filters ask for are kept compiled. */
const MAX_WANTED = 4096;

/** The descriptions that filters ask for, and which stored ones each of them means. */
export class WantedDescriptions {
  readonly #schema: Schema;
  readonly #stored: DescriptionTable;
  readonly #wanted = new BoundedMap<AttributeDescription, Wanted>(MAX_WANTED);

  constructor(schema: Schema, stored: DescriptionTable) {
    this.#schema = schema;
    this.#stored = stored;
  }

  of(description: AttributeDescription): Wanted {
    let wanted = this.#wanted.get(description);
    if (!wanted) {
      const { subtypes } = description.type;
      const types = subtypes.filter((type) => !isHidden(type));
      const whole = description.options.length === 0 && types.length === subtypes.length;
      wanted = { description, types, whole, meant: [], begins: firstBytes(description) };
      this.#wanted.set(description, wanted);
    }
    return wanted;
  }

  /** Whether the cell of `row` at `at` holds a value of what is wanted. */
  means(wanted: Wanted, row: Buffer, at: number): boolean {
    const stored = this.#stored.ofCell(row, at);
    let decision = wanted.meant[stored.number];
    if (decision === undefined) {
      const { type } = stored.description;
      const seen = wanted.types.includes(type) && this.#schema.matches(wanted.description, stored.description);
      decision = seen ? 1 : 2;
      wanted.meant[stored.number] = decision;
    }
    return decision === 1;
  }
}
