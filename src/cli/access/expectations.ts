import { isIP } from 'node:net';
import { MECHANISMS, type Mechanism } from '../../access/asker.js';
import { type Field, type Fields, MarkedYaml, type RuleFault } from '../../access/marked-yaml.js';
import { OF_ATTRIBUTE, OF_CHILDREN, OF_ENTRY, type Right, rightSet } from '../../access/right.js';
import { RIGHT_WORDS, rightsNamed } from '../../access/right-words.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/index.js';
import type { AttributeDescription, Dn } from '../../schema/schema-types.js';
import { didYouMean, shown } from '../../schema/suggest.js';
import { CliError } from '../exit.js';
import { ANONYMOUS, FULL_STRENGTH, type RightAnswers, type Way } from './right-answers.js';

/** One line of an operator's table: who can and cannot do what. */
export interface Expectation {
  readonly line: number;
  readonly as: Dn | typeof ANONYMOUS;
  readonly way: Way;
  readonly to: Dn;
  readonly attribute: AttributeDescription | undefined;
  readonly can: readonly Right[];
  readonly cannot: readonly Right[];
}

const KEYS = ['as', 'to', 'attribute', 'address', 'tls', 'mechanism', 'can', 'cannot', 'right', 'expect'];

/** Reads a table of expectations: a YAML list. */
export function readExpectations(
  text: string,
  schema: Schema,
): { expectations: readonly Expectation[]; faults: readonly RuleFault[] } {
  const yaml = new MarkedYaml(text);
  const reader = new ExpectationsReader(yaml, schema);
  const expectations = yaml.faults.length > 0 ? [] : reader.read();
  return { expectations, faults: yaml.sortedFaults() };
}

class ExpectationsReader {
  readonly #yaml: MarkedYaml;
  readonly #schema: Schema;

  constructor(yaml: MarkedYaml, schema: Schema) {
    this.#yaml = yaml;
    this.#schema = schema;
  }

  read(): readonly Expectation[] {
    const { root } = this.#yaml;
    if (!root) {
      this.#yaml.fault(1, 'there are no expectations; write a list of them, like - { as: DN, to: DN, can: [read] }');
      return [];
    }
    const items = this.#yaml.items({ key: 'the file', line: 1, value: root });
    return items.flatMap((node) =>
      this.#expectation(this.#yaml.fields(node, 'an expectation', KEYS), this.#yaml.line(node)),
    );
  }

  #expectation(fields: Fields, line: number): Expectation[] {
    const faults = this.#yaml.faults.length;
    const as = this.#needed(fields, 'as', line);
    const to = this.#needed(fields, 'to', line);
    const attribute = fields.get('attribute');
    const description = attribute && this.#text(attribute, (text) => this.#schema.requireDescription(text));
    const who = as && this.#text(as, (text) => (text === ANONYMOUS ? text : this.#schema.parseDn(text)));
    const target = to && this.#text(to, (text) => this.#schema.parseDn(text));
    const way = {
      address: this.#address(fields.get('address')),
      strength: this.#strength(fields.get('tls')),
      mechanism: this.#mechanism(fields.get('mechanism')),
    };
    const [can, cannot, alone] = ['can', 'cannot', 'right'].map((key) =>
      this.#rights(fields.get(key), description !== undefined),
    );
    if (!['can', 'cannot', 'right'].some((key) => fields.has(key)))
      this.#yaml.fault(line, "it expects nothing; add 'can', 'cannot', or 'right' and 'expect'");
    (this.#isAllowed(fields, line) ? can : cannot)!.push(...alone!);
    if (this.#yaml.faults.length > faults || !who || !target) return [];
    return [{ line, as: who, way, to: target, attribute: description, can: can!, cannot: cannot! }];
  }

  /** What `expect` says of `right`. */
  #isAllowed(fields: Fields, line: number): boolean {
    const expect = fields.get('expect');
    const text = expect && this.#yaml.text(expect);
    if (fields.has('right') !== (text === 'allow' || text === 'deny'))
      this.#yaml.fault(expect?.line ?? line, "'right' goes with 'expect: allow' or 'expect: deny'");
    return text === 'allow';
  }

  #needed(fields: Fields, key: string, line: number): Field | undefined {
    const field = fields.get(key);
    if (!field) this.#yaml.fault(line, `it has no '${key}': ${key === 'as' ? "a DN, or 'anonymous'" : 'a DN'}`);
    return field;
  }

  #text<T>(field: Field, read: (text: string) => T): T | undefined {
    const text = this.#yaml.text(field);
    if (text === undefined) return undefined;
    try {
      return read(text);
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      this.#yaml.fault(field.line, `'${field.key}': ${error.message}`);
      return undefined;
    }
  }

  #address(field: Field | undefined): string | undefined {
    const text = field && this.#yaml.text(field);
    if (text !== undefined && isIP(text) === 0) this.#yaml.fault(field!.line, `'${shown(text)}' is no address`);
    return text;
  }

  #strength(field: Field | undefined): number {
    return (field && this.#yaml.whole(field, 0, FULL_STRENGTH)) ?? FULL_STRENGTH;
  }

  #mechanism(field: Field | undefined): Mechanism {
    const text = field && this.#yaml.text(field);
    const found = MECHANISMS.find((one) => one === text);
    if (text !== undefined && !found)
      this.#yaml.fault(field!.line, `nobody binds by mechanism '${shown(text)}'; there is ${MECHANISMS.join(', ')}`);
    return found ?? 'simple';
  }

  /** Of a short word those that there are of an entry, or of an attribute. */
  #rights(field: Field | undefined, ofAttribute: boolean): Right[] {
    if (!field) return [];
    return this.#yaml.texts(field).flatMap(({ text, line }) => {
      const rights = rightsNamed(text);
      if (!rights) {
        const remedy = didYouMean(text, RIGHT_WORDS) || `; there are ${RIGHT_WORDS.join(', ')}`;
        this.#yaml.fault(line, `'${shown(text)}' is no right${remedy}`);
        return [];
      }
      const fitting = rights.filter((right) => fits(right, ofAttribute));
      if (fitting.length === 0) this.#yaml.fault(line, misfit(text, ofAttribute));
      return fitting;
    });
  }
}

export function fits(right: Right, ofAttribute: boolean): boolean {
  return (rightSet(right) & (ofAttribute ? OF_ATTRIBUTE : OF_ENTRY | OF_CHILDREN)) !== 0;
}

export function misfit(word: string, ofAttribute: boolean): string {
  return ofAttribute
    ? `'${word}' is no right on an attribute; leave the attribute away`
    : `'${word}' is a right on attributes; name one`;
}

/** What an expectation does not find as it expects it; empty where it holds. */
export async function disappointments(expected: Expectation, answers: RightAnswers): Promise<string[]> {
  const { as, way, to, attribute, can, cannot } = expected;
  try {
    const { rights } = await answers.entitled(as, way);
    const given = new Map((await answers.answers(rights, to, attribute)).map((answer) => [answer.right, answer]));
    const wrong = [
      ...can.filter((right) => !given.get(right)!.given),
      ...cannot.filter((right) => given.get(right)!.given),
    ];
    const who = as === ANONYMOUS ? as : as.text;
    const on = `${attribute ? `attribute '${attribute.text}' of ` : ''}${to.text}`;
    return wrong.map((right) => {
      const answer = given.get(right)!;
      return answer.given
        ? `${who} can '${right}' on ${on}: given by ${answer.why}`
        : `${who} cannot '${right}' on ${on}: ${answer.why}`;
    });
  } catch (error) {
    if (error instanceof CliError) return [error.message];
    if (error instanceof LdapError) return [`${to.text}: ${error.message}`];
    throw error;
  }
}
