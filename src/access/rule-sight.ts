import type { Sight, Use } from '../partition/model/viewer.js';
import type { AttributeDescription, AttributeType } from '../schema/schema-types.js';
import { ATTRIBUTE_RIGHTS, CHILDREN_RIGHTS, ENTRY_RIGHTS, NO_RIGHTS, type RightSet, rightSet } from './right.js';
import { type AccessRule, covers, coversAll } from './rule.js';

const SEE = rightSet('see');
const RIGHT_OF_USE: Readonly<Record<Use, RightSet>> = {
  search: rightSet('search'),
  compare: rightSet('compare'),
  read: rightSet('read'),
};

/** The rights of a requester on an entry and its attributes: the allowed rights without the denied rights. */
export class RuleSight implements Sight {
  readonly entryRights: RightSet;
  readonly childrenRights: RightSet;
  readonly #rules: readonly AccessRule[];
  /** Rights on all attributes except secrets. */
  readonly #rightsOnAllAttributes: RightSet;
  readonly #isConfidential: boolean;
  readonly #rightsByDescription = new Map<AttributeDescription, RightSet>();
  readonly #rightsByType = new Map<AttributeType, RightSet>();

  /** `isConfidential`: whether nobody can eavesdrop on the connection that the values are sent over. */
  constructor(rules: readonly AccessRule[], isConfidential: boolean) {
    this.#rules = rules;
    this.#isConfidential = isConfidential;
    this.entryRights = netRights(rules.filter(({ to }) => to.attributes.includesEntry)) & ENTRY_RIGHTS;
    this.childrenRights = netRights(rules.filter(({ to }) => to.attributes.includesChildren)) & CHILDREN_RIGHTS;
    this.#rightsOnAllAttributes = netRights(rules.filter(({ to }) => coversAll(to.attributes))) & netRights(rules);
  }

  all(use: Use): boolean {
    return (this.#rightsOnAllAttributes & RIGHT_OF_USE[use]) !== NO_RIGHTS;
  }

  get seen(): boolean {
    return (this.entryRights & SEE) !== NO_RIGHTS;
  }

  rightsOn(description: AttributeDescription): RightSet {
    let rights = this.#rightsByDescription.get(description);
    if (rights === undefined) {
      rights = this.#computeRights(description);
      this.#rightsByDescription.set(description, rights);
    }
    return rights;
  }

  #computeRights(description: AttributeDescription): RightSet {
    const rulesAbout = this.#rules.filter(({ to }) => covers(to.attributes, description));
    const rights = netRights(rulesAbout) & ATTRIBUTE_RIGHTS;
    if (!description.type.secret) return rights;
    // No rule can make secrets searchable. Reading a secret requires a confidential connection, or a rule that sets the
    // required strength (`strength` in `who`).
    const mayBeRead =
      this.#isConfidential ||
      rulesAbout.some(({ who, allow }) => who.strength !== undefined && allow & RIGHT_OF_USE.read);
    return rights & ~RIGHT_OF_USE.search & (mayBeRead ? ATTRIBUTE_RIGHTS : ~RIGHT_OF_USE.read);
  }

  allows(use: Use, description: AttributeDescription): boolean {
    return (this.rightsOn(description) & RIGHT_OF_USE[use]) !== NO_RIGHTS;
  }

  /** Whether the use of the type is allowed with any options. Also false if a rule names the type with options. */
  allowsEvery(use: Use, type: AttributeType): boolean {
    let rights = this.#rightsByType.get(type);
    if (rights === undefined) {
      const descriptions = this.#rules.flatMap(({ to }) => to.attributes.descriptions);
      const hasOptions = descriptions.some((one) => one.options.length > 0 && one.type.subtypes.includes(type));
      rights = hasOptions ? NO_RIGHTS : this.#computeRights({ type, options: [], binary: false, text: type.name });
      this.#rightsByType.set(type, rights);
    }
    return (rights & RIGHT_OF_USE[use]) !== NO_RIGHTS;
  }
}

/** The rights that some rule allows and no rule denies: a denial has precedence over every grant. */
export function netRights(rules: readonly AccessRule[]): RightSet {
  let allowedRights = NO_RIGHTS;
  let deniedRights = NO_RIGHTS;
  for (const { allow, deny } of rules) {
    allowedRights |= allow;
    deniedRights |= deny;
  }
  return allowedRights & ~deniedRights;
}
