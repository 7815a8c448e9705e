import { type AttributeBits, type Attributes, CHILDREN, ENTRY, NO_ATTRIBUTES } from './attribute-bits.js';
import { EVERYWHERE, type Name, type Place, type Region } from './place.js';
import type { Report } from './report.js';
import type { SlapdWhat, StyledDn } from './slapd-syntax.js';
import type { RuleWords } from './words.js';

/** A region of the `what` of an `access` line. */
export interface SlapdRegion extends Region {
  /** Attributes that the clause names explicitly. */
  readonly namedAttributes: Attributes;
  /** Undefined if the region is exact. Otherwise the reason why it is only a superset of the `what`. */
  readonly inexactReason: string | undefined;
}

interface FoundPlace {
  readonly place: Place;
  readonly inexactReason?: string;
}

const SCOPES: Readonly<Record<string, Place['scope']>> = {
  base: 'base',
  exact: 'base',
  baseobject: 'base',
  one: 'one',
  onelevel: 'one',
  sub: 'subtree',
  subtree: 'subtree',
  children: 'children',
};

/** RDNs without special characters of regular expressions. */
const LITERAL = /^[\w-]+=[\w -]+(?:,[\w-]+=[\w -]+)*$/;

/** `^uid=[^,]+,SUFFIX$` and similar: the expression before the suffix, and the suffix. */
const SIMPLE_REGEX =
  /^(\^?)(\(\.[+*],\)\?|(?:\.[+*]|\(\.[+*]\)),|(?:[\w-]+=)?(?:\[\^,\][+*]|\(\[\^,\][+*]\)),)?(.*)\$+$/;
const ANY_ABOVE = /^(?:\.[+*]|\(\.[+*]\)),$/;
const ONE_ABOVE = /^(?:\[\^,\][+*]|\(\[\^,\][+*]\)),$/;

/** Translates the `what` of an `access` line into regions; into none if rules do not apply to any of its entries. */
export class WhatReader {
  readonly #notation: RuleWords;
  readonly #bits: AttributeBits;
  readonly #report: Report;

  constructor(notation: RuleWords, bits: AttributeBits, report: Report) {
    this.#notation = notation;
    this.#bits = bits;
    this.#report = report;
  }

  read(clause: SlapdWhat, line: number): SlapdRegion[] {
    const foundPlace = clause.dn ? this.#readPlace(clause.dn, line) : { place: EVERYWHERE };
    if (!foundPlace) return [];
    const { place } = foundPlace;
    const reasons: string[] = foundPlace.inexactReason === undefined ? [] : [foundPlace.inexactReason];
    const filter = clause.filter === undefined ? undefined : this.#notation.toFilter(clause.filter);
    const filters = typeof filter === 'string' ? [filter] : [];
    if (typeof filter === 'object') reasons.push(`no rule can have its filter: ${filter.why}`);
    if (clause.distinguishesValues) reasons.push('rules do not tell values from one another');
    const { exact, namedAttributes, inexact, reason } = this.#readAttributes(clause.attrs, line);
    const regions: SlapdRegion[] = [];
    const placeReason = reasons.length > 0 ? reasons.join('; ') : undefined;
    if (inexact)
      regions.push({
        place,
        filters,
        attributes: inexact,
        namedAttributes: NO_ATTRIBUTES,
        inexactReason: placeReason ?? reason,
      });
    if (exact) regions.push({ place, filters, attributes: exact, namedAttributes, inexactReason: placeReason });
    return regions;
  }

  #readPlace({ style, pattern }: StyledDn, line: number): FoundPlace | undefined {
    if (pattern === '*') return { place: EVERYWHERE };
    if (style === 'regex') return this.#readRegex(pattern);
    const scope = SCOPES[style];
    if (!scope) return { place: EVERYWHERE, inexactReason: `no rule can say 'dn.${style}'` };
    const base = this.#notation.toName(pattern);
    if ('why' in base) {
      this.#report.add('left', line, `it is about no entry that can be here: ${base.why}`);
      return undefined;
    }
    if (this.#isServerEntry(base, scope)) {
      this.#report.add('said', line, 'this is about an entry of the server itself, which is not for rules');
      return undefined;
    }
    if (base.rdns.length > 0) return { place: { scope, base } };
    return scope === 'one'
      ? { place: EVERYWHERE, inexactReason: 'no rule can say what is one below the root' }
      : { place: EVERYWHERE };
  }

  /** Whether the place is an entry that the server provides, such as the root DSE. Rules do not apply there. */
  #isServerEntry({ rdns }: Name, scope: Place['scope']): boolean {
    if (rdns.length === 0) return scope === 'base';
    return /^cn=(?:subschema|config)$/i.test(rdns.at(-1)!.text);
  }

  #readRegex(pattern: string): FoundPlace {
    if (/^\^?\.\*\$*$/.test(pattern)) return { place: EVERYWHERE };
    const inexactReason = `no rule can say the regular expression ${pattern}`;
    const [, start, ahead = '', suffix = ''] = SIMPLE_REGEX.exec(pattern) ?? [];
    const base = LITERAL.test(suffix) ? this.#notation.toName(suffix) : undefined;
    if (!base || 'why' in base) return { place: EVERYWHERE, inexactReason };
    if (ANY_ABOVE.test(ahead)) return { place: { scope: 'children', base } };
    if (start !== '^') return { place: EVERYWHERE, inexactReason };
    if (ahead === '') return { place: { scope: 'base', base } };
    if (ahead.endsWith('?')) return { place: { scope: 'subtree', base } };
    return { place: { scope: 'one', base }, ...(ONE_ABOVE.test(ahead) ? {} : { inexactReason }) };
  }

  #readAttributes(attrs: readonly string[] | undefined, line: number) {
    const result = { exact: NO_ATTRIBUTES, namedAttributes: NO_ATTRIBUTES, inexact: NO_ATTRIBUTES, reason: '' };
    if (!attrs) return { ...result, exact: this.#bits.allBits };
    for (const attr of attrs) {
      const bits = this.#wordBits(attr);
      if (bits !== undefined) {
        result.exact |= bits;
        if (/^\w/.test(attr)) result.namedAttributes |= bits;
        continue;
      }
      const type = attr.includes(';') ? this.#bits.bitsOfName(attr.split(';', 1)[0]!) : undefined;
      if (type !== undefined) result.reason = `'${attr}': rules made here do not tell options from one another`;
      else if (!/^[@!]/.test(attr)) {
        this.#report.add('left', line, `attribute '${attr}' is not in the schema`);
        continue;
      } else result.reason = `object class '${attr.slice(1)}' is not in the schema`;
      result.inexact |= type ?? this.#bits.plainBits | this.#bits.secretBits;
    }
    if (result.inexact) this.#report.add('left', line, result.reason);
    return { ...result, inexact: result.inexact & ~result.exact };
  }

  #wordBits(attr: string): Attributes | undefined {
    const { userBits, operationalBits, secretBits } = this.#bits;
    switch (attr.toLowerCase()) {
      case 'entry':
        return ENTRY;
      case 'children':
        return CHILDREN;
      case '*':
        return userBits | secretBits;
      case '+':
        return operationalBits;
    }
    if (attr.startsWith('@')) return this.#bits.bitsOfClass(attr.slice(1));
    const classBits = attr.startsWith('!') ? this.#bits.bitsOfClass(attr.slice(1)) : undefined;
    if (classBits !== undefined) return (userBits | operationalBits | secretBits) & ~classBits;
    return attr.startsWith('!') ? undefined : this.#bits.bitsOfName(attr);
  }
}
