import { escapeText } from './filter-format.js';
import { LdapError } from './ldap-error.js';
import type { Filter } from './ldap-types.js';

export { escapeValue, type FormatOptions, formatFilter } from './filter-format.js';

/** Parses the string form of filters (RFC 4515). `filter-format.ts` writes it. */

const MAX_DEPTH = 100;

/** A syntax error in a filter text. The message gives the position and the expected syntax. */
export class FilterError extends LdapError {
  /** Offset in the text, in UTF-16 units from 0. */
  readonly position: number;

  constructor(message: string, position: number) {
    super('protocolError', `filter, at character ${position + 1}: ${message}`);
    this.position = position;
  }
}

/**
 * Parses a filter. The parentheses around a filter of a single item may be missing (`uid=x`), and filters may be
 * separated by white space. `(&)` and `(|)` are True and False (RFC 4526). Throws FilterError on bad syntax and on
 * nesting deeper than 100.
 */
export function parseFilter(text: string): Filter {
  const parser = new Parser(text);
  parser.skipSpace();
  const filter = parser.peek() === '(' ? parser.parseFilter(0) : parser.parseItem();
  parser.skipSpace();
  if (parser.at < text.length) throw parser.expected('the end');
  return filter;
}

class Parser {
  readonly #text: string;
  at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  peek(): string {
    return this.#text[this.at] ?? '';
  }

  skipSpace(): void {
    while (/^[ \t\r\n]/.test(this.peek())) this.at++;
  }

  expected(syntax: string, offset = this.at): FilterError {
    const char = this.#text[offset];
    const charText = char === undefined ? 'the end' : escapeText(char) === char ? `'${char}'` : 'a special character';
    return new FilterError(`expected ${syntax}, found ${charText}`, offset);
  }

  parseFilter(depth: number): Filter {
    if (this.peek() !== '(') throw this.expected("'('");
    if (depth > MAX_DEPTH) throw new FilterError(`nested over ${MAX_DEPTH} deep`, this.at);
    this.at++;
    this.skipSpace();
    const filter = this.#parseComponent(depth);
    if (this.peek() !== ')') throw this.expected("')'");
    this.at++;
    return filter;
  }

  #parseComponent(depth: number): Filter {
    const char = this.peek();
    if (char === '&' || char === '|') {
      this.at++;
      return { type: char === '&' ? 'and' : 'or', filters: this.#parseList(depth) };
    }
    if (char !== '!') return this.parseItem();
    this.at++;
    this.skipSpace();
    const filter = this.parseFilter(depth + 1);
    this.skipSpace();
    return { type: 'not', filter };
  }

  #parseList(depth: number): Filter[] {
    const filters: Filter[] = [];
    this.skipSpace();
    while (this.peek() === '(') {
      filters.push(this.parseFilter(depth + 1));
      this.skipSpace();
    }
    return filters;
  }

  /** Parses an item: a filter other than and, or, not, without its parentheses. */
  parseItem(): Filter {
    const attribute = this.#takeName();
    const operator = this.#takeOperator();
    if (operator === ':') return this.#parseExtensible(attribute);
    if (attribute === '') throw this.expected('an attribute', this.at - operator.length);
    if (operator === '=') return this.#parseEqualityLike(attribute);
    return { type: comparisons[operator], attribute, value: this.#takeValue('a value') };
  }

  #takeName(): string {
    const start = this.at;
    while (/^[A-Za-z0-9._;-]/.test(this.peek())) this.at++;
    return this.#text.slice(start, this.at);
  }

  #takeOperator(): '=' | ':' | keyof typeof comparisons {
    const char = this.peek();
    if (char === '=' || char === ':') {
      this.at++;
      return char;
    }
    if (char !== '>' && char !== '<' && char !== '~') throw this.expected("'=', '>=', '<=', '~=' or ':='");
    this.at++;
    if (this.peek() !== '=') throw this.expected("'='");
    this.at++;
    return `${char}=`;
  }

  #parseEqualityLike(attribute: string): Filter {
    const values = [this.#takeValue('a value')];
    while (this.peek() === '*') {
      this.at++;
      values.push(this.#takeValue("a value or '*'"));
    }
    if (values.length === 1) return { type: 'equal', attribute, value: values[0]! };
    const [initial, final] = [values[0]!, values[values.length - 1]!];
    const any = values.slice(1, -1);
    if (any.length === 0 && initial.length === 0 && final.length === 0) return { type: 'present', attribute };
    if (any.some((substring) => substring.length === 0))
      throw new FilterError("two '*' without a value between them", this.at);
    return { type: 'substring', attribute, initial: undefinedIfEmpty(initial), any, final: undefinedIfEmpty(final) };
  }

  /** Parses the rest of an extensible match `[dn:][rule:]=value` after its first `:`. */
  #parseExtensible(attribute: string): Filter {
    const ruleNames: string[] = [];
    while (this.peek() !== '=') {
      const ruleName = this.#takeName();
      if (ruleName === '') throw this.expected("'dn', a matching rule or '='");
      ruleNames.push(ruleName);
      this.#take(':');
    }
    this.at++;
    const dnAttributes = ruleNames[0]?.toLowerCase() === 'dn';
    const [rule, ...extraNames] = dnAttributes ? ruleNames.slice(1) : ruleNames;
    if (extraNames.length > 0) throw new FilterError('more than one matching rule', this.at - 1);
    if (attribute === '' && rule === undefined)
      throw new FilterError('neither attribute nor matching rule', this.at - 1);
    const value = this.#takeValue('a value');
    return { type: 'extensible', rule, attribute: attribute === '' ? undefined : attribute, value, dnAttributes };
  }

  #take(character: string): void {
    if (this.peek() !== character) throw this.expected(`'${character}'`);
    this.at++;
  }

  /** Parses an assertion value up to `*`, `)` or the end. Decodes escapes. */
  #takeValue(expected: string): Buffer {
    const text = this.#text;
    const start = this.at;
    let hasEscapes = false;
    for (; this.at < text.length; this.at++) {
      const c = text[this.at]!;
      if (c === ')' || c === '*') break;
      if (c === '(' || c === '\0') throw this.expected(`${expected}; in a value '(' and NUL are written \\28 and \\00`);
      if (c !== '\\') continue;
      const digits = text.slice(this.at + 1, this.at + 3);
      if (!/^[0-9A-Fa-f]{2}$/.test(digits)) throw this.expected('two hexadecimal digits', this.at + 1);
      this.at += 2;
      hasEscapes = true;
    }
    const bytes = Buffer.from(text.slice(start, this.at));
    return hasEscapes ? unescapeInPlace(bytes) : bytes;
  }
}

const BACKSLASH = 0x5c;

/** Decodes escapes. The caller has checked that every `\` is followed by two hexadecimal digits. */
function unescapeInPlace(bytes: Buffer): Buffer {
  let length = 0;
  for (let i = 0; i < bytes.length; i++) {
    if (bytes[i] === BACKSLASH) {
      bytes[length++] = Number.parseInt(bytes.toString('latin1', i + 1, i + 3), 16);
      i += 2;
    } else bytes[length++] = bytes[i]!;
  }
  return bytes.subarray(0, length);
}

const comparisons = { '>=': 'greaterOrEqual', '<=': 'lessOrEqual', '~=': 'approx' } as const;

function undefinedIfEmpty(substring: Buffer): Buffer | undefined {
  return substring.length > 0 ? substring : undefined;
}
