import type { Node } from 'yaml';
import { isScalar, isSeq } from 'yaml';
import { LdapError } from '../ldap/ldap-error.js';
import { isComputed } from '../partition/model/computed.js';
import type { Schema } from '../schema/schema.js';
import type { AttributeType, Dn } from '../schema/schema-types.js';
import { printable } from '../schema/suggest.js';
import type { Field, Fields, MarkedText, MarkedYaml } from './marked-yaml.js';
import { parseNetwork } from './parse-network.js';
import { MECHANISMS } from './requester.js';
import type { Network, Who } from './rule.js';

const KEYS = [
  'anonymous',
  'users',
  'self',
  'dn',
  'subtree',
  'group',
  'attribute',
  'network',
  'strength',
  'mechanism',
  'not',
] as const;

/** Keys that never match an anonymous client. */
const USER_KEYS = ['users', 'self', 'dn', 'subtree', 'group', 'attribute', 'mechanism'] as const;
const MAX_DEPTH = 8;
/** Bits of the strongest cipher. */
const MAX_STRENGTH = 256;
const DN_SYNTAXES = ['1.3.6.1.4.1.1466.115.121.1.12', '1.3.6.1.4.1.1466.115.121.1.34'];

/** Parses `who` clauses. */
export class WhoReader {
  readonly #yaml: MarkedYaml;
  readonly #schema: Schema;

  constructor(yaml: MarkedYaml, schema: Schema) {
    this.#yaml = yaml;
    this.#schema = schema;
  }

  /** `line` is the line of the rule or limit, for the message about a missing clause. */
  read(field: Field | undefined, line: number): Who {
    if (field) return this.#read(field.value, 0);
    this.#yaml.fault(line, "it does not say who; 'who: { users: true }' is whoever has bound, 'who: {}' everybody");
    return {};
  }

  #read(node: Node, depth: number): Who {
    const fields = this.#yaml.fields(node, depth === 0 ? 'who' : 'not', KEYS);
    const who: { -readonly [K in keyof Who]: Who[K] } = {};
    for (const key of ['anonymous', 'users', 'self'] as const) if (this.#isTrue(fields.get(key))) who[key] = true;
    for (const key of ['dn', 'subtree', 'group'] as const) {
      const field = fields.get(key);
      if (field) who[key] = readDns(this.#yaml, this.#schema, field);
    }
    const attribute = fields.get('attribute');
    if (attribute) who.attribute = this.#yaml.texts(attribute).flatMap((text) => this.#readDnAttribute(text));
    const network = fields.get('network');
    if (network) who.network = this.#yaml.texts(network).flatMap((text) => this.#readNetwork(text));
    const strength = fields.get('strength');
    if (strength) who.strength = this.#yaml.wholeNumber(strength, 0, MAX_STRENGTH) ?? 0;
    const mechanism = fields.get('mechanism');
    if (mechanism) who.mechanism = this.#yaml.texts(mechanism).flatMap((text) => this.#readMechanism(text));
    const not = fields.get('not');
    if (not) who.not = this.#readNot(not, depth);
    this.#checkMatchesSomebody(fields, who);
    return who;
  }

  #isTrue(field: Field | undefined): boolean {
    if (!field) return false;
    const { key, line, value } = field;
    if (isScalar(value) && value.value === true) return true;
    this.#yaml.fault(line, `'${key}' takes only true; for the others write not: { ${key}: true }`);
    return false;
  }

  #readDnAttribute({ text, line }: MarkedText): readonly AttributeType[] {
    const description = runOrFault(this.#yaml, line, () => this.#schema.requireDescription(text));
    if (!description) return [];
    const { type, options, binary } = description;
    const refuse = (reason: string): readonly AttributeType[] => {
      this.#yaml.fault(line, reason);
      return [];
    };
    if (options.length > 0 || binary) return refuse(`'attribute' names a type; write '${type.name}' for '${text}'`);
    if (!DN_SYNTAXES.includes(type.syntax.oid) || !type.equality)
      return refuse(`attribute '${type.name}' has no DNs for values; name one like manager or owner`);
    if (isComputed(type))
      return refuse(`attribute '${type.name}' is worked out when it is asked for; use self or subtree`);
    return type.subtypes;
  }

  #readNetwork({ text, line }: MarkedText): Network[] {
    const network = parseNetwork(text.trim());
    if (typeof network !== 'string') return [network];
    this.#yaml.fault(line, network);
    return [];
  }

  #readMechanism({ text, line }: MarkedText): string[] {
    const mechanismName = text.toLowerCase();
    if (!(MECHANISMS as readonly string[]).includes(mechanismName))
      this.#yaml.fault(line, `nobody binds by mechanism '${text}'; there is ${MECHANISMS.join(', ')}`);
    return [mechanismName];
  }

  #readNot(field: Field, depth: number): Who[] {
    const nodes = isSeq(field.value) ? this.#yaml.items(field) : [field.value];
    if (depth < MAX_DEPTH) return nodes.map((node) => this.#read(node, depth + 1));
    this.#yaml.fault(field.line, `'not' within 'not' goes at most ${MAX_DEPTH} deep`);
    return [{}];
  }

  /** Reports a clause that matches no requester, because its keys exclude each other. */
  #checkMatchesSomebody(fields: Fields, { not }: Who): void {
    const anonymous = fields.get('anonymous');
    const userKey = anonymous && USER_KEYS.find((key) => fields.has(key));
    if (userKey)
      this.#faultNever(anonymous.line, `who has not bound fits no '${userKey}'; take 'anonymous' or '${userKey}' away`);
    const field = fields.get('not');
    for (const one of field ? (not ?? []) : []) {
      const hasOneKey = Object.keys(one).length === 1;
      if (Object.keys(one).length === 0) this.#faultNever(field!.line, `'not: {}' is nobody; say who not`);
      for (const key of ['anonymous', 'users', 'self'] as const)
        if (fields.has(key) && one[key] && hasOneKey)
          this.#faultNever(field!.line, `'${key}' and 'not: { ${key}: true }' exclude each other; take one away`);
    }
  }

  #faultNever(line: number, reason: string): void {
    this.#yaml.fault(line, `this never applies: ${reason}`);
  }
}

/** The valid DNs of a key's value. */
export function readDns(yaml: MarkedYaml, schema: Schema, field: Field): readonly Dn[] {
  return yaml.dnTexts(field).flatMap(({ text, line }) => {
    const dn = runOrFault(yaml, line, () => schema.parseDn(text), `'${printable(text)}': `);
    return dn ? [dn] : [];
  });
}

/** Runs `work`. An LdapError becomes a fault, and the result is undefined. */
export function runOrFault<T>(yaml: MarkedYaml, line: number, work: () => T, prefix = ''): T | undefined {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof LdapError)) throw error;
    yaml.fault(line, `${prefix}${error.message}`);
    return undefined;
  }
}
