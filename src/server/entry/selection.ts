import { BoundedMap } from '../../cache/bounded-map.js';
import { DescriptionTable, type StoredDescription } from '../../partition/model/descriptions.js';
import { isHidden } from '../../partition/read/viewer/viewer.js';
import { descriptionMatches, isAskable } from '../../schema/describer.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeDescription, AttributeType } from '../../schema/schema-types.js';
import { COMPUTED } from './computed.js';

const UNDECIDED = 0;
const TAKEN = 1;
const LEFT = 2;

/**
 * Which attributes of an entry a search returns (RFC 4511 §4.5.1.8): the compiled form of its attribute list. Whether a
 * description is selected is worked out once and remembered by its number. Secrets never are.
 */
export class Selection {
  readonly #userAttributes: boolean;
  readonly #operationalAttributes: boolean;
  readonly #descriptions: readonly AttributeDescription[];
  readonly #types: ReadonlySet<AttributeType>;
  #decisions = new Uint8Array(256);
  /** The types selected that are worked out when asked for. */
  readonly computed: readonly AttributeType[];

  constructor(parts: SelectionParts) {
    this.#userAttributes = parts.userAttributes;
    this.#operationalAttributes = parts.operationalAttributes;
    this.#descriptions = parts.descriptions;
    this.#types = parts.types;
    this.computed = parts.computed;
  }

  /** Whether the attribute is to be returned. */
  takes(stored: StoredDescription): boolean {
    const { number } = stored;
    const decision = number < this.#decisions.length ? this.#decisions[number]! : UNDECIDED;
    return decision === UNDECIDED ? this.#decide(stored) : decision === TAKEN;
  }

  #decide(stored: StoredDescription): boolean {
    const taken = this.#selects(stored.description);
    const { number } = stored;
    // Beyond it several have the same number.
    if (number >= DescriptionTable.MAX) return taken;
    if (number >= this.#decisions.length) {
      const larger = new Uint8Array(Math.max(2 * this.#decisions.length, number + 1));
      larger.set(this.#decisions);
      this.#decisions = larger;
    }
    this.#decisions[number] = taken ? TAKEN : LEFT;
    return taken;
  }

  #selects(found: AttributeDescription): boolean {
    const { type } = found;
    if (isHidden(type)) return false;
    if (type.operational ? this.#operationalAttributes : this.#userAttributes) return true;
    if (this.#types.has(type)) return true;
    return this.#descriptions.some((asked) => asked === found || descriptionMatches(asked, found));
  }
}

export interface SelectionParts {
  readonly userAttributes: boolean;
  readonly operationalAttributes: boolean;
  readonly descriptions: readonly AttributeDescription[];
  /** From `@class`. */
  readonly types: ReadonlySet<AttributeType>;
  readonly computed: readonly AttributeType[];
}

/**
 * Reads an attribute list. Empty and `*`: all user attributes; `+`: all operational ones (RFC 3673); `1.1`: none, when
 * alone; `@class`: those of an object class (RFC 4529). Names that the schema does not know select nothing.
 */
export function parseSelection(schema: Schema, names: readonly string[]): SelectionParts {
  const descriptions = new Map<string, AttributeDescription>();
  const types = new Set<AttributeType>();
  let userAttributes = names.length === 0;
  let operationalAttributes = false;
  for (const name of names) {
    if (name === '*') userAttributes = true;
    else if (name === '+') operationalAttributes = true;
    else if (name.startsWith('@')) for (const type of schema.expandClass(name.slice(1)) ?? []) types.add(type);
    else {
      const description = schema.describe(name);
      if (description && isAskable(description)) descriptions.set(description.text, description);
    }
  }
  const computed = COMPUTED.map((name) => schema.attribute(name)).filter(
    (type) => type && (operationalAttributes || descriptions.get(type.name)?.type === type),
  ) as AttributeType[];
  return { userAttributes, operationalAttributes, descriptions: [...descriptions.values()], types, computed };
}

const MAX_CACHED = 500;
const MAX_CACHED_NAMES = 64;
const MAX_CACHED_LENGTH = 1024;

/** Compiled attribute lists: searches repeat them. */
export class Selections {
  readonly #schema: Schema;
  readonly #all: Selection;
  readonly #cached = new BoundedMap<string, Selection>(MAX_CACHED);

  constructor(schema: Schema) {
    this.#schema = schema;
    this.#all = this.#compile([]);
  }

  of(names: readonly string[]): Selection {
    if (names.length === 0 || (names.length === 1 && names[0] === '*')) return this.#all;
    if (names.length > MAX_CACHED_NAMES) return this.#compile(names);
    const key = names.length === 1 ? names[0]! : names.join('\0');
    const cached = this.#cached.get(key);
    if (cached) return cached;
    const selection = this.#compile(names);
    if (key.length > MAX_CACHED_LENGTH) return selection;
    this.#cached.set(key, selection);
    return selection;
  }

  #compile(names: readonly string[]): Selection {
    return new Selection(parseSelection(this.#schema, names));
  }
}
