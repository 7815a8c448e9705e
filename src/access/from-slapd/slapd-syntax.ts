import { type LogicalLine, splitWords } from './source.js';

/** A parsed `access to WHAT by WHO ACCESS CONTROL …` (slapd.access). */
export interface SlapdClause {
  readonly line: number;
  readonly what: SlapdWhat;
  readonly by: readonly SlapdBy[];
}

export interface SlapdWhat {
  /** Text to display. */
  readonly text: string;
  readonly dn?: StyledDn;
  readonly filter?: string;
  readonly attrs?: readonly string[];
  /** Whether the clause distinguishes values of an attribute. */
  readonly distinguishesValues: boolean;
}

export interface StyledDn {
  readonly style: string;
  readonly pattern: string;
}

export interface SlapdBy {
  readonly text: string;
  readonly who: readonly SlapdWho[];
  /** Default: the privileges do not change. */
  readonly access: SlapdAccess;
  readonly control: 'stop' | 'continue' | 'break';
}

/** A `who` clause: `dn.subtree,expand=…`, `group/groupOfNames/member.exact=…`, `users`. */
export interface SlapdWho {
  readonly text: string;
  readonly key: string;
  /** For a group: object class and attribute. */
  readonly groupParts: readonly string[];
  readonly style: string;
  readonly value: string | undefined;
}

export interface SlapdAccess {
  readonly operator: '=' | '+' | '-';
  readonly privileges: number;
  /** Whether the access covers only values that are the DN of the requester. */
  readonly coversOwnValues: boolean;
}

/** Bits of slapd's privileges. */
export const PRIVILEGES = { d: 1, x: 2, c: 4, s: 8, r: 16, a: 32, z: 64, m: 128 } as const;

const LETTER_PRIVILEGES: Readonly<Record<string, number>> = { ...PRIVILEGES, w: PRIVILEGES.a | PRIVILEGES.z, '0': 0 };

const READ = 31;
const LEVEL_PRIVILEGES: Readonly<Record<string, number>> = {
  none: 0,
  disclose: 1,
  auth: 3,
  compare: 7,
  search: 15,
  read: READ,
  add: READ | PRIVILEGES.a,
  delete: READ | PRIVILEGES.z,
  write: READ | PRIVILEGES.a | PRIVILEGES.z,
  manage: 255,
};

const ACCESS = /^(realself|self)?(none|disclose|auth|compare|search|read|write|add|delete|manage|[=+-][mwrscdxaz0]*)$/i;
const UNCHANGED: SlapdAccess = { operator: '+', privileges: 0, coversOwnValues: false };

/** A syntax error in an `access` line. The message describes the error. */
export class SlapdSyntaxError extends Error {
  override readonly name = 'SlapdSyntaxError';
}

export function parseClause({ line, text }: LogicalLine): SlapdClause {
  const [to, ...rest] = splitWords(text);
  if (to?.toLowerCase() !== 'to') throw new SlapdSyntaxError("it does not begin by 'to'");
  const sections: string[][] = [[]];
  for (const word of rest) {
    if (word.toLowerCase() === 'by') sections.push([]);
    else sections.at(-1)!.push(word);
  }
  const [what, ...by] = sections;
  return { line, what: parseWhat(what!), by: by.map(parseBy) };
}

function parseWhat(words: readonly string[]): SlapdWhat {
  const what: { -readonly [K in keyof SlapdWhat]: SlapdWhat[K] } = {
    text: words.join(' '),
    distinguishesValues: false,
  };
  if (words.length === 0) throw new SlapdSyntaxError("it does not say what it is about behind 'to'");
  for (const word of words) {
    if (word === '*') continue;
    const [, key = '', style = '', value = ''] = /^([a-z]+)((?:[./][^=]*)?)=(.*)$/is.exec(word) ?? [];
    switch (key.toLowerCase()) {
      case 'dn':
        what.dn = { style: style.slice(1).toLowerCase() || 'base', pattern: value };
        break;
      case 'filter':
        what.filter = value;
        break;
      case 'attr':
      case 'attrs':
        what.attrs = value.split(',').map((one) => one.trim());
        break;
      case 'val':
      case 'value':
        what.distinguishesValues = true;
        break;
      default:
        throw new SlapdSyntaxError(`'${word}' behind 'to' is unknown`);
    }
  }
  return what;
}

function parseBy(words: readonly string[]): SlapdBy {
  const who: SlapdWho[] = [];
  let access = UNCHANGED;
  let control: SlapdBy['control'] = 'stop';
  for (const word of words) {
    const accessMatch = ACCESS.exec(word);
    if (accessMatch) access = parseAccess(accessMatch[2]!.toLowerCase(), accessMatch[1] !== undefined);
    else if (/^(?:stop|continue|break)$/i.test(word)) control = word.toLowerCase() as SlapdBy['control'];
    else who.push(parseWho(word));
  }
  if (who.length === 0) throw new SlapdSyntaxError("a 'by' does not say who");
  return { text: words.join(' '), who, access, control };
}

function parseAccess(text: string, coversOwnValues: boolean): SlapdAccess {
  const level = LEVEL_PRIVILEGES[text];
  if (level !== undefined) return { operator: '=', privileges: level, coversOwnValues };
  let privileges = 0;
  for (const letter of text.slice(1)) privileges |= LETTER_PRIVILEGES[letter]!;
  return { operator: text[0] as SlapdAccess['operator'], privileges, coversOwnValues };
}

export function parseWho(word: string): SlapdWho {
  const [, keyAndStyle = word, value] = /^([^=]*)=(.*)$/s.exec(word) ?? [];
  const [path = '', ...style] = keyAndStyle.split('.');
  const [key = '', ...groupParts] = path.split('/');
  return { text: word, key: key.toLowerCase(), groupParts, style: style.join('.').toLowerCase(), value };
}
