import { isIP } from 'node:net';
import { isScalar, isSeq, type Node } from 'yaml';
import { parseFilter } from '../ldap/filter-text.js';
import { LdapError } from '../ldap/ldap-error.js';
import type { Filter } from '../ldap/ldap-types.js';
import { isComputed } from '../partition/model/computed.js';
import { DescriptionTable } from '../partition/model/descriptions.js';
import { UNRESTRICTED } from '../partition/model/viewer.js';
import { FilterCompiler } from '../partition/read/filter/filter-compiler.js';
import type { Schema } from '../schema/schema.js';
import type { AttributeDescription, AttributeType, Dn } from '../schema/schema-types.js';
import { didYouMean, printable } from '../schema/suggest.js';
import type { Field, Fields, MarkedText, MarkedYaml } from './marked-yaml.js';
import { MECHANISMS } from './requester.js';
import { ALL_ATTRIBUTES, type AttributeSet, type Network, type Target, type TargetFilter, type Who } from './rule.js';

const WHO_KEYS = [
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
    const fields = this.#yaml.fields(node, depth === 0 ? 'who' : 'not', WHO_KEYS);
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
function runOrFault<T>(yaml: MarkedYaml, line: number, work: () => T, prefix = ''): T | undefined {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof LdapError)) throw error;
    yaml.fault(line, `${prefix}${error.message}`);
    return undefined;
  }
}

const SCOPES = ['base', 'one', 'subtree'] as const;
const TARGET_KEYS: readonly string[] = [...SCOPES, 'filter', 'attributes'];

export const EVERYTHING: Target = { attributes: ALL_ATTRIBUTES };

/** Parses the `to` clause of a rule: the entries and attributes that the rule covers. */
export class TargetReader {
  readonly #yaml: MarkedYaml;
  readonly #schema: Schema;
  readonly #compiler: FilterCompiler;

  constructor(yaml: MarkedYaml, schema: Schema) {
    this.#yaml = yaml;
    this.#schema = schema;
    this.#compiler = new FilterCompiler(schema, new DescriptionTable(schema));
  }

  read(node: Node, keys = TARGET_KEYS): Target {
    const fields = this.#yaml.fields(node, 'to', keys);
    const scopeFields = SCOPES.flatMap((scope) => {
      const field = fields.get(scope);
      return field ? [{ scope, field }] : [];
    });
    if (scopeFields.length > 1) {
      const keys = scopeFields.map(({ scope }) => `'${scope}'`).join(' and ');
      this.#yaml.fault(scopeFields[1]!.field.line, `'to' has at most one of base, one and subtree, not ${keys}`);
    }
    const filter = fields.get('filter');
    const attributes = fields.get('attributes');
    return {
      ...(scopeFields[0] && { place: this.#readPlace(scopeFields[0].scope, scopeFields[0].field) }),
      ...(filter && { filters: this.#yaml.texts(filter).flatMap((text) => this.#readFilter(text)) }),
      attributes: attributes ? this.#readAttributes(attributes) : ALL_ATTRIBUTES,
    };
  }

  #readPlace(scope: (typeof SCOPES)[number], field: Field): NonNullable<Target['place']> {
    const bases = readDns(this.#yaml, this.#schema, field);
    if (scope === 'base' && bases.some(({ rdns }) => rdns.length === 0))
      this.#yaml.fault(field.line, 'this never applies: the root DSE is shown to everybody, whatever the rules');
    return { scope, bases };
  }

  #readFilter({ text, line }: MarkedText): TargetFilter[] {
    const filter = runOrFault(this.#yaml, line, () => parseFilter(text));
    if (!filter) return [];
    for (const condition of itemsOf(filter)) {
      const fault = runOrFault(this.#yaml, line, () => this.#conditionFault(condition));
      if (fault !== undefined) this.#yaml.fault(line, `filter ${printable(text)}: ${fault}`);
    }
    return [{ text, filter }];
  }

  #conditionFault(condition: Filter): string | undefined {
    if (condition.type === 'extensible') {
      if (condition.dnAttributes) return "':dn:' is not for rules; say where by 'base', 'one' or 'subtree'";
      if (condition.attribute === undefined) return 'name the attribute ahead of the matching rule';
      if (condition.rule !== undefined && this.#schema.rule(condition.rule)?.inChain)
        return 'an in-chain match is worked out when it is asked for, and not for rules';
    }
    if ('attribute' in condition && condition.attribute !== undefined) {
      const description = this.#schema.requireDescription(condition.attribute);
      if (isComputed(description.type))
        return `attribute '${description.type.name}' is worked out when it is asked for, and not for rules`;
    }
    const { filter: compiled } = this.#compiler.compile(condition, UNRESTRICTED);
    return compiled.kind === 'undefined' ? `${compiled.reason}: it is never true` : undefined;
  }

  #readAttributes(field: Field): AttributeSet {
    const types = new Set<AttributeType>();
    const descriptions: AttributeDescription[] = [];
    const groupWords = new Set<string>();
    for (const { text, line } of this.#yaml.texts(field)) {
      if (text === '*' || text === '+' || text === 'entry' || text === 'children') groupWords.add(text);
      else if (text.startsWith('@')) for (const type of this.#typesOfClass(text.slice(1), line)) types.add(type);
      else {
        const description = runOrFault(this.#yaml, line, () => this.#schema.requireDescription(text));
        if (description) descriptions.push(description);
      }
    }
    return {
      includesEntry: groupWords.has('entry'),
      includesChildren: groupWords.has('children'),
      includesUser: groupWords.has('*'),
      includesOperational: groupWords.has('+'),
      types,
      descriptions,
    };
  }

  /** The attributes of an object class that are not secrets. */
  #typesOfClass(name: string, line: number): readonly AttributeType[] {
    const classTypes = this.#schema.expandClass(name);
    if (classTypes) return classTypes.filter(({ secret }) => !secret);
    const classNames = [...this.#schema.objectClasses()].flatMap((one) => one.names);
    this.#yaml.fault(line, `object class '${printable(name)}' is not in the schema${didYouMean(name, classNames)}`);
    return [];
  }
}

function* itemsOf(filter: Filter): Generator<Filter> {
  if (filter.type === 'and' || filter.type === 'or') for (const subfilter of filter.filters) yield* itemsOf(subfilter);
  else if (filter.type === 'not') yield* itemsOf(filter.filter);
  else yield filter;
}

const EXAMPLES = '10.1.2.3, 10.0.0.0/8, 2001:db8::1 or 2001:db8::/32';

/** Parses an IP address or a network in CIDR notation. Returns an error message if the text is neither. */
export function parseNetwork(text: string): Network | string {
  const [address = '', prefixText, ...extras] = text.split('/');
  const version = address.includes('%') ? 0 : isIP(address);
  if (version === 0 || extras.length > 0) return `'${text}' is no address and no network; write it like ${EXAMPLES}`;
  const family = version === 6 ? 'ipv6' : 'ipv4';
  const maxPrefix = version === 6 ? 128 : 32;
  if (prefixText !== undefined && !(/^\d{1,3}$/.test(prefixText) && Number(prefixText) <= maxPrefix))
    return `'${text}': behind the '/' stands a number from 0 to ${maxPrefix}`;
  if (/^::ffff:/i.test(address)) return `'${text}' never comes: a client's IPv4 address is written like 10.0.0.0/8`;
  return { text, address, prefix: prefixText === undefined ? maxPrefix : Number(prefixText), family };
}
