import type { Report } from './report.js';
import type { SlapdWho } from './slapd-syntax.js';
import { ANONYMOUS, EVERYBODY, intersectWho, USERS, type WhoSet } from './who-set.js';
import type { RuleWords } from './words.js';

export interface TranslatedWho {
  /** The requesters. Undefined: none. */
  readonly who: WhoSet | undefined;
  /** Undefined if `who` is exact. Otherwise the reason why `who` is a superset. */
  readonly inexactReason?: string;
}

const NOBODY_MATCHES: TranslatedWho = { who: undefined };
const NESTED_REMARK = "whoever is in a group in the group counts here, too, and by 'member' and 'uniqueMember' alike";
const MEMBER_ATTRIBUTES = ['member', 'uniquemember', 'memberurl'];
/** Strength that slapd assigns to a local socket. */
const SLAPD_LOCAL_STRENGTH = 71;
const MAX_STRENGTH = 256;

/** Translates the `who` of a `by` clause. */
export class WhoReader {
  readonly #notation: RuleWords;
  readonly #report: Report;

  constructor(notation: RuleWords, report: Report) {
    this.#notation = notation;
    this.#report = report;
  }

  /** Returns the requesters that match all conditions. */
  read(conditions: readonly SlapdWho[], line: number): TranslatedWho {
    let translated: TranslatedWho = { who: EVERYBODY };
    for (const condition of conditions) {
      const translatedPart = this.#translateCondition(condition, line);
      if (!translated.who || !translatedPart.who) return NOBODY_MATCHES;
      const intersection = intersectWho(translated.who, translatedPart.who);
      const reasons = [
        translated.inexactReason,
        translatedPart.inexactReason,
        intersection === 'unknown' ? 'a rule names one of each kind alone' : undefined,
      ];
      const inexactReason = reasons.filter((one) => one !== undefined).join('; ');
      translated = {
        who: intersection === 'unknown' ? translated.who : intersection,
        ...(inexactReason && { inexactReason }),
      };
    }
    return translated;
  }

  #translateCondition(condition: SlapdWho, line: number): TranslatedWho {
    const { key, style, value = '' } = condition;
    switch (key) {
      case '*':
        return { who: EVERYBODY };
      case 'anonymous':
        return { who: ANONYMOUS };
      case 'users':
        return { who: USERS };
      case 'self':
        return style === '' ? { who: { self: true, nots: [] } } : inexactWho(condition, USERS);
      case 'dn':
        return this.#translateDn(condition, line);
      case 'dnattr': {
        const attribute = this.#notation.toDnAttribute(value);
        if (typeof attribute === 'string') return { who: { attribute: [attribute], nots: [] } };
        return { who: USERS, inexactReason: `'${condition.text}': ${attribute.why}` };
      }
      case 'group':
        return this.#translateGroup(condition, line);
      case 'peername':
        return this.#translatePeer(condition);
      case 'ssf':
      case 'tls_ssf':
        return this.#translateStrength(condition, line);
      case 'realself':
      case 'realusers':
      case 'realdn':
      case 'realdnattr':
        return inexactWho(condition, USERS);
      default:
        return inexactWho(condition, EVERYBODY);
    }
  }

  #translateDn(condition: SlapdWho, line: number): TranslatedWho {
    const { style, value = '' } = condition;
    if (style === 'regex') return this.#translateRegex(condition);
    if (value === '*') return { who: USERS };
    if (value.includes('$')) return inexactWho(condition, USERS);
    const dn = this.#notation.toName(value);
    if ('why' in dn) {
      this.#report.add('left', line, `'${condition.text}' is nobody who can be here: ${dn.why}`);
      return NOBODY_MATCHES;
    }
    if (/^cn=auth$/i.test(dn.rdns.at(-1)?.text ?? '')) {
      this.#report.add('said', line, `nobody is '${value}' here; the administrator is above rules`);
      return NOBODY_MATCHES;
    }
    switch (style) {
      case '':
      case 'exact':
      case 'base':
      case 'baseobject':
        return { who: dn.rdns.length === 0 ? ANONYMOUS : { dn: [dn], nots: [] } };
      case 'sub':
      case 'subtree':
        return { who: dn.rdns.length === 0 ? EVERYBODY : { subtree: [dn], nots: [] } };
      case 'children':
        return { who: dn.rdns.length === 0 ? USERS : strictlyBelow(dn) };
      case 'one':
      case 'onelevel':
        return inexactWho(condition, dn.rdns.length === 0 ? USERS : strictlyBelow(dn));
      default:
        return inexactWho(condition, USERS);
    }
  }

  #translateRegex(condition: SlapdWho): TranslatedWho {
    const { value = '' } = condition;
    if (/^\^?\.\*\$*$/.test(value)) return { who: EVERYBODY };
    if (/^\^?\.\+\$*$/.test(value)) return { who: USERS };
    const [, ahead, suffix = ''] =
      /^(\^\(\.[+*],\)\?|\^?\.[+*],)([\w-]+=[\w -]+(?:,[\w-]+=[\w -]+)*)\$+$/.exec(value) ?? [];
    const suffixDn = ahead === undefined ? undefined : this.#notation.toName(suffix);
    if (!suffixDn || 'why' in suffixDn) return inexactWho(condition, mayMatchAnonymous(value) ? EVERYBODY : USERS);
    return { who: ahead!.endsWith('?') ? { subtree: [suffixDn], nots: [] } : strictlyBelow(suffixDn) };
  }

  #translateGroup(condition: SlapdWho, line: number): TranslatedWho {
    const { groupParts, style, value = '' } = condition;
    const groupDn = ['', 'exact', 'base'].includes(style) ? this.#notation.toName(value) : undefined;
    if (!groupDn) return inexactWho(condition, USERS);
    if ('why' in groupDn) return { who: USERS, inexactReason: `'${condition.text}': ${groupDn.why}` };
    const [, attribute = 'member'] = groupParts;
    if (!MEMBER_ATTRIBUTES.includes(attribute.toLowerCase())) return inexactWho(condition, USERS);
    this.#report.add('differs', line, `'${condition.text}': ${NESTED_REMARK}`);
    return { who: { group: [groupDn], nots: [] } };
  }

  #translatePeer(condition: SlapdWho): TranslatedWho {
    const { style, value = '' } = condition;
    if (style !== 'ip' && style !== 'ipv6') return inexactWho(condition, EVERYBODY);
    const [, address = '', mask, port] = /^([^%{]*)(?:%([^{]*))?(\{\d+\})?$/.exec(value) ?? [];
    const bits = mask === undefined ? undefined : prefixLength(mask);
    if (bits === 'none' || port !== undefined) return inexactWho(condition, EVERYBODY);
    if (bits !== undefined && hasHostBits(address, bits)) return inexactWho(condition, EVERYBODY);
    const network = this.#notation.toNetwork(bits === undefined ? address : `${address}/${bits}`);
    return typeof network === 'string' ? { who: { network: [network], nots: [] } } : inexactWho(condition, EVERYBODY);
  }

  #translateStrength(condition: SlapdWho, line: number): TranslatedWho {
    const bits = Number(condition.value);
    if (!Number.isInteger(bits) || bits < 0 || bits > MAX_STRENGTH) return inexactWho(condition, EVERYBODY);
    if (bits === 0) return { who: EVERYBODY };
    if (bits > SLAPD_LOCAL_STRENGTH || condition.key === 'tls_ssf')
      this.#report.add(
        'differs',
        line,
        `'${condition.text}': a socket of this machine counts as ${MAX_STRENGTH} bits here`,
      );
    return { who: { strength: bits, nots: [] } };
  }
}

function strictlyBelow(name: NonNullable<WhoSet['dn']>[number]): WhoSet {
  return { subtree: [name], nots: [{ dn: [name], nots: [] }] };
}

function inexactWho({ text }: SlapdWho, who: WhoSet): TranslatedWho {
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
function prefixLength(mask: string): number | 'none' {
  if (/^\d{1,3}$/.test(mask)) return Number(mask);
  const octets = mask.split('.').map(Number);
  if (octets.length !== 4 || octets.some((octet) => !Number.isInteger(octet) || octet < 0 || octet > 255))
    return 'none';
  const bits = octets.map((octet) => octet.toString(2).padStart(8, '0')).join('');
  return /^1*0*$/.test(bits) ? bits.replace(/0+$/, '').length : 'none';
}

/** Whether the address has bits outside the mask. Such a condition never matches in slapd. */
function hasHostBits(address: string, prefix: number): boolean {
  if (address.includes(':')) return false;
  const bits = address
    .split('.')
    .map((octet) => Number(octet).toString(2).padStart(8, '0'))
    .join('');
  return bits.slice(prefix).includes('1');
}
