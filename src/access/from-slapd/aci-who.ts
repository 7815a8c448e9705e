import type { BindItem, BindRule } from './aci-syntax.js';
import { ANONYMOUS, areDisjoint, EVERYBODY, intersectWho, subtractWho, USERS, type WhoSet } from './who-set.js';
import type { RuleWords } from './words.js';

/** How to approximate inexpressible conditions: `less` matches nobody, `more` everybody who may be meant. */
export type Approximation = 'less' | 'more';

const STRENGTH = /^\d{1,3}$/;

/** Translates bind rules into a union of `WhoSet`s. */
export class BindReader {
  readonly #words: RuleWords;
  /** Reasons why parts of the rule cannot be expressed in rules. */
  readonly unsupportedReasons: string[] = [];

  constructor(words: RuleWords) {
    this.#words = words;
  }

  read(rule: BindRule, approximation: Approximation): WhoSet[] {
    switch (rule.type) {
      case 'or':
        return rule.rules.flatMap((part) => this.read(part, approximation));
      case 'and':
        return rule.rules
          .map((part) => this.read(part, approximation))
          .reduce((all, part) =>
            all.flatMap((one) => part.flatMap((other) => this.#intersect(one, other, approximation))),
          );
      case 'not':
        return complement(this.read(rule.inner, approximation === 'less' ? 'more' : 'less'));
      default:
        return this.#item(rule, approximation);
    }
  }

  #intersect(a: WhoSet, b: WhoSet, approximation: Approximation): WhoSet[] {
    const intersection = intersectWho(a, b);
    if (intersection !== 'unknown') return intersection ? [intersection] : [];
    this.unsupportedReasons.push('a rule names one of each kind alone');
    return approximation === 'less' ? [] : [a];
  }

  #item(item: BindItem, approximation: Approximation): WhoSet[] {
    if (item.operator !== '!=' || item.key === 'ssf') return this.#equal(item, approximation);
    return complement(this.#equal({ ...item, operator: '=' }, approximation === 'less' ? 'more' : 'less'));
  }

  #unsupportedItem({ key, operator, value }: BindItem, approximation: Approximation, most: WhoSet): WhoSet[] {
    this.unsupportedReasons.push(`no rule can say '${key} ${operator} "${value}"'`);
    return approximation === 'less' ? [] : [most];
  }

  #equal(item: BindItem, approximation: Approximation): WhoSet[] {
    const { key, operator, value } = item;
    const isEqual = operator === '=';
    if (key === 'ssf') return this.#strength(item, approximation);
    if (!isEqual) return this.#unsupportedItem(item, approximation, EVERYBODY);
    if (key === 'userdn') return value.split('||').flatMap((url) => this.#userDn(item, url.trim(), approximation));
    if (key === 'groupdn') return value.split('||').flatMap((url) => this.#groupDn(item, url.trim(), approximation));
    if (key === 'ip') return value.split(',').flatMap((address) => this.#network(item, address.trim(), approximation));
    if (key === 'authmethod' && value.toLowerCase() === 'simple') return [{ mechanism: ['simple'], nots: [] }];
    if (key !== 'userattr') return this.#unsupportedItem(item, approximation, EVERYBODY);
    const [, attribute] = /^([\w.-]+)#USERDN$/i.exec(value) ?? [];
    const dnAttribute = attribute === undefined ? undefined : this.#words.toDnAttribute(attribute);
    if (typeof dnAttribute !== 'string') return this.#unsupportedItem(item, approximation, USERS);
    return [{ attribute: [dnAttribute], nots: [] }];
  }

  #userDn(item: BindItem, url: string, approximation: Approximation): WhoSet[] {
    const text = /^ldap:\/\/\/(.*)$/i.exec(url)?.[1];
    switch (text?.toLowerCase()) {
      case undefined:
        return this.#unsupportedItem(item, approximation, EVERYBODY);
      case 'anyone':
        return [EVERYBODY];
      case 'all':
        return [USERS];
      case 'self':
        return [{ self: true, nots: [] }];
      case 'parent':
        return this.#unsupportedItem(item, approximation, USERS);
      case '':
        return [ANONYMOUS];
    }
    const [dn = '', , scope = 'base', filter = '(objectclass=*)'] = text!.split('?');
    const userDn = dn.includes('*') || dn.includes('$') ? undefined : this.#words.toName(percentDecode(dn));
    const hasPlainFilter = filter === '' || filter.toLowerCase() === '(objectclass=*)';
    if (!userDn || 'why' in userDn || !hasPlainFilter) return this.#unsupportedItem(item, approximation, USERS);
    if (scope === '' || scope === 'base') return [{ dn: [userDn], nots: [] }];
    return scope === 'sub' ? [{ subtree: [userDn], nots: [] }] : this.#unsupportedItem(item, approximation, USERS);
  }

  #groupDn(item: BindItem, url: string, approximation: Approximation): WhoSet[] {
    const text = /^ldap:\/\/\/([^?]*)$/i.exec(url)?.[1];
    const groupDn = text === undefined || /[*$]/.test(text) ? undefined : this.#words.toName(percentDecode(text));
    if (!groupDn || 'why' in groupDn || groupDn.rdns.length === 0)
      return this.#unsupportedItem(item, approximation, USERS);
    return [{ group: [groupDn], nots: [] }];
  }

  #network(item: BindItem, given: string, approximation: Approximation): WhoSet[] {
    const wildcardOctets = /^(\d+(?:\.\d+){0,2})(?:\.\*)+$/.exec(given)?.[1]?.split('.');
    const address = wildcardOctets
      ? `${[...wildcardOctets, 0, 0, 0].slice(0, 4).join('.')}/${wildcardOctets.length * 8}`
      : given;
    const network = this.#words.toNetwork(address);
    return typeof network === 'string'
      ? [{ network: [network], nots: [] }]
      : this.#unsupportedItem(item, approximation, EVERYBODY);
  }

  #strength(item: BindItem, approximation: Approximation): WhoSet[] {
    const bits = STRENGTH.test(item.value) ? Number(item.value) : Number.NaN;
    const minStrength = item.operator === '>' || item.operator === '<=' ? bits + 1 : bits;
    const isSupported = ['>', '>=', '<', '<='].includes(item.operator) && minStrength >= 0 && minStrength <= 256;
    if (!isSupported) return this.#unsupportedItem(item, approximation, EVERYBODY);
    const isUpperBound = item.operator.startsWith('<');
    if (minStrength === 0) return isUpperBound ? [] : [EVERYBODY];
    const strongEnough: WhoSet = { strength: minStrength, nots: [] };
    return isUpperBound ? complement([strongEnough]) : [strongEnough];
  }
}

/** The complement of the sets. */
function complement(sets: readonly WhoSet[]): WhoSet[] {
  let remaining: WhoSet | undefined = EVERYBODY;
  for (const set of sets) if (remaining && !areDisjoint(remaining, set)) remaining = subtractWho(remaining, set);
  return remaining ? [remaining] : [];
}

/** Percent-decodes a part of a URL. Returns the text unchanged if the result is not UTF-8. */
function percentDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
    return text;
  }
}
