import { decodePercent } from '../../ldap/text.js';
import type { BindItem, BindRule } from './aci-syntax.js';
import { ANONYMOUS, areDisjoint, EVERYBODY, intersectWho, subtractWho, USERS, type WhoSet } from './who-set.js';
import type { RuleWords } from './words.js';

/** How to approximate an inexpressible condition: `less` matches no requester, `more` every one it may mean. */
export type Approximation = 'less' | 'more';

const STRENGTH = /^\d{1,3}$/;

/** Translates bind rules into a union of `WhoSet`s. */
export class BindReader {
  readonly #notation: RuleWords;
  /** For each condition that rules cannot express: the reason. */
  readonly unsupportedReasons: string[] = [];

  constructor(notation: RuleWords) {
    this.#notation = notation;
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
        return this.#condition(rule, approximation);
    }
  }

  #intersect(a: WhoSet, b: WhoSet, approximation: Approximation): WhoSet[] {
    const intersection = intersectWho(a, b);
    if (intersection !== 'unknown') return intersection ? [intersection] : [];
    this.unsupportedReasons.push('a rule names one of each kind alone');
    return approximation === 'less' ? [] : [a];
  }

  #condition(bind: BindItem, approximation: Approximation): WhoSet[] {
    if (bind.operator !== '!=' || bind.key === 'ssf') return this.#equal(bind, approximation);
    return complement(this.#equal({ ...bind, operator: '=' }, approximation === 'less' ? 'more' : 'less'));
  }

  #unsupported({ key, operator, value }: BindItem, approximation: Approximation, superset: WhoSet): WhoSet[] {
    this.unsupportedReasons.push(`no rule can say '${key} ${operator} "${value}"'`);
    return approximation === 'less' ? [] : [superset];
  }

  #equal(bind: BindItem, approximation: Approximation): WhoSet[] {
    const { key, operator, value } = bind;
    const isEqual = operator === '=';
    if (key === 'ssf') return this.#strength(bind, approximation);
    if (!isEqual) return this.#unsupported(bind, approximation, EVERYBODY);
    if (key === 'userdn') return value.split('||').flatMap((url) => this.#userDn(bind, url.trim(), approximation));
    if (key === 'groupdn') return value.split('||').flatMap((url) => this.#groupDn(bind, url.trim(), approximation));
    if (key === 'ip') return value.split(',').flatMap((address) => this.#network(bind, address.trim(), approximation));
    if (key === 'authmethod' && value.toLowerCase() === 'simple') return [{ mechanism: ['simple'], nots: [] }];
    if (key !== 'userattr') return this.#unsupported(bind, approximation, EVERYBODY);
    const [, attribute] = /^([\w.-]+)#USERDN$/i.exec(value) ?? [];
    const dnAttribute = attribute === undefined ? undefined : this.#notation.toDnAttribute(attribute);
    if (typeof dnAttribute !== 'string') return this.#unsupported(bind, approximation, USERS);
    return [{ attribute: [dnAttribute], nots: [] }];
  }

  #userDn(bind: BindItem, url: string, approximation: Approximation): WhoSet[] {
    const text = /^ldap:\/\/\/(.*)$/i.exec(url)?.[1];
    switch (text?.toLowerCase()) {
      case undefined:
        return this.#unsupported(bind, approximation, EVERYBODY);
      case 'anyone':
        return [EVERYBODY];
      case 'all':
        return [USERS];
      case 'self':
        return [{ self: true, nots: [] }];
      case 'parent':
        return this.#unsupported(bind, approximation, USERS);
      case '':
        return [ANONYMOUS];
    }
    const [dn = '', , scope = 'base', filter = '(objectclass=*)'] = text!.split('?');
    const userDn = dn.includes('*') || dn.includes('$') ? undefined : this.#notation.toName(decodePercent(dn) ?? dn);
    const hasPlainFilter = filter === '' || filter.toLowerCase() === '(objectclass=*)';
    if (!userDn || 'why' in userDn || !hasPlainFilter) return this.#unsupported(bind, approximation, USERS);
    if (scope === '' || scope === 'base') return [{ dn: [userDn], nots: [] }];
    return scope === 'sub' ? [{ subtree: [userDn], nots: [] }] : this.#unsupported(bind, approximation, USERS);
  }

  #groupDn(bind: BindItem, url: string, approximation: Approximation): WhoSet[] {
    const text = /^ldap:\/\/\/([^?]*)$/i.exec(url)?.[1];
    const groupDn =
      text === undefined || /[*$]/.test(text) ? undefined : this.#notation.toName(decodePercent(text) ?? text);
    if (!groupDn || 'why' in groupDn || groupDn.rdns.length === 0) return this.#unsupported(bind, approximation, USERS);
    return [{ group: [groupDn], nots: [] }];
  }

  #network(bind: BindItem, addressText: string, approximation: Approximation): WhoSet[] {
    const wildcardOctets = /^(\d+(?:\.\d+){0,2})(?:\.\*)+$/.exec(addressText)?.[1]?.split('.');
    const address = wildcardOctets
      ? `${[...wildcardOctets, 0, 0, 0].slice(0, 4).join('.')}/${wildcardOctets.length * 8}`
      : addressText;
    const network = this.#notation.toNetwork(address);
    return typeof network === 'string'
      ? [{ network: [network], nots: [] }]
      : this.#unsupported(bind, approximation, EVERYBODY);
  }

  #strength(bind: BindItem, approximation: Approximation): WhoSet[] {
    const bits = STRENGTH.test(bind.value) ? Number(bind.value) : Number.NaN;
    const minStrength = bind.operator === '>' || bind.operator === '<=' ? bits + 1 : bits;
    const isSupported = ['>', '>=', '<', '<='].includes(bind.operator) && minStrength >= 0 && minStrength <= 256;
    if (!isSupported) return this.#unsupported(bind, approximation, EVERYBODY);
    const isUpperBound = bind.operator.startsWith('<');
    if (minStrength === 0) return isUpperBound ? [] : [EVERYBODY];
    const strongEnough: WhoSet = { strength: minStrength, nots: [] };
    return isUpperBound ? complement([strongEnough]) : [strongEnough];
  }
}

/** Returns the requesters that are in none of the sets. */
function complement(sets: readonly WhoSet[]): WhoSet[] {
  let remaining: WhoSet | undefined = EVERYBODY;
  for (const set of sets) if (remaining && !areDisjoint(remaining, set)) remaining = subtractWho(remaining, set);
  return remaining ? [remaining] : [];
}
