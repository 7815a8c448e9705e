import { BoundedMap } from '../../cache/bounded-map.js';
import { LdapError } from '../../ldap/ldap-error.js';
import { STATE_ATTRIBUTES, type StateAttribute } from '../../partition/model/account-state.js';
import { DescriptionTable, type StoredDescription } from '../../partition/model/descriptions.js';
import { isHidden, type Sight } from '../../partition/model/viewer.js';
import type { AttributeSelection } from '../../partition/read/search-params.js';
import { descriptionMatches, isRequestable } from '../../schema/describer.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeDescription, AttributeType } from '../../schema/schema-types.js';
import {
  COMPUTED_ATTRIBUTES,
  COMPUTED_WHEN_NAMED,
  parseRange,
  type ReplacedStates,
  type ValueRange,
} from './computed.js';

/** The state attribute that is also stored in the entry, when an administrator locks the account. */
const LOCK_ATTRIBUTE: StateAttribute = 'pwdAccountLockedTime';
const UNDECIDED = 0;
const SELECTED = 1;
const NOT_SELECTED = 2;

/**
 * The compiled attribute list of a search (RFC 4511 §4.5.1.8): decides which attributes of an entry are returned. The
 * decision for a description is cached by its number. Secrets are returned only to clients that may read them
 * (`forSight`).
 */
export class Selection {
  #decisions = new Uint8Array(256);
  /** Selected attributes that are computed, not stored. */
  readonly computedAttributes: readonly AttributeDescription[];
  /** Selected attributes of the account's state, which binds store outside the entry. */
  readonly stateAttributes: readonly AttributeDescription[];
  /** The attribute `contextCSN` when it is selected. */
  readonly contextCsn: AttributeDescription | undefined;
  /** Selected ranges of values, for attributes with the range option. */
  readonly ranges: ReadonlyMap<AttributeDescription, ValueRange> | undefined;
  /** The attribute `member` when it is selected: members of dynamic groups are computed. */
  readonly member: AttributeDescription | undefined;
  readonly #parameters: SelectionParameters;
  /** Variants that return secrets, by the names of the secrets. */
  readonly #variantsBySecrets = new Map<string, Selection>();
  readonly #variantsByReplaced = new Map<ReplacedStates, Selection>();

  constructor(parts: SelectionParameters) {
    this.#parameters = parts;
    this.computedAttributes = parts.computed;
    this.stateAttributes = parts.states;
    this.contextCsn = parts.contextCsn;
    this.ranges = parts.ranges.size > 0 ? parts.ranges : undefined;
    this.member = parts.member && this.#selects(parts.member) ? parts.member : undefined;
  }

  /** The stored attributes that a search has to read for this selection. */
  readonly readSelection: AttributeSelection = {
    includes: (stored) => (stored.isMemberUrl && this.member !== undefined) || this.takes(stored),
  };

  /** Largest number of members to compute: one more than is returned, to know whether there are more. */
  get maxMembers(): number {
    const range = this.member && this.ranges?.get(this.member);
    if (range && range.low >= MAX_MEMBERS) throw rangeTooHigh();
    return Math.min((range?.high ?? MAX_MEMBERS) + 1, MAX_MEMBERS);
  }

  /** Returns this selection with the secrets that the search names and the viewer may read in an entry. */
  forSight(sight: Sight | undefined): Selection {
    const { secrets } = this.#parameters;
    if (secrets.length === 0 || !sight) return this;
    const readableAttributes = secrets.filter((secret) => sight.allows('read', secret));
    if (readableAttributes.length === 0) return this;
    const secretsKey = readableAttributes.map(({ text }) => text).join();
    let selection = this.#variantsBySecrets.get(secretsKey);
    if (!selection) {
      selection = new Selection({ ...this.#parameters, readableSecrets: new Set(readableAttributes) });
      this.#variantsBySecrets.set(secretsKey, selection);
    }
    return selection;
  }

  /** Returns this selection without stored attributes that are replaced. */
  without(replaced: ReplacedStates): Selection {
    const cachedVariant = this.#variantsByReplaced.get(replaced);
    if (cachedVariant) return cachedVariant;
    const { states } = this.#parameters;
    const types = states.map(({ type }) => type);
    const excludedTypes = new Set(replaced === 'states' ? types.filter(({ name }) => name !== LOCK_ATTRIBUTE) : types);
    const selection = new Selection({ ...this.#parameters, excludedTypes });
    this.#variantsByReplaced.set(replaced, selection);
    return selection;
  }

  takes(stored: StoredDescription): boolean {
    const { number } = stored;
    const decision = number < this.#decisions.length ? this.#decisions[number]! : UNDECIDED;
    return decision === UNDECIDED ? this.#decide(stored) : decision === SELECTED;
  }

  #decide(stored: StoredDescription): boolean {
    const isSelected = this.#selects(stored.description);
    const { number } = stored;
    // Larger numbers are shared by several descriptions.
    if (number >= DescriptionTable.MAX) return isSelected;
    if (number >= this.#decisions.length) {
      const enlarged = new Uint8Array(Math.max(2 * this.#decisions.length, number + 1));
      enlarged.set(this.#decisions);
      this.#decisions = enlarged;
    }
    this.#decisions[number] = isSelected ? SELECTED : NOT_SELECTED;
    return isSelected;
  }

  #selects(found: AttributeDescription): boolean {
    const { type } = found;
    const { userAttributes, operationalAttributes, types, descriptions } = this.#parameters;
    if (this.#parameters.excludedTypes?.has(type) && found.options.length === 0) return false;
    if (isHidden(type)) return this.#parameters.readableSecrets?.has(found) ?? false;
    if (type.operational ? operationalAttributes : userAttributes) return true;
    if (types.has(type) || this.ranges?.has(found)) return true;
    return descriptions.some((asked) => asked === found || descriptionMatches(asked, found));
  }
}

/** Largest number of members of a dynamic group that one entry returns. */
const MAX_MEMBERS = 200_000;

function rangeTooHigh(): LdapError {
  const remedy = 'search for the others by its memberURL';
  return new LdapError('adminLimitExceeded', `a dynamic group gives out ${MAX_MEMBERS} members; ${remedy}`);
}

interface SelectionParameters extends ReturnType<typeof parseSelection> {
  /** The secrets that are returned. */
  readonly readableSecrets?: ReadonlySet<AttributeDescription>;
  /** Types that are not returned although the list selects them. */
  readonly excludedTypes?: ReadonlySet<AttributeType>;
}

/** Whether `+`, or `+` and `*`, select memberOf. */
type MemberOfChoice = 'named' | 'operational' | 'all';

/**
 * Parses an attribute list. Empty list or `*`: all user attributes; `+`: all operational attributes (RFC 3673); `1.1`
 * alone: no attributes; `@class`: the attributes of an object class (RFC 4529); `name;range=0-999`: a range of the
 * values of exactly this description. Unknown names select nothing. `memberOf`: `groups.memberOf` of the settings.
 */
function parseSelection(schema: Schema, names: readonly string[], memberOf: MemberOfChoice) {
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
      const nameAndRange = parseRange(name);
      const description = schema.describe(nameAndRange?.name ?? name);
      if (!description || !isRequestable(description)) continue;
      if (!nameAndRange) descriptions.set(description.text, description);
      else if (!ranges.has(description)) ranges.set(description, nameAndRange.range);
    }
  }
  const isNamed = (known: AttributeDescription) => descriptions.get(known.text) === known || ranges.has(known);
  const computed = [
    ...describeAll(schema, COMPUTED_ATTRIBUTES).filter((known) => operationalAttributes || isNamed(known)),
    ...describeAll(schema, COMPUTED_WHEN_NAMED).filter(
      (known, i) =>
        isNamed(known) ||
        (i === 0 && ((operationalAttributes && memberOf !== 'named') || (userAttributes && memberOf === 'all'))),
    ),
  ];
  const states = describeAll(schema, STATE_ATTRIBUTES).filter((known) => operationalAttributes || isNamed(known));
  const namedDescriptions = [...descriptions.values()];
  const secrets = namedDescriptions.filter(({ type }) => isHidden(type));
  return {
    userAttributes,
    operationalAttributes,
    descriptions: namedDescriptions,
    types,
    computed,
    states,
    contextCsn: describeAll(schema, ['contextCSN']).find((known) => operationalAttributes || isNamed(known)),
    ranges,
    member: schema.describe('member'),
    secrets,
  };
}

function describeAll(schema: Schema, names: readonly string[]): AttributeDescription[] {
  return names.flatMap((name) => schema.describe(name) ?? []);
}

const MAX_CACHED = 500;
const MAX_CACHED_NAMES = 64;
const MAX_CACHED_LENGTH = 1024;

export class Selections {
  readonly #schema: Schema;
  readonly #memberOf: MemberOfChoice;
  readonly #defaultSelection: Selection;
  readonly #cachedSelections = new BoundedMap<string, Selection>(MAX_CACHED);

  constructor(schema: Schema, memberOf: MemberOfChoice = 'named') {
    this.#schema = schema;
    this.#memberOf = memberOf;
    this.#defaultSelection = this.#compile([]);
  }

  forAttributes(names: readonly string[]): Selection {
    if (names.length === 0 || (names.length === 1 && names[0] === '*')) return this.#defaultSelection;
    if (names.length > MAX_CACHED_NAMES) return this.#compile(names);
    const key = names.length === 1 ? names[0]! : names.join('\0');
    const cachedSelection = this.#cachedSelections.get(key);
    if (cachedSelection) return cachedSelection;
    const selection = this.#compile(names);
    // Ranges are not cached: a client that reads a group in steps requests each range once.
    if (key.length > MAX_CACHED_LENGTH || selection.ranges) return selection;
    this.#cachedSelections.set(key, selection);
    return selection;
  }

  #compile(names: readonly string[]): Selection {
    return new Selection(parseSelection(this.#schema, names, this.#memberOf));
  }
}
