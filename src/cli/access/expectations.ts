import { isIP } from 'node:net';
import { type Field, type Fields, MarkedYaml, type RuleFault } from '../../access/marked-yaml.js';
import { MECHANISMS, type Mechanism } from '../../access/requester.js';
import {
  ATTRIBUTE_RIGHTS,
  CHILDREN_RIGHTS,
  ENTRY_RIGHTS,
  RIGHT_WORDS,
  type Right,
  rightSet,
  rightsOfWord,
} from '../../access/right.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/index.js';
import type { AttributeDescription, Dn } from '../../schema/schema-types.js';
import { didYouMean, printable } from '../../schema/suggest.js';
import { CliError } from '../exit.js';
import { ANONYMOUS, type Connection, MAX_STRENGTH, type RightsExplainer } from './right-answers.js';

/** An item of the file of `rowan access test`: rights that an identity is expected to have and to lack. */
export interface Expectation {
  readonly line: number;
  readonly identity: Dn | typeof ANONYMOUS;
  readonly connection: Connection;
  readonly target: Dn;
  readonly attribute: AttributeDescription | undefined;
  readonly allowedRights: readonly Right[];
  readonly deniedRights: readonly Right[];
}

const KEYS = ['as', 'to', 'attribute', 'address', 'tls', 'mechanism', 'can', 'cannot', 'right', 'expect'];

/** Reads a table of expectations, a YAML list. */
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
      this.#readExpectation(this.#yaml.fields(node, 'an expectation', KEYS), this.#yaml.line(node)),
    );
  }

  #readExpectation(fields: Fields, line: number): Expectation[] {
    const faultCount = this.#yaml.faults.length;
    const asField = this.#requireField(fields, 'as', line);
    const toField = this.#requireField(fields, 'to', line);
    const attribute = fields.get('attribute');
    const description = attribute && this.#parseField(attribute, (text) => this.#schema.requireDescription(text));
    const identity =
      asField && this.#parseField(asField, (text) => (text === ANONYMOUS ? text : this.#schema.parseDn(text)));
    const target = toField && this.#parseField(toField, (text) => this.#schema.parseDn(text));
    const connection = {
      address: this.#readAddress(fields.get('address')),
      strength: this.#readStrength(fields.get('tls')),
      mechanism: this.#readMechanism(fields.get('mechanism')),
    };
    const [allowedRights, deniedRights, namedRights] = ['can', 'cannot', 'right'].map((key) =>
      this.#readRights(fields.get(key), description !== undefined),
    );
    if (!['can', 'cannot', 'right'].some((key) => fields.has(key)))
      this.#yaml.fault(line, "it expects nothing; add 'can', 'cannot', or 'right' and 'expect'");
    (this.#isExpectedAllowed(fields, line) ? allowedRights : deniedRights)!.push(...namedRights!);
    if (this.#yaml.faults.length > faultCount || !identity || !target) return [];
    const rights = { allowedRights: allowedRights!, deniedRights: deniedRights! };
    return [{ line, identity, connection, target, attribute: description, ...rights }];
  }

  /** Whether `right` is expected to be allowed, by `expect`. */
  #isExpectedAllowed(fields: Fields, line: number): boolean {
    const expect = fields.get('expect');
    const text = expect && this.#yaml.text(expect);
    if (fields.has('right') !== (text === 'allow' || text === 'deny'))
      this.#yaml.fault(expect?.line ?? line, "'right' goes with 'expect: allow' or 'expect: deny'");
    return text === 'allow';
  }

  #requireField(fields: Fields, key: string, line: number): Field | undefined {
    const field = fields.get(key);
    if (!field) this.#yaml.fault(line, `it has no '${key}': ${key === 'as' ? "a DN, or 'anonymous'" : 'a DN'}`);
    return field;
  }

  #parseField<T>(field: Field, read: (text: string) => T): T | undefined {
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

  #readAddress(field: Field | undefined): string | undefined {
    const text = field && this.#yaml.text(field);
    if (text !== undefined && isIP(text) === 0) this.#yaml.fault(field!.line, `'${printable(text)}' is no address`);
    return text;
  }

  #readStrength(field: Field | undefined): number {
    return (field && this.#yaml.wholeNumber(field, 0, MAX_STRENGTH)) ?? MAX_STRENGTH;
  }

  #readMechanism(field: Field | undefined): Mechanism {
    const text = field && this.#yaml.text(field);
    const mechanism = MECHANISMS.find((one) => one === text);
    if (text !== undefined && !mechanism)
      this.#yaml.fault(
        field!.line,
        `nobody binds by mechanism '${printable(text)}'; there is ${MECHANISMS.join(', ')}`,
      );
    return mechanism ?? 'simple';
  }

  /** Reads right words. A short word stands for the rights that fit the target, an entry or an attribute. */
  #readRights(field: Field | undefined, isOnAttribute: boolean): Right[] {
    if (!field) return [];
    return this.#yaml.texts(field).flatMap(({ text, line }) => {
      const rights = rightsOfWord(text);
      if (!rights) {
        const remedy = didYouMean(text, RIGHT_WORDS) || `; there are ${RIGHT_WORDS.join(', ')}`;
        this.#yaml.fault(line, `'${printable(text)}' is no right${remedy}`);
        return [];
      }
      const fittingRights = rights.filter((right) => appliesTo(right, isOnAttribute));
      if (fittingRights.length === 0) this.#yaml.fault(line, misfitMessage(text, isOnAttribute));
      return fittingRights;
    });
  }
}

export function appliesTo(right: Right, ofAttribute: boolean): boolean {
  return (rightSet(right) & (ofAttribute ? ATTRIBUTE_RIGHTS : ENTRY_RIGHTS | CHILDREN_RIGHTS)) !== 0;
}

export function misfitMessage(word: string, ofAttribute: boolean): string {
  return ofAttribute
    ? `'${word}' is no right on an attribute; leave the attribute away`
    : `'${word}' is a right on attributes; name one`;
}

/** Returns messages about the rights that differ from the expectation. */
export async function checkExpectation(expectation: Expectation, explainer: RightsExplainer): Promise<string[]> {
  const { identity, connection, target, attribute, allowedRights, deniedRights } = expectation;
  try {
    const { rights } = await explainer.rightsOf(identity, connection);
    const answers = await explainer.explain(rights, target, attribute);
    const answerByRight = new Map(answers.map((answer) => [answer.right, answer]));
    const wrongRights = [
      ...allowedRights.filter((right) => !answerByRight.get(right)!.isGranted),
      ...deniedRights.filter((right) => answerByRight.get(right)!.isGranted),
    ];
    const user = identity === ANONYMOUS ? identity : identity.text;
    const place = `${attribute ? `attribute '${attribute.text}' of ` : ''}${target.text}`;
    return wrongRights.map((right) => {
      const answer = answerByRight.get(right)!;
      return answer.isGranted
        ? `${user} can '${right}' on ${place}: given by ${answer.reason}`
        : `${user} cannot '${right}' on ${place}: ${answer.reason}`;
    });
  } catch (error) {
    if (error instanceof CliError) return [error.message];
    if (error instanceof LdapError) return [`${target.text}: ${error.message}`];
    throw error;
  }
}
