import type { BindItem, BindRule } from './aci-syntax.js';
import { ANONYMOUS, areApart, EVERYBODY, USERS, type WhoSet, whoInBoth, whoWithout } from './who-set.js';
import type { RuleWords } from './words.js';

/** How to approximate inexpressible conditions: `less` matches nobody, `more` everybody who may be meant. */
export type Lean = 'less' | 'more';

const STRENGTH = /^\d{1,3}$/;

/** Translates bind rules into a union of `WhoSet`s. */
export class BindReader {
  readonly #words: RuleWords;
  /** Reasons why parts of the rule cannot be expressed in rules. */
  readonly cannot: string[] = [];

  constructor(words: RuleWords) {
    this.#words = words;
  }

  read(rule: BindRule, lean: Lean): WhoSet[] {
    switch (rule.type) {
      case 'or':
        return rule.parts.flatMap((part) => this.read(part, lean));
      case 'and':
        return rule.parts
          .map((part) => this.read(part, lean))
          .reduce((all, part) => all.flatMap((one) => part.flatMap((other) => this.#both(one, other, lean))));
      case 'not':
        return without(this.read(rule.of, lean === 'less' ? 'more' : 'less'));
      default:
        return this.#item(rule, lean);
    }
  }

  #both(a: WhoSet, b: WhoSet, lean: Lean): WhoSet[] {
    const both = whoInBoth(a, b);
    if (both !== 'unknown') return both ? [both] : [];
    this.cannot.push('a rule names one of each kind alone');
    return lean === 'less' ? [] : [a];
  }

  #item(item: BindItem, lean: Lean): WhoSet[] {
    if (item.operator !== '!=' || item.key === 'ssf') return this.#equal(item, lean);
    return without(this.#equal({ ...item, operator: '=' }, lean === 'less' ? 'more' : 'less'));
  }

  #unknown({ key, operator, value }: BindItem, lean: Lean, most: WhoSet): WhoSet[] {
    this.cannot.push(`no rule can say '${key} ${operator} "${value}"'`);
    return lean === 'less' ? [] : [most];
  }

  #equal(item: BindItem, lean: Lean): WhoSet[] {
    const { key, operator, value } = item;
    const isEqual = operator === '=';
    if (key === 'ssf') return this.#strength(item, lean);
    if (!isEqual) return this.#unknown(item, lean, EVERYBODY);
    if (key === 'userdn') return value.split('||').flatMap((url) => this.#userDn(item, url.trim(), lean));
    if (key === 'groupdn') return value.split('||').flatMap((url) => this.#groupDn(item, url.trim(), lean));
    if (key === 'ip') return value.split(',').flatMap((address) => this.#network(item, address.trim(), lean));
    if (key === 'authmethod' && value.toLowerCase() === 'simple') return [{ mechanism: ['simple'], nots: [] }];
    if (key !== 'userattr') return this.#unknown(item, lean, EVERYBODY);
    const [, attribute] = /^([\w.-]+)#USERDN$/i.exec(value) ?? [];
    const pointing = attribute === undefined ? undefined : this.#words.pointing(attribute);
    if (typeof pointing !== 'string') return this.#unknown(item, lean, USERS);
    return [{ attribute: [pointing], nots: [] }];
  }

  #userDn(item: BindItem, url: string, lean: Lean): WhoSet[] {
    const text = /^ldap:\/\/\/(.*)$/i.exec(url)?.[1];
    switch (text?.toLowerCase()) {
      case undefined:
        return this.#unknown(item, lean, EVERYBODY);
      case 'anyone':
        return [EVERYBODY];
      case 'all':
        return [USERS];
      case 'self':
        return [{ self: true, nots: [] }];
      case 'parent':
        return this.#unknown(item, lean, USERS);
      case '':
        return [ANONYMOUS];
    }
    const [dn = '', , scope = 'base', filter = '(objectclass=*)'] = text!.split('?');
    const name = dn.includes('*') || dn.includes('$') ? undefined : this.#words.name(decoded(dn));
    const plain = filter === '' || filter.toLowerCase() === '(objectclass=*)';
    if (!name || 'why' in name || !plain) return this.#unknown(item, lean, USERS);
    if (scope === '' || scope === 'base') return [{ dn: [name], nots: [] }];
    return scope === 'sub' ? [{ subtree: [name], nots: [] }] : this.#unknown(item, lean, USERS);
  }

  #groupDn(item: BindItem, url: string, lean: Lean): WhoSet[] {
    const text = /^ldap:\/\/\/([^?]*)$/i.exec(url)?.[1];
    const name = text === undefined || /[*$]/.test(text) ? undefined : this.#words.name(decoded(text));
    if (!name || 'why' in name || name.rdns.length === 0) return this.#unknown(item, lean, USERS);
    return [{ group: [name], nots: [] }];
  }

  #network(item: BindItem, given: string, lean: Lean): WhoSet[] {
    const wild = /^(\d+(?:\.\d+){0,2})(?:\.\*)+$/.exec(given)?.[1]?.split('.');
    const address = wild ? `${[...wild, 0, 0, 0].slice(0, 4).join('.')}/${wild.length * 8}` : given;
    const network = this.#words.network(address);
    return typeof network === 'string' ? [{ network: [network], nots: [] }] : this.#unknown(item, lean, EVERYBODY);
  }

  #strength(item: BindItem, lean: Lean): WhoSet[] {
    const bits = STRENGTH.test(item.value) ? Number(item.value) : Number.NaN;
    const from = item.operator === '>' || item.operator === '<=' ? bits + 1 : bits;
    const known = ['>', '>=', '<', '<='].includes(item.operator) && from >= 0 && from <= 256;
    if (!known) return this.#unknown(item, lean, EVERYBODY);
    const below = item.operator.startsWith('<');
    if (from === 0) return below ? [] : [EVERYBODY];
    const strong: WhoSet = { strength: from, nots: [] };
    return below ? without([strong]) : [strong];
  }
}

/** The complement of the sets. */
function without(sets: readonly WhoSet[]): WhoSet[] {
  let rest: WhoSet | undefined = EVERYBODY;
  for (const set of sets) if (rest && !areApart(rest, set)) rest = whoWithout(rest, set);
  return rest ? [rest] : [];
}

/** Percent-decodes a part of a URL. Returns the text unchanged if the result is not UTF-8. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
    return text;
  }
}
