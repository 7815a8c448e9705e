import type { AciTarget } from './aci-syntax.js';
import type { Approximation } from './aci-who.js';
import { type AttributeBits, type Attributes, NO_ATTRIBUTES } from './attribute-bits.js';
import { isAtOrBelow, type Name, negateFilter, type Place } from './place.js';
import type { RuleWords } from './words.js';

export interface TranslatedTarget {
  /** The entries that the aci covers. Undefined: rules cannot express the target. */
  readonly place: Place | undefined;
  readonly filters: readonly string[];
  /** Undefined: the aci has no `targetattr`. */
  readonly attributes: Attributes | undefined;
  /** Attributes that the aci names explicitly. */
  readonly namedAttributes: Attributes;
  /** Attributes to subtract from `attributes`, from `targetattr != "…"`. */
  readonly exceptedAttributes: Attributes;
  /** For each part of the target that rules cannot express: the reason. */
  readonly unsupportedReasons: readonly string[];
}

const SCOPES: Readonly<Record<string, Place['scope']>> = {
  base: 'base',
  onelevel: 'one',
  subtree: 'subtree',
  subordinate: 'children',
};

/** Translates the targets of an aci. */
export class TargetReader {
  readonly #notation: RuleWords;
  readonly #bits: AttributeBits;

  constructor(notation: RuleWords, bits: AttributeBits) {
    this.#notation = notation;
    this.#bits = bits;
  }

  /**
   * Translates the targets of the aci that `entry` has. If rules cannot express a target: with `less` the result has no
   * place, with `more` the target is ignored, which widens the rule.
   */
  read(targets: readonly AciTarget[], entry: Name, approximation: Approximation): TranslatedTarget {
    const unsupportedReasons: string[] = [];
    let place: Place | undefined = { scope: 'subtree', base: entry };
    const filters: string[] = [];
    let attributeSets: Pick<TranslatedTarget, 'attributes' | 'namedAttributes' | 'exceptedAttributes'> = NONE_NAMED;
    const reportUnsupported = ({ key, isEqual, value }: AciTarget, reason = '') => {
      unsupportedReasons.push(`no rule can say '${key} ${isEqual ? '=' : '!='} "${value}"'${reason}`);
      if (approximation === 'less') place = undefined;
    };
    for (const target of targets) {
      switch (target.key) {
        case 'target': {
          const targetPlace = this.#target(target, entry, approximation);
          if (!targetPlace?.exact) reportUnsupported(target);
          if (targetPlace?.place && place)
            place = { ...place, base: targetPlace.place.base, scope: targetPlace.place.scope };
          break;
        }
        case 'targetattr':
          attributeSets = this.#attributes(target, unsupportedReasons);
          break;
        case 'targetfilter': {
          const filter = this.#notation.toFilter(target.value);
          if (typeof filter === 'string') filters.push(target.isEqual ? filter : negateFilter(filter));
          else reportUnsupported(target, `: ${filter.why}`);
          break;
        }
        case 'targetscope': {
          const scope = SCOPES[target.value.toLowerCase()];
          if (scope && target.isEqual && place) place = { ...place, scope };
          else reportUnsupported(target);
          break;
        }
        default:
          reportUnsupported(target);
      }
    }
    return { place, filters, ...attributeSets, unsupportedReasons };
  }

  #target(
    { isEqual, value }: AciTarget,
    entry: Name,
    approximation: Approximation,
  ): { place: Place; exact: boolean } | undefined {
    const text = /^ldap:\/\/\/(.*)$/i.exec(value)?.[1];
    if (text === undefined || !isEqual || text.includes('$')) return undefined;
    if (text === '*') return { place: { scope: 'subtree', base: entry }, exact: true };
    const suffix = text.startsWith('*,') ? text.slice(2) : text;
    const base = suffix.includes('*') ? undefined : this.#notation.toName(suffix);
    if (!base || 'why' in base || !isAtOrBelow(base, entry)) return undefined;
    if (suffix === text) return { place: { scope: 'subtree', base }, exact: true };
    return { place: { scope: approximation === 'less' ? 'one' : 'subtree', base }, exact: true };
  }

  #attributes({ isEqual, value }: AciTarget, unsupported: string[]) {
    let namedAttributes = NO_ATTRIBUTES;
    let attributes = NO_ATTRIBUTES;
    for (const name of value.split('||').map((one) => one.trim())) {
      const bits = this.#bits.bitsOfName(name);
      if (name === '*') attributes |= this.#bits.userBits | this.#bits.secretBits;
      else if (name === '+') attributes |= this.#bits.operationalBits;
      else if (bits === undefined) unsupported.push(`attribute '${name}' is not in the schema`);
      else namedAttributes |= bits;
    }
    if (isEqual)
      return { attributes: attributes | namedAttributes, namedAttributes, exceptedAttributes: NO_ATTRIBUTES };
    const allBits = this.#bits.userBits | this.#bits.operationalBits | this.#bits.secretBits;
    const remainingBits = allBits & ~(attributes | namedAttributes);
    if (this.#bits.ruleWords(remainingBits)) return { ...NONE_NAMED, attributes: remainingBits };
    return {
      attributes: allBits & ~(namedAttributes & this.#bits.secretBits),
      namedAttributes: NO_ATTRIBUTES,
      exceptedAttributes: namedAttributes & this.#bits.plainBits,
    };
  }
}

const NONE_NAMED = { attributes: undefined, namedAttributes: NO_ATTRIBUTES, exceptedAttributes: NO_ATTRIBUTES };
