import { didYouMean, printable } from './suggest.js';

/**
 * Parses and formats schema definitions in the notation of RFC 4512 §4.1: `( OID NAME 'x' … )`. The parser is lenient:
 * descriptors may be quoted, and keywords may be in any order. The output is canonical.
 */

export const DEFINITION_KINDS = [
  'attributeTypes',
  'objectClasses',
  'ldapSyntaxes',
  'matchingRules',
  'matchingRuleUse',
  'dITContentRules',
  'dITStructureRules',
  'nameForms',
] as const;
export type DefinitionKind = (typeof DEFINITION_KINDS)[number];

export interface Definition {
  readonly kind: DefinitionKind;
  /** The numericoid; for a dITStructureRule the ruleid. */
  readonly id: string;
  /** Values by keyword in upper case, in canonical order with X- extensions last. A flag has an empty list. */
  readonly fields: ReadonlyMap<string, readonly string[]>;
}

/** A syntax error in a definition. The message gives the error and its position. */
export class DefinitionError extends Error {}

/** The value of a keyword. flag: none; word: a bare word; quoted: a string; names, oids: a word or a list of words. */
type Shape = 'flag' | 'word' | 'quoted' | 'names' | 'oids';

const COMMON_KEYWORDS: Record<string, Shape> = { NAME: 'names', DESC: 'quoted', OBSOLETE: 'flag' };

/** Keywords of each kind, in the order of the ABNF. */
const KEYWORDS: Record<DefinitionKind, Record<string, Shape>> = {
  attributeTypes: {
    ...COMMON_KEYWORDS,
    SUP: 'word',
    EQUALITY: 'word',
    ORDERING: 'word',
    SUBSTR: 'word',
    SYNTAX: 'word',
    'SINGLE-VALUE': 'flag',
    COLLECTIVE: 'flag',
    'NO-USER-MODIFICATION': 'flag',
    USAGE: 'word',
  },
  objectClasses: {
    ...COMMON_KEYWORDS,
    SUP: 'oids',
    ABSTRACT: 'flag',
    STRUCTURAL: 'flag',
    AUXILIARY: 'flag',
    MUST: 'oids',
    MAY: 'oids',
  },
  ldapSyntaxes: { DESC: 'quoted' },
  matchingRules: { ...COMMON_KEYWORDS, SYNTAX: 'word' },
  matchingRuleUse: { ...COMMON_KEYWORDS, APPLIES: 'oids' },
  dITContentRules: { ...COMMON_KEYWORDS, AUX: 'oids', MUST: 'oids', MAY: 'oids', NOT: 'oids' },
  dITStructureRules: { ...COMMON_KEYWORDS, FORM: 'word', SUP: 'oids' },
  nameForms: { ...COMMON_KEYWORDS, OC: 'word', MUST: 'oids', MAY: 'oids' },
};

export const NUMERIC_OID = /^(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*))+$/;
export const DESCRIPTOR = /^[A-Za-z][A-Za-z0-9-]*$/;
const RULE_ID = /^(?:0|[1-9]\d*)$/;
const MAX_LENGTH = 1 << 20;

interface Token {
  readonly text: string;
  readonly isQuoted: boolean;
  readonly offset: number;
}

function tokenize(source: string): Token[] {
  if (source.length > MAX_LENGTH) throw new DefinitionError(`definition of ${source.length} characters is too long`);
  const tokens: Token[] = [];
  const pattern = /\s+|'([^']*)'|([()$])|([^\s()$']+)|'/y;
  for (let match = pattern.exec(source); match; match = pattern.exec(source)) {
    if (match[0] === "'") throw new DefinitionError(`quote at character ${match.index + 1} is never closed; add a '`);
    if (match[1] !== undefined) tokens.push({ text: unquote(match[1]), isQuoted: true, offset: match.index });
    else if (match[2] ?? match[3]) tokens.push({ text: match[0], isQuoted: false, offset: match.index });
  }
  return tokens;
}

function unquote(text: string): string {
  return text.replace(/\\(27|5c)/gi, (_, hex: string) => (hex === '27' ? "'" : '\\'));
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\5C').replaceAll("'", '\\27')}'`;
}

class Parser {
  private readonly tokens: Token[];
  private index = 0;

  constructor(source: string) {
    this.tokens = tokenize(source);
  }

  peekToken(): Token | undefined {
    return this.tokens[this.index];
  }

  takeToken(label: string): Token {
    const token = this.tokens[this.index++];
    if (!token) throw new DefinitionError(`ends where ${label} should follow; is a ')' missing?`);
    return token;
  }

  /** Reads a bare or quoted word. */
  takeWord(label: string): string {
    const token = this.takeToken(label);
    if (!token.isQuoted && /^[()$]$/.test(token.text)) {
      throw new DefinitionError(`'${token.text}' at character ${token.offset + 1} where ${label} should be`);
    }
    return token.text;
  }

  takeSymbol(symbol: string): void {
    const token = this.takeToken(`'${symbol}'`);
    if (token.isQuoted || token.text !== symbol) {
      throw new DefinitionError(
        `'${printable(token.text)}' at character ${token.offset + 1} where '${symbol}' should be`,
      );
    }
  }

  isSymbol(symbol: string): boolean {
    const token = this.peekToken();
    return token !== undefined && !token.isQuoted && token.text === symbol;
  }

  /** Reads a single word, or a list of words in parentheses. `isDollarSeparated`: whether `$` separates the words. */
  takeList(label: string, isDollarSeparated: boolean): string[] {
    if (!this.isSymbol('(')) return [this.takeWord(label)];
    this.takeSymbol('(');
    const words: string[] = [];
    while (!this.isSymbol(')')) {
      if (isDollarSeparated && words.length > 0) this.takeSymbol('$');
      words.push(this.takeWord(label));
    }
    this.takeSymbol(')');
    if (words.length === 0) throw new DefinitionError(`empty list of ${label}; leave the keyword out`);
    return words;
  }
}

/** Parses a definition. Throws DefinitionError. Takes time linear in the length. */
export function parseDefinition(kind: DefinitionKind, source: string): Definition {
  const parser = new Parser(source);
  parser.takeSymbol('(');
  const id = parser.takeWord('an object identifier');
  const idPattern = kind === 'dITStructureRules' ? RULE_ID : NUMERIC_OID;
  if (!idPattern.test(id))
    throw new DefinitionError(`'${printable(id)}' is not a numeric object identifier like 1.3.6.1.4.1.99999.1`);
  const valuesByKeyword = new Map<string, string[]>();
  while (!parser.isSymbol(')')) readField(kind, parser, valuesByKeyword);
  parser.takeSymbol(')');
  const excessToken = parser.peekToken();
  if (excessToken)
    throw new DefinitionError(
      `'${printable(excessToken.text)}' at character ${excessToken.offset + 1} follows the closing ')'`,
    );
  const fields = new Map<string, string[]>();
  for (const keyword of Object.keys(KEYWORDS[kind])) {
    const values = valuesByKeyword.get(keyword);
    if (values) fields.set(keyword, values);
  }
  for (const [keyword, values] of valuesByKeyword) if (keyword.startsWith('X-')) fields.set(keyword, values);
  return { kind, id, fields };
}

function readField(kind: DefinitionKind, parser: Parser, valuesByKeyword: Map<string, string[]>): void {
  const keyword = parser.takeWord('a keyword').toUpperCase();
  const shape: Shape | 'extension' | undefined =
    KEYWORDS[kind][keyword] ?? (/^X-[A-Z_-]+$/.test(keyword) ? 'extension' : undefined);
  if (!shape) {
    throw new DefinitionError(
      `unknown keyword '${printable(keyword)}'${didYouMean(keyword, Object.keys(KEYWORDS[kind]))}`,
    );
  }
  if (valuesByKeyword.has(keyword)) throw new DefinitionError(`${keyword} is given twice; keep one`);
  if (shape === 'flag') valuesByKeyword.set(keyword, []);
  else if (shape === 'word' || shape === 'quoted')
    valuesByKeyword.set(keyword, [parser.takeWord(`the value of ${keyword}`)]);
  else valuesByKeyword.set(keyword, parser.takeList(`the value of ${keyword}`, shape === 'oids'));
  if (shape === 'names') {
    for (const name of valuesByKeyword.get(keyword)!) {
      if (!DESCRIPTOR.test(name)) {
        throw new DefinitionError(`'${printable(name)}' is not a name: a letter, then letters, digits and hyphens`);
      }
    }
  }
}

/** Returns the canonical text of a definition. `parseDefinition` of the text returns an equal definition. */
export function formatDefinition(definition: Definition): string {
  const shapes = KEYWORDS[definition.kind];
  let text = `( ${definition.id}`;
  for (const [keyword, values] of definition.fields) {
    const shape = shapes[keyword] ?? 'names';
    const texts = shape === 'names' || shape === 'quoted' ? values.map(quote) : values;
    text += ` ${keyword}`;
    if (texts.length === 1) text += ` ${texts[0]}`;
    else if (texts.length > 1) text += ` ( ${texts.join(shape === 'oids' ? ' $ ' : ' ')} )`;
  }
  return `${text} )`;
}
