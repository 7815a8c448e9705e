import type { Schema } from '../../schema/schema.js';
import type { AttributeType } from '../../schema/schema-types.js';
import { isServerSecret } from '../attribute-set.js';

/** A set of attribute types, `entry` and `children`, with one bit each. */
export type Attributes = bigint;

export const NO_ATTRIBUTES = 0n;
export const ENTRY = 1n;
export const CHILDREN = 2n;
const FIRST = 2;

/** Longest list of attribute names in a rule; a longer list would not be readable. */
const MOST_NAMES = 80;

/**
 * Maps the attribute types of a schema to bits, and sets of bits to the notation of rules. Secrets of the server are
 * left out, because rules cannot grant rights on them.
 */
export class AttributeBits {
  readonly #types: readonly AttributeType[];
  readonly #bits = new Map<AttributeType, bigint>();
  readonly #named = new Map<AttributeType, Attributes>();
  readonly #classes = new Map<string, Attributes>();
  readonly #schema: Schema;
  readonly user: Attributes;
  readonly operational: Attributes;
  readonly secret: Attributes;
  /** `userPassword`, the secret of ordinary accounts. */
  readonly password: AttributeType | undefined;

  constructor(schema: Schema) {
    this.#schema = schema;
    this.#types = [...schema.attributes()].filter((type) => !isServerSecret(type));
    for (const [i, type] of this.#types.entries()) this.#bits.set(type, 1n << BigInt(FIRST + i));
    this.user = this.#of((type) => !type.operational && !type.secret);
    this.operational = this.#of((type) => type.operational && !type.secret);
    this.secret = this.#of((type) => type.secret);
    this.password = schema.attribute('userPassword');
  }

  #of(test: (type: AttributeType) => boolean): Attributes {
    return this.sum(this.#types.filter(test));
  }

  sum(types: Iterable<AttributeType>): Attributes {
    let bits = NO_ATTRIBUTES;
    for (const type of types) bits |= this.#bits.get(type) ?? NO_ATTRIBUTES;
    return bits;
  }

  get everything(): Attributes {
    return this.user | this.operational | this.secret | ENTRY | CHILDREN;
  }

  /** All attributes that `*` and `+` of a rule cover. */
  get plain(): Attributes {
    return this.user | this.operational;
  }

  /** The attribute with its subtypes; undefined if the schema does not define the name. */
  named(name: string): Attributes | undefined {
    const type = this.#schema.attribute(name);
    return type && this.#ofType(type);
  }

  #ofType(type: AttributeType): Attributes {
    let bits = this.#named.get(type);
    if (bits === undefined) {
      bits = this.sum(type.subtypes);
      this.#named.set(type, bits);
    }
    return bits;
  }

  /** The attributes that an object class requires or allows, with their subtypes. */
  ofClass(name: string): Attributes | undefined {
    const types = this.#schema.expandClass(name);
    if (!types) return undefined;
    const all = types.map((type) => this.#ofType(type)).reduce((sum, bits) => sum | bits, NO_ATTRIBUTES);
    const own = this.sum(types);
    if (all === own) this.#classes.set(this.#schema.objectClass(name)!.name, own & this.plain);
    return all;
  }

  typesIn(bits: Attributes): AttributeType[] {
    return this.#types.filter((type) => bits & this.#bits.get(type)!);
  }

  /** The set in the notation of `attributes` in a rule; undefined if no list of reasonable length describes the set. */
  words(bits: Attributes): string[] | undefined {
    const words: string[] = [];
    let rest = bits & ~ENTRY & ~CHILDREN;
    const take = (word: string, covered: Attributes) => {
      if (covered === NO_ATTRIBUTES || (rest & covered) !== covered) return;
      words.push(word);
      rest &= ~covered;
    };
    take('*', this.user);
    take('+', this.operational);
    for (const [name, covered] of this.#classes) take(`@${name}`, covered);
    const covers = (type: AttributeType) => (type.secret ? this.#ofType(type) : this.#ofType(type) & ~this.secret);
    const types = this.typesIn(rest);
    const among = new Set(types);
    if (types.some((type) => covers(type) & ~bits)) return undefined;
    const isBelow = ({ superior, secret }: AttributeType) => superior?.secret === secret && among.has(superior);
    const roots = types.filter((type) => !isBelow(type));
    if (roots.length > MOST_NAMES) return undefined;
    words.push(...roots.map(({ name }) => name));
    if (bits & ENTRY) words.push('entry');
    if (bits & CHILDREN) words.push('children');
    return words;
  }
}
