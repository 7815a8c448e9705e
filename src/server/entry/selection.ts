import { BoundedMap } from '../../cache/bounded-map.js';
import { LdapError } from '../../ldap/ldap-error.js';
import { STATE_ATTRIBUTES, type StateAttribute } from '../../partition/model/account-state.js';
import { DescriptionTable, type StoredDescription } from '../../partition/model/descriptions.js';
import { isHidden, type Sight } from '../../partition/model/viewer.js';
import type { Selects } from '../../partition/read/search-params.js';
import { descriptionMatches, isAskable } from '../../schema/describer.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeDescription, AttributeType } from '../../schema/schema-types.js';
import { COMPUTED, COMPUTED_WHEN_NAMED } from './computed.js';
import type { Instead } from './reply-entry.js';
import { parseRange, type ValueRange } from './value-range.js';

/** An administrator's, too: stored in the entry. */
const LOCK: StateAttribute = 'pwdAccountLockedTime';
const UNDECIDED = 0;
const TAKEN = 1;
const LEFT = 2;

/**
 * Which attributes of an entry a search returns (RFC 4511 §4.5.1.8): the compiled form of its attribute list. Whether a
 * description is selected is worked out once and remembered by its number. Secrets are for those alone who may read
 * them (`forSight`).
 */
export class Selection {
  readonly #userAttributes: boolean;
  readonly #operationalAttributes: boolean;
  readonly #descriptions: readonly AttributeDescription[];
  readonly #types: ReadonlySet<AttributeType>;
  #decisions = new Uint8Array(256);
  /** Those selected that are worked out when asked for. */
  readonly computed: readonly AttributeDescription[];
  /** Those selected that binds leave behind, beside the entry. */
  readonly states: readonly AttributeDescription[];
  /** Those of which a part of the values is returned. */
  readonly ranges: ReadonlyMap<AttributeDescription, ValueRange> | undefined;
  /** `member`, where it is among them: dynamic groups have members that are worked out. */
  readonly member: AttributeDescription | undefined;
  readonly #parts: SelectionParts;
  /** By the secrets that are shown. */
  readonly #withSecrets = new Map<string, Selection>();
  readonly #without = new Map<Instead, Selection>();

  constructor(parts: SelectionParts) {
    this.#parts = parts;
    this.#userAttributes = parts.userAttributes;
    this.#operationalAttributes = parts.operationalAttributes;
    this.#descriptions = parts.descriptions;
    this.#types = parts.types;
    this.computed = parts.computed;
    this.states = parts.states;
    this.ranges = parts.ranges.size > 0 ? parts.ranges : undefined;
    this.member = parts.member && this.#selects(parts.member) ? parts.member : undefined;
  }

  /** What is read of an entry for it. */
  readonly reads: Selects = {
    takes: (stored) => (stored.findsMembers && this.member !== undefined) || this.takes(stored),
  };

  /** So many members are wanted, and to be told whether there are more. */
  get mostMembers(): number {
    const range = this.member && this.ranges?.get(this.member);
    if (range && range.low >= MOST_MEMBERS) throw tooFar();
    return Math.min((range?.high ?? MOST_MEMBERS) + 1, MOST_MEMBERS);
  }

  /** The same with those of the secrets asked for by name that may be read of an entry. */
  forSight(sight: Sight | undefined): Selection {
    const { secrets } = this.#parts;
    if (secrets.length === 0 || !sight) return this;
    const shown = secrets.filter((secret) => sight.allows('read', secret));
    if (shown.length === 0) return this;
    const key = shown.map(({ text }) => text).join();
    let selection = this.#withSecrets.get(key);
    if (!selection) {
      selection = new Selection({ ...this.#parts, shownSecrets: new Set(shown) });
      this.#withSecrets.set(key, selection);
    }
    return selection;
  }

  /** The same without what is returned in place of stored values. */
  without(instead: Instead): Selection {
    const known = this.#without.get(instead);
    if (known) return known;
    const { states } = this.#parts;
    const types = states.map(({ type }) => type);
    const leftOut = new Set(instead === 'states' ? types.filter(({ name }) => name !== LOCK) : types);
    const selection = new Selection({ ...this.#parts, leftOut });
    this.#without.set(instead, selection);
    return selection;
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
    if (this.#parts.leftOut?.has(type) && found.options.length === 0) return false;
    if (isHidden(type)) return this.#parts.shownSecrets?.has(found) ?? false;
    if (type.operational ? this.#operationalAttributes : this.#userAttributes) return true;
    if (this.#types.has(type) || this.ranges?.has(found)) return true;
    return this.#descriptions.some((asked) => asked === found || descriptionMatches(asked, found));
  }
}

/** Members of a dynamic group that go out in one entry. */
const MOST_MEMBERS = 200_000;

function tooFar(): LdapError {
  const remedy = 'search for the others by its memberURL';
  return new LdapError('adminLimitExceeded', `a dynamic group gives out ${MOST_MEMBERS} members; ${remedy}`);
}

export interface SelectionParts {
  readonly userAttributes: boolean;
  readonly operationalAttributes: boolean;
  readonly descriptions: readonly AttributeDescription[];
  /** From `@class`. */
  readonly types: ReadonlySet<AttributeType>;
  readonly computed: readonly AttributeDescription[];
  readonly states: readonly AttributeDescription[];
  readonly ranges: ReadonlyMap<AttributeDescription, ValueRange>;
  readonly member: AttributeDescription | undefined;
  /** Asked for by name. */
  readonly secrets: readonly AttributeDescription[];
  /** Those of them that are returned. */
  readonly shownSecrets?: ReadonlySet<AttributeDescription>;
  /** Not returned although they are selected. */
  readonly leftOut?: ReadonlySet<AttributeType>;
}

/**
 * Reads an attribute list. Empty and `*`: all user attributes; `+`: all operational ones (RFC 3673); `1.1`: none, when
 * alone; `@class`: those of an object class (RFC 4529); `name;range=0-999`: of exactly this description some values.
 * Names that the schema does not know select nothing. `withMemberOf`: it goes with all user attributes.
 */
export function parseSelection(schema: Schema, names: readonly string[], withMemberOf = false): SelectionParts {
  const descriptions = new Map<string, AttributeDescription>();
  const ranges = new Map<AttributeDescription, ValueRange>();
  const types = new Set<AttributeType>();
  let userAttributes = names.length === 0;
  let operationalAttributes = false;
  for (const name of names) {
    if (name === '*') userAttributes = true;
    else if (name === '+') operationalAttributes = true;
    else if (name.startsWith('@')) for (const type of schema.expandClass(name.slice(1)) ?? []) types.add(type);
    else {
      const ranged = parseRange(name);
      const description = schema.describe(ranged?.name ?? name);
      if (!description || !isAskable(description)) continue;
      if (!ranged) descriptions.set(description.text, description);
      else if (!ranges.has(description)) ranges.set(description, ranged.range);
    }
  }
  const isNamed = (known: AttributeDescription) => descriptions.get(known.text) === known || ranges.has(known);
  const computed = [
    ...described(schema, COMPUTED).filter((known) => operationalAttributes || isNamed(known)),
    ...described(schema, COMPUTED_WHEN_NAMED).filter(
      (known, i) => isNamed(known) || (withMemberOf && userAttributes && i === 0),
    ),
  ];
  const states = described(schema, STATE_ATTRIBUTES).filter((known) => operationalAttributes || isNamed(known));
  const named = [...descriptions.values()];
  const secrets = named.filter(({ type }) => isHidden(type));
  return {
    userAttributes,
    operationalAttributes,
    descriptions: named,
    types,
    computed,
    states,
    ranges,
    member: schema.describe('member'),
    secrets,
  };
}

function described(schema: Schema, names: readonly string[]): AttributeDescription[] {
  return names.flatMap((name) => schema.describe(name) ?? []);
}

const MAX_CACHED = 500;
const MAX_CACHED_NAMES = 64;
const MAX_CACHED_LENGTH = 1024;

/** Compiled attribute lists: searches repeat them. */
export class Selections {
  readonly #schema: Schema;
  readonly #withMemberOf: boolean;
  readonly #all: Selection;
  readonly #cached = new BoundedMap<string, Selection>(MAX_CACHED);

  constructor(schema: Schema, withMemberOf = false) {
    this.#schema = schema;
    this.#withMemberOf = withMemberOf;
    this.#all = this.#compile([]);
  }

  of(names: readonly string[]): Selection {
    if (names.length === 0 || (names.length === 1 && names[0] === '*')) return this.#all;
    if (names.length > MAX_CACHED_NAMES) return this.#compile(names);
    const key = names.length === 1 ? names[0]! : names.join('\0');
    const cached = this.#cached.get(key);
    if (cached) return cached;
    const selection = this.#compile(names);
    // Whoever goes through a group asks for each range once.
    if (key.length > MAX_CACHED_LENGTH || selection.ranges) return selection;
    this.#cached.set(key, selection);
    return selection;
  }

  #compile(names: readonly string[]): Selection {
    return new Selection(parseSelection(this.#schema, names, this.#withMemberOf));
  }
}
