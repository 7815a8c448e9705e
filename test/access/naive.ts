/**
 * What access rules mean, as simply as it can be said: nothing is compiled, cached or ordered. It knows DNs that are
 * written in one way only (lower case, no spaces), filters of equality, AND and NOT, and a handful of attributes.
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
  mechanism?: string;
  not?: PlainWho;
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

/** All groups that the entry is in, also by way of others. */
export function groupsOf(dn: string, entries: Iterable<PlainEntry>): Set<string> {
  const all = [...entries];
  const found = new Set<string>();
  for (let size = -1; size !== found.size; ) {
    size = found.size;
    for (const { dn: group, values } of all)
      if (values.get('member')?.some((member) => member === dn || found.has(member))) found.add(group);
  }
  return found;
}

export function matches(filter: string, entry: PlainEntry): boolean {
  const inner = filter.slice(1, -1);
  if (inner.startsWith('!')) return !matches(inner.slice(1), entry);
  if (inner.startsWith('&'))
    return (inner.slice(1).match(/\((?:[^()]|\([^()]*\))*\)/g) ?? []).every((part) => matches(part, entry));
  const [attribute = '', value = ''] = inner.split('=');
  const values = entry.values.get(attribute.toLowerCase()) ?? [];
  return value === '*' ? values.length > 0 : values.some((one) => one.toLowerCase() === value.toLowerCase());
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

  #isWho(who: PlainWho, { dn, address, strength }: PlainAsker, entry: PlainEntry): boolean {
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
      is(dn !== undefined && who.mechanism === 'simple', who.mechanism) &&
      is(who.not && !this.#isWho(who.not, { dn, address, strength }, entry), who.not)
    );
  }

  #isAbout({ to = {} }: PlainRule, entry: PlainEntry): boolean {
    const at = (places: string | string[] | undefined, test: (place: string) => boolean): boolean =>
      places === undefined || list(places).some(test);
    return (
      at(to.base, (place) => entry.dn === place) &&
      at(to.one, (place) => parentOf(entry.dn) === place) &&
      at(to.subtree, (place) => isAtOrBelow(entry.dn, place)) &&
      at(to.filter, (filter) => matches(filter, entry))
    );
  }

  /** The rules that hold for the asker and the entry. */
  #held(asker: PlainAsker, entry: PlainEntry): PlainRule[] {
    return this.rules.filter((rule) => this.#isWho(rule.who, asker, entry) && this.#isAbout(rule, entry));
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
    const name = attribute.toLowerCase();
    const isSecret = name === 'userpassword';
    if (isSecret && right === 'search') return false;
    const named = (word: string): boolean =>
      word.toLowerCase() === name || (word === 'name' && BELOW_NAME.includes(name));
    const isMeant = (word: string): boolean => {
      if (named(word)) return true;
      if (isSecret) return false;
      if (word === '*') return !OPERATIONAL.includes(name);
      if (word === '+') return OPERATIONAL.includes(name);
      return word === '@person' && OF_PERSON.includes(name);
    };
    const about = this.#held(asker, entry).filter(({ to }) => (to?.attributes ?? ['*', '+']).some(isMeant));
    if (!this.#sum(about, right)) return false;
    if (!isSecret || right !== 'read' || asker.strength > 0) return true;
    // In the clear where a rule says how strong.
    return about.some((rule) => rule.who.strength !== undefined && this.#sum([{ ...rule, deny: [] }], 'read'));
  }
}

/** Networks of IPv4 by whole bytes. */
function isIn(address: string, network: string): boolean {
  const [base = '', bits = '32'] = network.split('/');
  const bytes = Number(bits) / 8;
  return address.split('.').slice(0, bytes).join('.') === base.split('.').slice(0, bytes).join('.');
}
