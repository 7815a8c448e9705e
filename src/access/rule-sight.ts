import type { Sight, Use } from '../partition/model/viewer.js';
import type { AttributeDescription, AttributeType } from '../schema/schema-types.js';
import { covers, coversAll } from './attribute-set.js';
import { NO_RIGHTS, OF_ATTRIBUTE, OF_CHILDREN, OF_ENTRY, type RightSet, rightSet } from './right.js';
import type { AccessRule } from './rule.js';

const SEE = rightSet('see');
const BITS: Readonly<Record<Use, RightSet>> = {
  search: rightSet('search'),
  compare: rightSet('compare'),
  read: rightSet('read'),
};

/** What the rules that hold for an entry allow: grants add up, and what is denied is taken away. */
export class RuleSight implements Sight {
  /** On the entry itself, and on what is right below it. */
  readonly entry: RightSet;
  readonly children: RightSet;
  readonly #rules: readonly AccessRule[];
  /** On all attributes but secrets. */
  readonly #whole: RightSet;
  readonly #confidential: boolean;
  readonly #attributes = new Map<AttributeDescription, RightSet>();
  readonly #types = new Map<AttributeType, RightSet>();

  /** `confidential`: nobody listens in where the values would go. */
  constructor(rules: readonly AccessRule[], confidential: boolean) {
    this.#rules = rules;
    this.#confidential = confidential;
    this.entry = sum(rules.filter(({ to }) => to.attributes.entry)) & OF_ENTRY;
    this.children = sum(rules.filter(({ to }) => to.attributes.children)) & OF_CHILDREN;
    this.#whole = sum(rules.filter(({ to }) => coversAll(to.attributes))) & sum(rules);
  }

  all(use: Use): boolean {
    return (this.#whole & BITS[use]) !== NO_RIGHTS;
  }

  get seen(): boolean {
    return (this.entry & SEE) !== NO_RIGHTS;
  }

  /** On an attribute. */
  on(description: AttributeDescription): RightSet {
    let rights = this.#attributes.get(description);
    if (rights === undefined) {
      rights = this.#on(description);
      this.#attributes.set(description, rights);
    }
    return rights;
  }

  #on(description: AttributeDescription): RightSet {
    const about = this.#rules.filter(({ to }) => covers(to.attributes, description));
    const rights = sum(about) & OF_ATTRIBUTE;
    if (!description.type.secret) return rights;
    // Secrets are searched for by nobody, and go out where nobody listens in, or where a rule says how strong.
    const goesOut =
      this.#confidential || about.some(({ who, allow }) => who.strength !== undefined && allow & BITS.read);
    return rights & ~BITS.search & (goesOut ? OF_ATTRIBUTE : ~BITS.read);
  }

  allows(use: Use, description: AttributeDescription): boolean {
    return (this.on(description) & BITS[use]) !== NO_RIGHTS;
  }

  /** Whether a type is allowed whatever options it has; false also where a rule names some. */
  allowsEvery(use: Use, type: AttributeType): boolean {
    let rights = this.#types.get(type);
    if (rights === undefined) {
      const named = this.#rules.flatMap(({ to }) => to.attributes.descriptions);
      const isNamed = named.some((one) => one.options.length > 0 && one.type.subtypes.includes(type));
      rights = isNamed ? NO_RIGHTS : this.#on({ type, options: [], binary: false, text: type.name });
      this.#types.set(type, rights);
    }
    return (rights & BITS[use]) !== NO_RIGHTS;
  }
}

/** What several rules come to together. */
export function sum(rules: readonly AccessRule[]): RightSet {
  let allowed = NO_RIGHTS;
  let denied = NO_RIGHTS;
  for (const { allow, deny } of rules) {
    allowed |= allow;
    denied |= deny;
  }
  return allowed & ~denied;
}
