import { didYouMean, shown } from './suggest.js';

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
  /** numericoid, or the ruleid of a dITStructureRule. */
  readonly id: string;
  /** Values by keyword in upper case; a flag has no values. In canonical order, X- extensions last. */
  readonly fields: ReadonlyMap<string, readonly string[]>;
}

/** A syntax error in a definition. The message gives the error and its position. */
export class DefinitionError extends Error {}

/** flag: no value; word: a bare word; quoted: a quoted string; names, oids: a word or a list in parentheses. */
type Shape = 'flag' | 'word' | 'quoted' | 'names' | 'oids';

const COMMON: Record<string, Shape> = { NAME: 'names', DESC: 'quoted', OBSOLETE: 'flag' };

/** Keywords of each kind, in the order of the ABNF. */
const KEYWORDS: Record<DefinitionKind, Record<string, Shape>> = {
  attributeTypes: {
    ...COMMON,
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
    ...COMMON,
    SUP: 'oids',
    ABSTRACT: 'flag',
    STRUCTURAL: 'flag',
    AUXILIARY: 'flag',
    MUST: 'oids',
    MAY: 'oids',
  },
  ldapSyntaxes: { DESC: 'quoted' },
  matchingRules: { ...COMMON, SYNTAX: 'word' },
  matchingRuleUse: { ...COMMON, APPLIES: 'oids' },
  dITContentRules: { ...COMMON, AUX: 'oids', MUST: 'oids', MAY: 'oids', NOT: 'oids' },
  dITStructureRules: { ...COMMON, FORM: 'word', SUP: 'oids' },
  nameForms: { ...COMMON, OC: 'word', MUST: 'oids', MAY: 'oids' },
};

export const NUMERIC_OID = /^(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*))+$/;
export const DESCRIPTOR = /^[A-Za-z][A-Za-z0-9-]*$/;
const RULE_ID = /^(?:0|[1-9]\d*)$/;
const MAX_LENGTH = 1 << 20;

interface Token {
  readonly text: string;
  readonly quoted: boolean;
  readonly at: number;
}

function tokenize(source: string): Token[] {
  if (source.length > MAX_LENGTH) throw new DefinitionError(`definition of ${source.length} characters is too long`);
  const tokens: Token[] = [];
  const pattern = /\s+|'([^']*)'|([()$])|([^\s()$']+)|'/y;
  for (let match = pattern.exec(source); match; match = pattern.exec(source)) {
    if (match[0] === "'") throw new DefinitionError(`quote at character ${match.index + 1} is never closed; add a '`);
    if (match[1] !== undefined) tokens.push({ text: unquote(match[1]), quoted: true, at: match.index });
    else if (match[2] ?? match[3]) tokens.push({ text: match[0], quoted: false, at: match.index });
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

  peek(): Token | undefined {
    return this.tokens[this.index];
  }

  next(what: string): Token {
    const token = this.tokens[this.index++];
    if (!token) throw new DefinitionError(`ends where ${what} should follow; is a ')' missing?`);
    return token;
  }

  /** Reads a bare or quoted word. */
  word(what: string): string {
    const token = this.next(what);
    if (!token.quoted && /^[()$]$/.test(token.text)) {
      throw new DefinitionError(`'${token.text}' at character ${token.at + 1} where ${what} should be`);
    }
    return token.text;
  }

  symbol(symbol: string): void {
    const token = this.next(`'${symbol}'`);
    if (token.quoted || token.text !== symbol) {
      throw new DefinitionError(`'${shown(token.text)}' at character ${token.at + 1} where '${symbol}' should be`);
    }
  }

  isSymbol(symbol: string): boolean {
    const token = this.peek();
    return token !== undefined && !token.quoted && token.text === symbol;
  }

  /** Reads a word, or words in parentheses, which are separated by `$` if `dollars` is set. */
  list(what: string, dollars: boolean): string[] {
    if (!this.isSymbol('(')) return [this.word(what)];
    this.symbol('(');
    const words: string[] = [];
    while (!this.isSymbol(')')) {
      if (dollars && words.length > 0) this.symbol('$');
      words.push(this.word(what));
    }
    this.symbol(')');
    if (words.length === 0) throw new DefinitionError(`empty list of ${what}; leave the keyword out`);
    return words;
  }
}

/** Parses a definition. Throws DefinitionError. Takes time linear in the length. */
export function parseDefinition(kind: DefinitionKind, source: string): Definition {
  const parser = new Parser(source);
  parser.symbol('(');
  const id = parser.word('an object identifier');
  const form = kind === 'dITStructureRules' ? RULE_ID : NUMERIC_OID;
  if (!form.test(id))
    throw new DefinitionError(`'${shown(id)}' is not a numeric object identifier like 1.3.6.1.4.1.99999.1`);
  const found = new Map<string, string[]>();
  while (!parser.isSymbol(')')) readField(kind, parser, found);
  parser.symbol(')');
  const rest = parser.peek();
  if (rest) throw new DefinitionError(`'${shown(rest.text)}' at character ${rest.at + 1} follows the closing ')'`);
  const fields = new Map<string, string[]>();
  for (const keyword of Object.keys(KEYWORDS[kind])) {
    const values = found.get(keyword);
    if (values) fields.set(keyword, values);
  }
  for (const [keyword, values] of found) if (keyword.startsWith('X-')) fields.set(keyword, values);
  return { kind, id, fields };
}

function readField(kind: DefinitionKind, parser: Parser, found: Map<string, string[]>): void {
  const keyword = parser.word('a keyword').toUpperCase();
  const shape: Shape | 'extension' | undefined =
    KEYWORDS[kind][keyword] ?? (/^X-[A-Z_-]+$/.test(keyword) ? 'extension' : undefined);
  if (!shape) {
    throw new DefinitionError(`unknown keyword '${shown(keyword)}'${didYouMean(keyword, Object.keys(KEYWORDS[kind]))}`);
  }
  if (found.has(keyword)) throw new DefinitionError(`${keyword} is given twice; keep one`);
  if (shape === 'flag') found.set(keyword, []);
  else if (shape === 'word' || shape === 'quoted') found.set(keyword, [parser.word(`the value of ${keyword}`)]);
  else found.set(keyword, parser.list(`the value of ${keyword}`, shape === 'oids'));
  if (shape === 'names') {
    for (const name of found.get(keyword)!) {
      if (!DESCRIPTOR.test(name)) {
        throw new DefinitionError(`'${shown(name)}' is not a name: a letter, then letters, digits and hyphens`);
      }
    }
  }
}

/** The canonical text of a definition. `parseDefinition` of the text returns an equal definition. */
export function formatDefinition(definition: Definition): string {
  const shapes = KEYWORDS[definition.kind];
  let text = `( ${definition.id}`;
  for (const [keyword, values] of definition.fields) {
    const shape = shapes[keyword] ?? 'names';
    const written = shape === 'names' || shape === 'quoted' ? values.map(quote) : values;
    text += ` ${keyword}`;
    if (written.length === 1) text += ` ${written[0]}`;
    else if (written.length > 1) text += ` ( ${written.join(shape === 'oids' ? ' $ ' : ' ')} )`;
  }
  return `${text} )`;
}
