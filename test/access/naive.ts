/**
 * What access rules mean, as simply as it can be said: nothing is compiled, cached or ordered. It knows DNs that are
 * written in one way only (lower case, no spaces), filters without escapes, and a handful of attributes.
 */
export interface PlainWho {
  anonymous?: true;
  users?: true;
  self?: true;
  dn?: string | string[];
  subtree?: string | string[];
  group?: string | string[];
  attribute?: string | string[];
  network?: string | string[];
  strength?: number;
  mechanism?: 'simple' | 'application';
  not?: PlainWho | PlainWho[];
}

export interface PlainRule {
  name: string;
  who: PlainWho;
  to?: {
    base?: string | string[];
    one?: string | string[];
    subtree?: string | string[];
    filter?: string | string[];
    attributes?: string[];
  };
  allow?: string[];
  deny?: string[];
}

export interface PlainEntry {
  readonly dn: string;
  /** By name in lower case. */
  readonly values: ReadonlyMap<string, readonly string[]>;
}

export interface PlainAsker {
  /** Undefined: anonymous. */
  readonly dn: string | undefined;
  readonly address: string | undefined;
  readonly strength: number;
  /** Without it `simple`. */
  readonly mechanism?: 'simple' | 'application';
}

const SHORT: Readonly<Record<string, readonly string[]>> = {
  view: ['see', 'read', 'search', 'compare'],
  write: ['add', 'delete', 'replace'],
};
export const ENTRY_RIGHTS = ['see', 'remove', 'rename', 'moveOut', 'proxy', 'manage'];
export const CHILDREN_RIGHTS = ['create', 'moveIn'];
export const ATTRIBUTE_RIGHTS = ['read', 'search', 'compare', 'add', 'delete', 'replace', 'manage'];

/** What stands below what. */
const BELOW_NAME = ['name', 'cn', 'sn', 'title', 'ou', 'o', 'givenname'];
const subtypes = (attribute: string): string[] =>
  attribute === 'distinguishedName' ? ['member', 'owner', 'seealso'] : [attribute];
const OPERATIONAL = ['entryuuid', 'creatorsname'];
const OF_PERSON = ['objectclass', 'sn', 'cn', 'telephonenumber', 'seealso', 'description'];

const list = <T>(value: T | T[] | undefined): T[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value];

export const parentOf = (dn: string): string => dn.slice(dn.indexOf(',') + 1);
export const isAtOrBelow = (dn: string, above: string): boolean => dn === above || dn.endsWith(`,${above}`);

/** All groups that the entry is in, also by way of others and by URLs (`ldap:///BASE??sub?FILTER`). */
export function groupsOf(dn: string, entries: Iterable<PlainEntry>): Set<string> {
  const all = [...entries];
  const own = all.find((entry) => entry.dn === dn);
  const found = new Set<string>();
  for (let size = -1; size !== found.size; ) {
    size = found.size;
    for (const { dn: group, values } of all) {
      const isNamed = values.get('member')?.some((member) => member === dn || found.has(member));
      const isMeant = values.get('memberurl')?.some((url) => {
        const [, base, filter] = /^ldap:\/\/\/([^?]*)\?\?sub\?(.*)$/.exec(url)!;
        return own && isAtOrBelow(dn, base!) && matches(filter!, own);
      });
      if (isNamed || isMeant) found.add(group);
    }
  }
  return found;
}

/** Whether an attribute is the one asked for: by name, as one below it, or with more options. */
export function isOf(name: string, asked: string): boolean {
  const [type, ...options] = name.toLowerCase().split(';');
  const [wanted, ...needed] = asked.toLowerCase().split(';');
  const isType = type === wanted || (wanted === 'name' && BELOW_NAME.includes(type!));
  return isType && needed.every((option) => options.includes(option));
}

/** Undefined: it cannot be told. `known`: the attributes that may be looked at. */
export function matches(filter: string, entry: PlainEntry, known = (_: string) => true): boolean | undefined {
  const inner = filter.slice(1, -1);
  if (inner.startsWith('!')) {
    const is = matches(inner.slice(1), entry, known);
    return is === undefined ? undefined : !is;
  }
  if (/^[&|]/.test(inner)) {
    const parts = inner.slice(1).match(/\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)/g) ?? [];
    const told = parts.map((part) => matches(part, entry, known));
    const decides = inner.startsWith('|');
    if (told.includes(decides)) return decides;
    return told.includes(undefined) ? undefined : !decides;
  }
  const [, attribute, operator, value] = /^([^<>=]*)(>=|<=|=)(.*)$/.exec(inner.toLowerCase())!;
  if (!known(attribute!)) return undefined;
  const values = [...entry.values].filter(([name]) => isOf(name, attribute!) && known(name)).flatMap(([, all]) => all);
  const pattern = new RegExp(`^${value!.replaceAll('.', '\\.').replaceAll('*', '.*')}$`);
  return values.some((one) => {
    const text = one.toLowerCase();
    return operator === '=' ? pattern.test(text) : operator === '>=' ? text >= value! : text <= value!;
  });
}

export class Naive {
  readonly rules: readonly PlainRule[];
  readonly entries: ReadonlyMap<string, PlainEntry>;
  readonly #groups = new Map<string, Set<string>>();

  constructor(rules: readonly PlainRule[], entries: ReadonlyMap<string, PlainEntry>) {
    this.rules = rules;
    this.entries = entries;
  }

  #inGroup(dn: string, group: string): boolean {
    let groups = this.#groups.get(dn);
    if (!groups) {
      groups = groupsOf(dn, this.entries.values());
      this.#groups.set(dn, groups);
    }
    return groups.has(group);
  }

  #isWho(who: PlainWho, asker: PlainAsker, entry: PlainEntry): boolean {
    const { dn, address, strength, mechanism = 'simple' } = asker;
    const is = (held: boolean | undefined, needed: unknown): boolean => needed === undefined || held === true;
    return (
      is(dn === undefined, who.anonymous) &&
      is(dn !== undefined, who.users) &&
      is(dn !== undefined && entry.dn === dn, who.self) &&
      is(list(who.dn).includes(dn ?? '-'), who.dn) &&
      is(dn !== undefined && list(who.subtree).some((above) => isAtOrBelow(dn, above)), who.subtree) &&
      is(dn !== undefined && list(who.group).some((group) => this.#inGroup(dn, group)), who.group) &&
      is(
        dn !== undefined &&
          list(who.attribute)
            .flatMap(subtypes)
            .some((a) => entry.values.get(a)?.includes(dn)),
        who.attribute,
      ) &&
      is(address !== undefined && list(who.network).some((network) => isIn(address, network)), who.network) &&
      is(strength >= (who.strength ?? 0), who.strength) &&
      is(dn !== undefined && who.mechanism === mechanism, who.mechanism) &&
      is(!list(who.not).some((one) => this.#isWho(one, asker, entry)), who.not)
    );
  }

  #isAbout({ to = {} }: PlainRule, entry: PlainEntry): boolean {
    const at = (places: string | string[] | undefined, test: (place: string) => boolean): boolean =>
      places === undefined || list(places).some(test);
    return (
      at(to.base, (place) => entry.dn === place) &&
      at(to.one, (place) => parentOf(entry.dn) === place) &&
      at(to.subtree, (place) => isAtOrBelow(entry.dn, place)) &&
      at(to.filter, (filter) => matches(filter, entry) === true)
    );
  }

  /** The rules that hold for the asker and the entry. */
  #held(asker: PlainAsker, entry: PlainEntry): PlainRule[] {
    return this.rules.filter((rule) => this.#isWho(rule.who, asker, entry) && this.#isAbout(rule, entry));
  }

  /** Undefined: entries decide. */
  #isEver({ self, attribute, not, ...others }: PlainWho, asker: PlainAsker): boolean | undefined {
    if (!this.#isWho(others, asker, { dn: '', values: new Map() })) return false;
    if ((self || attribute) && asker.dn === undefined) return false;
    const excluded = list(not).map((one) => this.#isEver(one, asker));
    if (excluded.includes(true)) return false;
    return self || attribute || excluded.includes(undefined) ? undefined : true;
  }

  /** Whether some rule gives the right on some entry or other: on attributes where none is named on one. */
  isEver(asker: PlainAsker, right: string, attribute?: string): boolean {
    const part = ATTRIBUTE_RIGHTS.includes(right) ? undefined : CHILDREN_RIGHTS.includes(right) ? 'children' : 'entry';
    return this.rules.some((rule) => {
      const isAbout = part ? (rule.to?.attributes?.includes(part) ?? true) : isAboutAttribute(rule, attribute!);
      return isAbout && this.#isEver(rule.who, asker) !== false && this.#sum([{ ...rule, deny: [] }], right);
    });
  }

  #sum(rules: readonly PlainRule[], right: string): boolean {
    const has = (words: string[] | undefined): boolean =>
      list(words).some((word) => word === right || SHORT[word as string]?.includes(right));
    return rules.some(({ allow }) => has(allow)) && !rules.some(({ deny }) => has(deny));
  }

  onEntry(asker: PlainAsker, entry: PlainEntry, right: string): boolean {
    const part = CHILDREN_RIGHTS.includes(right) ? 'children' : 'entry';
    const about = this.#held(asker, entry).filter(({ to }) => to?.attributes?.includes(part) ?? true);
    return this.#sum(about, right);
  }

  onAttribute(asker: PlainAsker, entry: PlainEntry, attribute: string, right: string): boolean {
    const isSecret = isPassword(attribute);
    if (isSecret && right === 'search') return false;
    const about = this.#held(asker, entry).filter((rule) => isAboutAttribute(rule, attribute));
    if (!this.#sum(about, right)) return false;
    if (!isSecret || right !== 'read' || asker.strength > 0) return true;
    // In the clear where a rule says how strong.
    return about.some((rule) => rule.who.strength !== undefined && this.#sum([{ ...rule, deny: [] }], 'read'));
  }
}

const isPassword = (attribute: string): boolean => attribute.toLowerCase() === 'userpassword';

function isAboutAttribute({ to }: PlainRule, attribute: string): boolean {
  const type = attribute.toLowerCase().split(';', 1)[0]!;
  return (to?.attributes ?? ['*', '+']).some((word) => {
    if (isOf(attribute, word)) return true;
    if (isPassword(attribute)) return false;
    if (word === '*') return !OPERATIONAL.includes(type);
    if (word === '+') return OPERATIONAL.includes(type);
    return word === '@person' && OF_PERSON.includes(type);
  });
}

/** Networks by whole bytes of IPv4, and by whole groups of IPv6 that are all written. */
function isIn(address: string, network: string): boolean {
  const [base = '', bits = base.includes(':') ? '128' : '32'] = network.split('/');
  const [mark, size] = base.includes(':') ? [':', 16] : ['.', 8];
  const first = (text: string): string =>
    text
      .split(mark)
      .slice(0, Number(bits) / size)
      .join(mark);
  return address.includes(mark) && first(address) === first(base);
}
