import { matches, type PlainAsker, type PlainEntry } from './naive.js';

/**
 * What slapd's `access to` lines mean (slapd.access), as simply as it can be said: the first line that is about an
 * entry's attribute, in it the first `by` that fits.
 */
export interface SlapdLine {
  /** Undefined: `*`. */
  readonly dn?: { readonly style: string; readonly name: string };
  readonly filter?: string;
  readonly attrs?: readonly string[];
  /** The line has `val=`: whether it fits is thrown. */
  readonly values?: boolean;
  readonly by: readonly SlapdBy[];
}

export interface SlapdBy {
  readonly who: readonly SlapdAtom[];
  /** A level, or `=rs`, `+w`, `-r`; empty: none is said. */
  readonly access: string;
  readonly control: '' | 'stop' | 'continue' | 'break';
}

export interface SlapdAtom {
  readonly kind: string;
  readonly value?: string;
}

const LETTERS: Readonly<Record<string, string>> = {
  none: '',
  disclose: 'd',
  auth: 'dx',
  compare: 'dxc',
  search: 'dxcs',
  read: 'dxcsr',
  add: 'dxcsra',
  delete: 'dxcsrz',
  write: 'dxcsraz',
  manage: 'dxcsrazm',
};

/** What stands below `name`. */
const BELOW_NAME = ['cn', 'sn'];
const OF_PERSON = ['objectclass', 'sn', 'cn', 'userpassword', 'telephonenumber', 'seealso', 'description'];

export function isIn(style: string, name: string, dn: string): boolean {
  const below = name === '' ? dn !== '' : dn.endsWith(`,${name}`);
  switch (style) {
    case 'exact':
    case 'base':
      return dn === name;
    case 'one':
      return below && dn.slice(0, dn.length - name.length - 1).split(',').length === 1;
    case 'children':
      return below;
    default:
      return below || dn === name;
  }
}

/** As it is written in slapd.conf. */
export function textOf({ dn, filter, attrs, values, by }: SlapdLine): string {
  const what = [
    ...(dn ? [`dn.${dn.style}="${dn.style === 'regex' ? `^.+,${dn.name}$` : dn.name}"`] : []),
    ...(filter ? [`filter=${filter}`] : []),
    ...(attrs ? [`attrs=${attrs.join(',')}`] : []),
    ...(values ? ['val.regex="^a"'] : []),
  ];
  const lines = by.map(
    ({ who, access, control }) => `  by ${[...who.map(atomText), access, control].filter(Boolean).join(' ')}`,
  );
  return [`access to ${what.length === 0 ? '*' : what.join(' ')}`, ...lines].join('\n');
}

function atomText({ kind, value }: SlapdAtom): string {
  if (value === undefined) return kind;
  if (kind === 'dn.regex') return `dn.regex="^.+,${value}$"`;
  return `${kind}="${value}"`;
}

export class NaiveSlapd {
  readonly #lines: readonly SlapdLine[];
  readonly #entries: ReadonlyMap<string, PlainEntry>;
  /** What rules cannot say is now so, now so. */
  readonly #thrown: (what: string) => boolean;

  constructor(
    lines: readonly SlapdLine[],
    entries: ReadonlyMap<string, PlainEntry>,
    thrown: (what: string) => boolean,
  ) {
    this.#lines = lines;
    this.#entries = entries;
    this.#thrown = thrown;
  }

  /** Letters of the privileges. The root has no values. */
  privileges(asker: PlainAsker, entry: PlainEntry, attribute: string): Set<string> {
    let mask = new Set<string>();
    for (const line of this.#lines) {
      if (!this.#isAbout(line, entry, attribute)) continue;
      let broken = false;
      let stopped = false;
      for (const by of line.by) {
        if (!by.who.every((atom) => this.#fits(atom, asker, entry))) continue;
        mask = changed(mask, by.access);
        broken = by.control === 'break';
        stopped = by.control !== 'break' && by.control !== 'continue';
        if (by.control !== 'continue') break;
      }
      if (broken) continue;
      return stopped ? mask : new Set();
    }
    return new Set();
  }

  #isAbout({ dn, filter, attrs, values }: SlapdLine, entry: PlainEntry, attribute: string): boolean {
    if (dn && !isIn(dn.style === 'regex' ? 'children' : dn.style, dn.name, entry.dn)) return false;
    if (filter && !matches(filter, entry)) return false;
    if (values && !this.#thrown(`val ${entry.dn} ${attribute}`)) return false;
    return attrs?.some((one) => isMeant(one.toLowerCase(), attribute)) ?? true;
  }

  #fits({ kind, value = '' }: SlapdAtom, { dn, address, strength }: PlainAsker, entry: PlainEntry): boolean {
    switch (kind) {
      case '*':
        return true;
      case 'anonymous':
        return dn === undefined;
      case 'users':
        return dn !== undefined;
      case 'self':
        return dn === entry.dn;
      case 'dnattr':
        return dn !== undefined && (entry.values.get(value)?.includes(dn) ?? false);
      case 'group.exact':
        return dn !== undefined && (this.#entries.get(value)?.values.get('member')?.includes(dn) ?? false);
      case 'peername.ip':
        return address === value;
      case 'ssf':
        return strength >= Number(value);
      case 'set':
        return this.#thrown(`set ${dn} ${value}`);
      case 'dn.regex':
        return dn !== undefined && isIn('children', value, dn);
      default:
        return dn !== undefined && isIn(kind.slice(3), value, dn);
    }
  }
}

function isMeant(word: string, attribute: string): boolean {
  if (word === attribute || (word === 'name' && BELOW_NAME.includes(attribute))) return true;
  return word === '@person' && OF_PERSON.includes(attribute);
}

function changed(mask: ReadonlySet<string>, access: string): Set<string> {
  const level = LETTERS[access];
  const letters = level ?? access.slice(1).replace('w', 'az');
  const how = level === undefined ? access[0] : '=';
  if (how === '+') return new Set([...mask, ...letters]);
  if (how === '-') return new Set([...mask].filter((letter) => !letters.includes(letter)));
  return access === '' ? new Set(mask) : new Set(letters.replaceAll('0', ''));
}

export const ALL_LEVELS = Object.keys(LETTERS);
