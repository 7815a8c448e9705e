import { type Document, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, type Scalar, visit } from 'yaml';
import { didYouMean, printable } from '../schema/suggest.js';

/** A fault in a rules file. */
export interface RuleFault {
  /** Line in the file, from 1. */
  readonly line: number;
  /** Describes the fault and its remedy. */
  readonly message: string;
}

/** A key of a map and its value, which is never null. */
export interface Field {
  readonly key: string;
  readonly line: number;
  readonly value: Node;
}

export type Fields = ReadonlyMap<string, Field>;

/** A text and its line in the file. */
export interface MarkedText {
  readonly text: string;
  readonly line: number;
}

const NO_FIELDS: Fields = new Map();
const MAX_BYTES = 1024 * 1024;

/** Hints for notations such as `[*]`, where the parser's messages help only users who know YAML. */
const QUOTING_HINTS: Readonly<Record<string, string>> = {
  BAD_ALIAS: '; put "*" into quotes',
  BAD_SCALAR_START: '; put "@class" into quotes',
};

/** Reads a YAML file node by node and collects faults with their lines. */
export class MarkedYaml {
  readonly faults: RuleFault[] = [];
  /** Undefined if the text is not valid YAML or is empty. */
  readonly root: Node | undefined;
  /** The rule or limit that is being read. Messages of faults begin with this text. */
  subject = '';
  readonly #lineCounter = new LineCounter();

  constructor(text: string) {
    const document = this.#parse(text);
    if (document && this.faults.length === 0 && document.contents && !isNull(document.contents))
      this.root = document.contents;
  }

  #parse(text: string): Document.Parsed | undefined {
    const bytes = Buffer.byteLength(text);
    if (bytes > MAX_BYTES) {
      this.fault(1, `the file has ${bytes} bytes; at most ${MAX_BYTES} are read`);
      return undefined;
    }
    const document = this.#parseDocument(text);
    if (!document) {
      this.fault(1, 'the file is nested too deep');
      return undefined;
    }
    for (const { pos, message, code } of document.errors)
      this.fault(this.#lineAt(pos[0]), `this is not YAML: ${message}${QUOTING_HINTS[code] ?? ''}`);
    if (this.faults.length > 0) return undefined;
    visit(document, {
      Alias: (_, node) => this.fault(this.line(node), 'anchors and aliases (&x, *x) are not read; write it out'),
    });
    return document;
  }

  /** Parses the text. Returns undefined if the parser exhausts the stack; it throws or reports this as an error. */
  #parseDocument(text: string): Document.Parsed | undefined {
    try {
      // `fields` reports duplicate keys. The parser's own check takes time quadratic in the number of keys.
      const document = parseDocument(text, { lineCounter: this.#lineCounter, prettyErrors: false, uniqueKeys: false });
      return document.errors.some(({ code }) => code === 'RESOURCE_EXHAUSTION') ? undefined : document;
    } catch (error) {
      if (error instanceof RangeError) return undefined;
      throw error;
    }
  }

  #lineAt(offset: number): number {
    return this.#lineCounter.linePos(offset).line;
  }

  line(node: Node): number {
    return this.#lineAt(node.range?.[0] ?? 0);
  }

  fault(line: number, message: string): void {
    this.faults.push({ line, message: this.subject === '' ? message : `${this.subject}: ${message}` });
  }

  /** Faults in the order of the file. */
  sortedFaults(): readonly RuleFault[] {
    return this.faults.sort((a, b) => a.line - b.line);
  }

  /** The known keys of a map that have a value. Reports all other keys as faults. */
  fields(node: Node, label: string, keys: readonly string[]): Fields {
    if (!isMap(node)) {
      this.fault(this.line(node), `${label} has to be made of keys: ${keys.join(', ')}`);
      return NO_FIELDS;
    }
    const fields = new Map<string, Field>();
    for (const { key, value } of node.items) {
      const line = this.line(key as Node);
      const keyText = isScalar(key) ? String(key.value) : '';
      if (!keys.includes(keyText)) this.#faultUnknownKey(line, keyText, label, keys);
      else if (fields.has(keyText))
        this.fault(line, `'${keyText}' is there already, in line ${fields.get(keyText)!.line}; keep one`);
      else if (value === null || isNull(value as Node))
        this.fault(line, `'${keyText}' has no value; give it one, or take the key away`);
      else fields.set(keyText, { key: keyText, line, value: value as Node });
    }
    return fields;
  }

  #faultUnknownKey(line: number, name: string, label: string, keys: readonly string[]): void {
    const hint = didYouMean(name, keys);
    const remedy = name.includes('=') ? '; a DN within { } goes into quotes' : hint || `; it has ${keys.join(', ')}`;
    this.fault(line, `${label} has no key '${printable(name)}'${remedy}`);
  }

  items({ key, line, value }: Field, mayBeEmpty = false): readonly Node[] {
    if (!isSeq(value)) {
      this.fault(line, `'${key}' has to be a list`);
      return [];
    }
    if (value.items.length === 0 && !mayBeEmpty) this.#faultEmptyList(line, key);
    return value.items as Node[];
  }

  #faultEmptyList(line: number, key: string): void {
    this.fault(line, `the list of '${key}' is empty and holds for nothing; leave '${key}' away, or name something`);
  }

  /** The texts of a value that is one text or a list of texts. */
  texts({ key, line, value }: Field): MarkedText[] {
    if (!isSeq(value)) return this.#texts(key, [value]);
    if (value.items.length === 0) this.#faultEmptyList(line, key);
    return this.#texts(key, value.items as Node[]);
  }

  #texts(key: string, nodes: readonly Node[]): MarkedText[] {
    const markedTexts: MarkedText[] = [];
    for (const node of nodes) {
      if (isText(node)) markedTexts.push({ text: node.value, line: this.line(node) });
      else this.fault(this.line(node), `'${key}' has to be a text, or a list of texts`);
    }
    return markedTexts;
  }

  /** Like `texts`, for DNs. Refuses a list of unquoted DNs in brackets, which YAML splits at the commas in DNs. */
  dnTexts(field: Field): MarkedText[] {
    const { key, line, value } = field;
    if (isSeq(value) && value.flow && value.items.length > 1 && value.items.some((item) => isUnquoted(item as Node))) {
      this.fault(line, `'${key}': DNs within [ ] go into quotes: a comma parts the list there`);
      return [];
    }
    return this.texts(field);
  }

  text({ key, line, value }: Field): string | undefined {
    if (isText(value) && value.value.trim() !== '') return value.value;
    this.fault(line, `'${key}' has to be a text`);
    return undefined;
  }

  wholeNumber({ key, line, value }: Field, min: number, max: number): number | undefined {
    const number = isScalar(value) ? value.value : undefined;
    if (typeof number === 'number' && Number.isInteger(number) && number >= min && number <= max) return number;
    this.fault(line, `'${key}' has to be a whole number from ${min} to ${max}`);
    return undefined;
  }
}

function isNull(node: Node): boolean {
  return isScalar(node) && node.value === null;
}

function isText(node: Node): node is Scalar<string> {
  return isScalar(node) && typeof node.value === 'string';
}

function isUnquoted(node: Node): boolean {
  return isScalar(node) && node.type === 'PLAIN';
}
