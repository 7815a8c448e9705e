import type { Sight, Use } from '../partition/model/viewer.js';
import type { AttributeDescription, AttributeType } from '../schema/schema-types.js';
import { covers, coversAll } from './attribute-set.js';
import { ATTRIBUTE_RIGHTS, CHILDREN_RIGHTS, ENTRY_RIGHTS, NO_RIGHTS, type RightSet, rightSet } from './right.js';
import type { AccessRule } from './rule.js';

const SEE = rightSet('see');
const BITS: Readonly<Record<Use, RightSet>> = {
  search: rightSet('search'),
  compare: rightSet('compare'),
  read: rightSet('read'),
};

/** The rights of a requester on an entry: the union of the allowed rights without the denied rights. */
export class RuleSight implements Sight {
  /** Rights on the entry itself, and on the place right below it. */
  readonly entry: RightSet;
  readonly children: RightSet;
  readonly #rules: readonly AccessRule[];
  /** Rights on all attributes except secrets. */
  readonly #whole: RightSet;
  readonly #confidential: boolean;
  readonly #attributes = new Map<AttributeDescription, RightSet>();
  readonly #types = new Map<AttributeType, RightSet>();

  /** `confidential`: whether nobody can eavesdrop on the connection that the values are sent over. */
  constructor(rules: readonly AccessRule[], confidential: boolean) {
    this.#rules = rules;
    this.#confidential = confidential;
    this.entry = sum(rules.filter(({ to }) => to.attributes.entry)) & ENTRY_RIGHTS;
    this.children = sum(rules.filter(({ to }) => to.attributes.children)) & CHILDREN_RIGHTS;
    this.#whole = sum(rules.filter(({ to }) => coversAll(to.attributes))) & sum(rules);
  }

  all(use: Use): boolean {
    return (this.#whole & BITS[use]) !== NO_RIGHTS;
  }

  get seen(): boolean {
    return (this.entry & SEE) !== NO_RIGHTS;
  }

  /** Rights on an attribute. */
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
    const rights = sum(about) & ATTRIBUTE_RIGHTS;
    if (!description.type.secret) return rights;
    // Secrets are never searchable. Reading a secret requires a confidential connection, or a rule that sets the
    // required strength.
    const goesOut =
      this.#confidential || about.some(({ who, allow }) => who.strength !== undefined && allow & BITS.read);
    return rights & ~BITS.search & (goesOut ? ATTRIBUTE_RIGHTS : ~BITS.read);
  }

  allows(use: Use, description: AttributeDescription): boolean {
    return (this.on(description) & BITS[use]) !== NO_RIGHTS;
  }

  /** Whether a type is allowed with any options; false also if a rule names the type with options. */
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

/** Combines rules: all allowed rights without the denied rights. */
export function sum(rules: readonly AccessRule[]): RightSet {
  let allowed = NO_RIGHTS;
  let denied = NO_RIGHTS;
  for (const { allow, deny } of rules) {
    allowed |= allow;
    denied |= deny;
  }
  return allowed & ~denied;
}
