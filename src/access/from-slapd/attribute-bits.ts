import type { Schema } from '../../schema/schema.js';
import type { AttributeType } from '../../schema/schema-types.js';
import { isServerSecret } from '../rule.js';

/** A set of attribute types, of the word `entry` and of the word `children`. One bit for each. */
export type Attributes = bigint;

export const NO_ATTRIBUTES = 0n;
export const ENTRY = 1n;
export const CHILDREN = 2n;
const FIRST_TYPE_BIT = 2;

/** Longest list of attribute names in a rule; a longer list would not be readable. */
const MAX_NAMES = 80;

/**
 * Numbers the attribute types of a schema, one bit each, and converts sets of bits to the notation of rules. Secrets
 * that only the server writes have no bit, because rules cannot grant rights on them.
 */
export class AttributeBits {
  readonly #types: readonly AttributeType[];
  readonly #bitByType = new Map<AttributeType, bigint>();
  readonly #subtypeBits = new Map<AttributeType, Attributes>();
  readonly #classBits = new Map<string, Attributes>();
  readonly #schema: Schema;
  readonly userBits: Attributes;
  readonly operationalBits: Attributes;
  readonly secretBits: Attributes;
  /** `userPassword`, the secret of ordinary accounts. */
  readonly passwordType: AttributeType | undefined;

  constructor(schema: Schema) {
    this.#schema = schema;
    this.#types = [...schema.attributes()].filter((type) => !isServerSecret(type));
    for (const [i, type] of this.#types.entries()) this.#bitByType.set(type, 1n << BigInt(FIRST_TYPE_BIT + i));
    this.userBits = this.#sumWhere((type) => !type.operational && !type.secret);
    this.operationalBits = this.#sumWhere((type) => type.operational && !type.secret);
    this.secretBits = this.#sumWhere((type) => type.secret);
    this.passwordType = schema.attribute('userPassword');
  }

  #sumWhere(test: (type: AttributeType) => boolean): Attributes {
    return this.sum(this.#types.filter(test));
  }

  sum(types: Iterable<AttributeType>): Attributes {
    let bits = NO_ATTRIBUTES;
    for (const type of types) bits |= this.#bitByType.get(type) ?? NO_ATTRIBUTES;
    return bits;
  }

  get allBits(): Attributes {
    return this.userBits | this.operationalBits | this.secretBits | ENTRY | CHILDREN;
  }

  /** All attributes that `*` and `+` of a rule cover. */
  get plainBits(): Attributes {
    return this.userBits | this.operationalBits;
  }

  /** The attribute with its subtypes; undefined if the schema does not define the name. */
  bitsOfName(name: string): Attributes | undefined {
    const type = this.#schema.attribute(name);
    return type && this.#bitsOfType(type);
  }

  #bitsOfType(type: AttributeType): Attributes {
    let bits = this.#subtypeBits.get(type);
    if (bits === undefined) {
      bits = this.sum(type.subtypes);
      this.#subtypeBits.set(type, bits);
    }
    return bits;
  }

  /** The attributes that an object class requires or allows, with their subtypes. */
  bitsOfClass(name: string): Attributes | undefined {
    const types = this.#schema.expandClass(name);
    if (!types) return undefined;
    const classBits = types.map((type) => this.#bitsOfType(type)).reduce((sum, bits) => sum | bits, NO_ATTRIBUTES);
    const typeBits = this.sum(types);
    if (classBits === typeBits) this.#classBits.set(this.#schema.objectClass(name)!.name, typeBits & this.plainBits);
    return classBits;
  }

  typesIn(bits: Attributes): AttributeType[] {
    return this.#types.filter((type) => bits & this.#bitByType.get(type)!);
  }

  /** Returns the set as words of `attributes` in a rule; undefined if there would be more than `MAX_NAMES`. */
  ruleWords(bits: Attributes): string[] | undefined {
    const ruleWords: string[] = [];
    let remaining = bits & ~ENTRY & ~CHILDREN;
    const addWord = (word: string, covered: Attributes) => {
      if (covered === NO_ATTRIBUTES || (remaining & covered) !== covered) return;
      ruleWords.push(word);
      remaining &= ~covered;
    };
    addWord('*', this.userBits);
    addWord('+', this.operationalBits);
    for (const [name, covered] of this.#classBits) addWord(`@${name}`, covered);
    const coveredBits = (type: AttributeType) =>
      type.secret ? this.#bitsOfType(type) : this.#bitsOfType(type) & ~this.secretBits;
    const types = this.typesIn(remaining);
    const typeSet = new Set(types);
    if (types.some((type) => coveredBits(type) & ~bits)) return undefined;
    const isBelow = ({ superior, secret }: AttributeType) => superior?.secret === secret && typeSet.has(superior);
    const rootTypes = types.filter((type) => !isBelow(type));
    if (rootTypes.length > MAX_NAMES) return undefined;
    ruleWords.push(...rootTypes.map(({ name }) => name));
    if (bits & ENTRY) ruleWords.push('entry');
    if (bits & CHILDREN) ruleWords.push('children');
    return ruleWords;
  }
}
