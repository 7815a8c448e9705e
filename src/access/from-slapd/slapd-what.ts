import { type AttributeBits, type Attributes, CHILDREN, ENTRY, NO_ATTRIBUTES } from './attribute-bits.js';
import { EVERYWHERE, type Name, type Place } from './place.js';
import type { Region } from './region.js';
import type { Report } from './report.js';
import type { SlapdWhat, Styled } from './slapd-syntax.js';
import type { RuleWords } from './words.js';

/** A part of the `what` of a clause. */
export interface SlapdRegion extends Region {
  /** Attributes that the clause names explicitly. */
  readonly named: Attributes;
  /** Undefined if the region is exact. Otherwise the reason why the region is a superset of the clause's `what`. */
  readonly inexactReason: string | undefined;
}

interface Found {
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

/** Translates the `what` of a clause into regions. The result is empty if rules do not apply to the `what`. */
export class WhatReader {
  readonly #words: RuleWords;
  readonly #bits: AttributeBits;
  readonly #report: Report;

  constructor(words: RuleWords, bits: AttributeBits, report: Report) {
    this.#words = words;
    this.#bits = bits;
    this.#report = report;
  }

  read(what: SlapdWhat, line: number): SlapdRegion[] {
    const found = what.dn ? this.#place(what.dn, line) : { place: EVERYWHERE };
    if (!found) return [];
    const { place } = found;
    const why: string[] = found.inexactReason === undefined ? [] : [found.inexactReason];
    const filter = what.filter === undefined ? undefined : this.#words.filter(what.filter);
    const filters = typeof filter === 'string' ? [filter] : [];
    if (typeof filter === 'object') why.push(`no rule can have its filter: ${filter.why}`);
    if (what.values) why.push('rules do not tell values from one another');
    const { exact, named, inexact, reason } = this.#attributes(what.attrs, line);
    const regions: SlapdRegion[] = [];
    const all = why.length > 0 ? why.join('; ') : undefined;
    if (inexact)
      regions.push({ place, filters, attributes: inexact, named: NO_ATTRIBUTES, inexactReason: all ?? reason });
    if (exact) regions.push({ place, filters, attributes: exact, named, inexactReason: all });
    return regions;
  }

  #place({ style, pattern }: Styled, line: number): Found | undefined {
    if (pattern === '*') return { place: EVERYWHERE };
    if (style === 'regex') return this.#regex(pattern);
    const scope = SCOPES[style];
    if (!scope) return { place: EVERYWHERE, inexactReason: `no rule can say 'dn.${style}'` };
    const name = this.#words.name(pattern);
    if ('why' in name) {
      this.#report.add('left', line, `it is about no entry that can be here: ${name.why}`);
      return undefined;
    }
    if (this.#isOwn(name, scope)) {
      this.#report.add('said', line, 'this is about an entry of the server itself, which is not for rules');
      return undefined;
    }
    if (name.rdns.length > 0) return { place: { scope, name } };
    return scope === 'one'
      ? { place: EVERYWHERE, inexactReason: 'no rule can say what is one below the root' }
      : { place: EVERYWHERE };
  }

  /** Whether the place is an entry of the server: the root DSE, cn=Subschema or cn=config. Rules do not apply there. */
  #isOwn({ rdns }: Name, scope: Place['scope']): boolean {
    if (rdns.length === 0) return scope === 'base';
    return /^cn=(?:subschema|config)$/i.test(rdns.at(-1)!.text);
  }

  #regex(pattern: string): Found {
    if (/^\^?\.\*\$*$/.test(pattern)) return { place: EVERYWHERE };
    const inexactReason = `no rule can say the regular expression ${pattern}`;
    const [, start, ahead = '', suffix = ''] = SIMPLE_REGEX.exec(pattern) ?? [];
    const name = LITERAL.test(suffix) ? this.#words.name(suffix) : undefined;
    if (!name || 'why' in name) return { place: EVERYWHERE, inexactReason };
    if (ANY_ABOVE.test(ahead)) return { place: { scope: 'children', name } };
    if (start !== '^') return { place: EVERYWHERE, inexactReason };
    if (ahead === '') return { place: { scope: 'base', name } };
    if (ahead.endsWith('?')) return { place: { scope: 'subtree', name } };
    return { place: { scope: 'one', name }, ...(ONE_ABOVE.test(ahead) ? {} : { inexactReason }) };
  }

  #attributes(attrs: readonly string[] | undefined, line: number) {
    const found = { exact: NO_ATTRIBUTES, named: NO_ATTRIBUTES, inexact: NO_ATTRIBUTES, reason: '' };
    if (!attrs) return { ...found, exact: this.#bits.everything };
    for (const attr of attrs) {
      const bits = this.#wordBits(attr);
      if (bits !== undefined) {
        found.exact |= bits;
        if (/^\w/.test(attr)) found.named |= bits;
        continue;
      }
      const type = attr.includes(';') ? this.#bits.named(attr.split(';', 1)[0]!) : undefined;
      if (type !== undefined) found.reason = `'${attr}': rules made here do not tell options from one another`;
      else if (!/^[@!]/.test(attr)) {
        this.#report.add('left', line, `attribute '${attr}' is not in the schema`);
        continue;
      } else found.reason = `object class '${attr.slice(1)}' is not in the schema`;
      found.inexact |= type ?? this.#bits.plain | this.#bits.secret;
    }
    if (found.inexact) this.#report.add('left', line, found.reason);
    return { ...found, inexact: found.inexact & ~found.exact };
  }

  #wordBits(attr: string): Attributes | undefined {
    const { user, operational, secret } = this.#bits;
    switch (attr.toLowerCase()) {
      case 'entry':
        return ENTRY;
      case 'children':
        return CHILDREN;
      case '*':
        return user | secret;
      case '+':
        return operational;
    }
    if (attr.startsWith('@')) return this.#bits.ofClass(attr.slice(1));
    const without = attr.startsWith('!') ? this.#bits.ofClass(attr.slice(1)) : undefined;
    if (without !== undefined) return (user | operational | secret) & ~without;
    return attr.startsWith('!') ? undefined : this.#bits.named(attr);
  }
}
