import type { Report } from './report.js';
import type { SlapdWho } from './slapd-syntax.js';
import { ANONYMOUS, EVERYBODY, intersectWho, USERS, type WhoSet } from './who-set.js';
import type { RuleWords } from './words.js';

export interface TranslatedWho {
  /** Undefined: nobody. */
  readonly who: WhoSet | undefined;
  /** Undefined if `who` is exact. Otherwise the reason why `who` is a superset. */
  readonly inexactReason?: string;
}

const NOBODY_MATCHES: TranslatedWho = { who: undefined };
const NESTED = "whoever is in a group in the group counts here, too, and by 'member' and 'uniqueMember' alike";
const MEMBERS = ['member', 'uniquemember', 'memberurl'];
/** Strength that slapd assigns to a local socket. */
const SLAPD_LOCAL_STRENGTH = 71;
const MAX_STRENGTH = 256;

/** Translates the `who` of a `by` clause. */
export class WhoReader {
  readonly #words: RuleWords;
  readonly #report: Report;

  constructor(words: RuleWords, report: Report) {
    this.#words = words;
    this.#report = report;
  }

  /** The intersection of all parts. */
  read(parts: readonly SlapdWho[], line: number): TranslatedWho {
    let found: TranslatedWho = { who: EVERYBODY };
    for (const part of parts) {
      const next = this.#part(part, line);
      if (!found.who || !next.who) return NOBODY_MATCHES;
      const both = intersectWho(found.who, next.who);
      const why = [
        found.inexactReason,
        next.inexactReason,
        both === 'unknown' ? 'a rule names one of each kind alone' : undefined,
      ];
      const inexactReason = why.filter((one) => one !== undefined).join('; ');
      found = { who: both === 'unknown' ? found.who : both, ...(inexactReason && { inexactReason }) };
    }
    return found;
  }

  #part(part: SlapdWho, line: number): TranslatedWho {
    const { key, style, value = '' } = part;
    switch (key) {
      case '*':
        return { who: EVERYBODY };
      case 'anonymous':
        return { who: ANONYMOUS };
      case 'users':
        return { who: USERS };
      case 'self':
        return style === '' ? { who: { self: true, nots: [] } } : unsupported(part, USERS);
      case 'dn':
        return this.#dn(part, line);
      case 'dnattr': {
        const attribute = this.#words.dnAttribute(value);
        if (typeof attribute === 'string') return { who: { attribute: [attribute], nots: [] } };
        return { who: USERS, inexactReason: `'${part.text}': ${attribute.why}` };
      }
      case 'group':
        return this.#group(part, line);
      case 'peername':
        return this.#peer(part);
      case 'ssf':
      case 'tls_ssf':
        return this.#strength(part, line);
      case 'realself':
      case 'realusers':
      case 'realdn':
      case 'realdnattr':
        return unsupported(part, USERS);
      default:
        return unsupported(part, EVERYBODY);
    }
  }

  #dn(part: SlapdWho, line: number): TranslatedWho {
    const { style, value = '' } = part;
    if (style === 'regex') return this.#regex(part);
    if (value === '*') return { who: USERS };
    if (value.includes('$')) return unsupported(part, USERS);
    const name = this.#words.name(value);
    if ('why' in name) {
      this.#report.add('left', line, `'${part.text}' is nobody who can be here: ${name.why}`);
      return NOBODY_MATCHES;
    }
    if (/^cn=auth$/i.test(name.rdns.at(-1)?.text ?? '')) {
      this.#report.add('said', line, `nobody is '${value}' here; the administrator is above rules`);
      return NOBODY_MATCHES;
    }
    switch (style) {
      case '':
      case 'exact':
      case 'base':
      case 'baseobject':
        return { who: name.rdns.length === 0 ? ANONYMOUS : { dn: [name], nots: [] } };
      case 'sub':
      case 'subtree':
        return { who: name.rdns.length === 0 ? EVERYBODY : { subtree: [name], nots: [] } };
      case 'children':
        return { who: name.rdns.length === 0 ? USERS : strictlyBelow(name) };
      case 'one':
      case 'onelevel':
        return unsupported(part, name.rdns.length === 0 ? USERS : strictlyBelow(name));
      default:
        return unsupported(part, USERS);
    }
  }

  #regex(part: SlapdWho): TranslatedWho {
    const { value = '' } = part;
    if (/^\^?\.\*\$*$/.test(value)) return { who: EVERYBODY };
    if (/^\^?\.\+\$*$/.test(value)) return { who: USERS };
    const [, ahead, suffix = ''] =
      /^(\^\(\.[+*],\)\?|\^?\.[+*],)([\w-]+=[\w -]+(?:,[\w-]+=[\w -]+)*)\$+$/.exec(value) ?? [];
    const name = ahead === undefined ? undefined : this.#words.name(suffix);
    if (!name || 'why' in name) return unsupported(part, mayMatchAnonymous(value) ? EVERYBODY : USERS);
    return { who: ahead!.endsWith('?') ? { subtree: [name], nots: [] } : strictlyBelow(name) };
  }

  #group(part: SlapdWho, line: number): TranslatedWho {
    const { parts, style, value = '' } = part;
    const name = ['', 'exact', 'base'].includes(style) ? this.#words.name(value) : undefined;
    if (!name) return unsupported(part, USERS);
    if ('why' in name) return { who: USERS, inexactReason: `'${part.text}': ${name.why}` };
    const [, attribute = 'member'] = parts;
    if (!MEMBERS.includes(attribute.toLowerCase())) return unsupported(part, USERS);
    this.#report.add('differs', line, `'${part.text}': ${NESTED}`);
    return { who: { group: [name], nots: [] } };
  }

  #peer(part: SlapdWho): TranslatedWho {
    const { style, value = '' } = part;
    if (style !== 'ip' && style !== 'ipv6') return unsupported(part, EVERYBODY);
    const [, address = '', mask, port] = /^([^%{]*)(?:%([^{]*))?(\{\d+\})?$/.exec(value) ?? [];
    const bits = mask === undefined ? undefined : prefixOf(mask);
    if (bits === 'none' || port !== undefined) return unsupported(part, EVERYBODY);
    if (bits !== undefined && hasHostBits(address, bits)) return unsupported(part, EVERYBODY);
    const network = this.#words.network(bits === undefined ? address : `${address}/${bits}`);
    return typeof network === 'string' ? { who: { network: [network], nots: [] } } : unsupported(part, EVERYBODY);
  }

  #strength(part: SlapdWho, line: number): TranslatedWho {
    const bits = Number(part.value);
    if (!Number.isInteger(bits) || bits < 0 || bits > MAX_STRENGTH) return unsupported(part, EVERYBODY);
    if (bits === 0) return { who: EVERYBODY };
    if (bits > SLAPD_LOCAL_STRENGTH || part.key === 'tls_ssf')
      this.#report.add('differs', line, `'${part.text}': a socket of this machine counts as ${MAX_STRENGTH} bits here`);
    return { who: { strength: bits, nots: [] } };
  }
}

function strictlyBelow(name: NonNullable<WhoSet['dn']>[number]): WhoSet {
  return { subtree: [name], nots: [{ dn: [name], nots: [] }] };
}

function unsupported({ text }: SlapdWho, who: WhoSet): TranslatedWho {
  return { who, inexactReason: `no rule can say '${text}'` };
}

/** Whether a regular expression may match the empty DN. */
function mayMatchAnonymous(pattern: string): boolean {
  try {
    return !pattern.includes('=') || new RegExp(pattern).test('');
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return true;
  }
}

/** The prefix length of a netmask such as `255.255.0.0`. */
function prefixOf(mask: string): number | 'none' {
  if (/^\d{1,3}$/.test(mask)) return Number(mask);
  const parts = mask.split('.').map(Number);
  if (parts.length !== 4 || parts.some((part) => !Number.isInteger(part) || part < 0 || part > 255)) return 'none';
  const bits = parts.map((part) => part.toString(2).padStart(8, '0')).join('');
  return /^1*0*$/.test(bits) ? bits.replace(/0+$/, '').length : 'none';
}

/** Whether the address has bits outside the mask; then slapd's rule never matches. */
function hasHostBits(address: string, prefix: number): boolean {
  if (address.includes(':')) return false;
  const bits = address
    .split('.')
    .map((part) => Number(part).toString(2).padStart(8, '0'))
    .join('');
  return bits.slice(prefix).includes('1');
}
