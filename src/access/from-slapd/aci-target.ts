import type { AciTarget } from './aci-syntax.js';
import type { Approximation } from './aci-who.js';
import { type AttributeBits, type Attributes, NO_ATTRIBUTES } from './attribute-bits.js';
import { isAtOrBelow, type Name, type Place } from './place.js';
import { negated } from './region.js';
import type { RuleWords } from './words.js';

export interface TranslatedTarget {
  /** Undefined: rules cannot express the target. */
  readonly place: Place | undefined;
  readonly filters: readonly string[];
  /** Undefined: the aci has no `targetattr`. */
  readonly attributes: Attributes | undefined;
  /** Attributes that the aci names explicitly. */
  readonly named: Attributes;
  /** Attributes to subtract from `attributes`, from `targetattr != "…"`. */
  readonly except: Attributes;
  /** Reasons why parts of the target cannot be expressed in rules. */
  readonly unsupported: readonly string[];
}

const SCOPES: Readonly<Record<string, Place['scope']>> = {
  base: 'base',
  onelevel: 'one',
  subtree: 'subtree',
  subordinate: 'children',
};

/** Translates the targets of an aci. */
export class TargetReader {
  readonly #words: RuleWords;
  readonly #bits: AttributeBits;

  constructor(words: RuleWords, bits: AttributeBits) {
    this.#words = words;
    this.#bits = bits;
  }

  /**
   * `entry` is the entry that has the aci. With `less`, targets that rules cannot express yield no place; with `more`
   * they are ignored, which widens the rule.
   */
  read(targets: readonly AciTarget[], entry: Name, approximation: Approximation): TranslatedTarget {
    const unsupported: string[] = [];
    let place: Place | undefined = { scope: 'subtree', name: entry };
    const filters: string[] = [];
    let attributes: { all: Attributes | undefined; named: Attributes; except: Attributes } = NONE_NAMED;
    const unknown = ({ key, equal, value }: AciTarget, why = '') => {
      unsupported.push(`no rule can say '${key} ${equal ? '=' : '!='} "${value}"'${why}`);
      if (approximation === 'less') place = undefined;
    };
    for (const target of targets) {
      switch (target.key) {
        case 'target': {
          const found = this.#target(target, entry, approximation);
          if (!found?.exact) unknown(target);
          if (found?.place && place) place = { ...place, name: found.place.name, scope: found.place.scope };
          break;
        }
        case 'targetattr':
          attributes = this.#attributes(target, unsupported);
          break;
        case 'targetfilter': {
          const filter = this.#words.filter(target.value);
          if (typeof filter === 'string') filters.push(target.equal ? filter : negated(filter));
          else unknown(target, `: ${filter.why}`);
          break;
        }
        case 'targetscope': {
          const scope = SCOPES[target.value.toLowerCase()];
          if (scope && target.equal && place) place = { ...place, scope };
          else unknown(target);
          break;
        }
        default:
          unknown(target);
      }
    }
    return {
      place,
      filters,
      attributes: attributes.all,
      named: attributes.named,
      except: attributes.except,
      unsupported,
    };
  }

  #target(
    { equal, value }: AciTarget,
    entry: Name,
    approximation: Approximation,
  ): { place: Place; exact: boolean } | undefined {
    const text = /^ldap:\/\/\/(.*)$/i.exec(value)?.[1];
    if (text === undefined || !equal || text.includes('$')) return undefined;
    if (text === '*') return { place: { scope: 'subtree', name: entry }, exact: true };
    const suffix = text.startsWith('*,') ? text.slice(2) : text;
    const name = suffix.includes('*') ? undefined : this.#words.name(suffix);
    if (!name || 'why' in name || !isAtOrBelow(name, entry)) return undefined;
    if (suffix === text) return { place: { scope: 'subtree', name }, exact: true };
    return { place: { scope: approximation === 'less' ? 'one' : 'subtree', name }, exact: true };
  }

  #attributes({ equal, value }: AciTarget, unsupported: string[]) {
    let named = NO_ATTRIBUTES;
    let all = NO_ATTRIBUTES;
    for (const word of value.split('||').map((one) => one.trim())) {
      const bits = this.#bits.named(word);
      if (word === '*') all |= this.#bits.user | this.#bits.secret;
      else if (word === '+') all |= this.#bits.operational;
      else if (bits === undefined) unsupported.push(`attribute '${word}' is not in the schema`);
      else named |= bits;
    }
    if (equal) return { all: all | named, named, except: NO_ATTRIBUTES };
    const everything = this.#bits.user | this.#bits.operational | this.#bits.secret;
    const left = everything & ~(all | named);
    if (this.#bits.words(left)) return { all: left, named: NO_ATTRIBUTES, except: NO_ATTRIBUTES };
    return { all: everything & ~(named & this.#bits.secret), named: NO_ATTRIBUTES, except: named & this.#bits.plain };
  }
}

const NONE_NAMED = { all: undefined, named: NO_ATTRIBUTES, except: NO_ATTRIBUTES };
