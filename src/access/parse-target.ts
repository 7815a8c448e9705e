import type { Node } from 'yaml';
import { parseFilter } from '../ldap/filter-text.js';
import type { Filter } from '../ldap/ldap-types.js';
import { isComputed } from '../partition/model/computed.js';
import { DescriptionTable } from '../partition/model/descriptions.js';
import { UNRESTRICTED } from '../partition/model/viewer.js';
import { FilterCompiler } from '../partition/read/filter/filter-compiler.js';
import type { Schema } from '../schema/schema.js';
import type { AttributeDescription, AttributeType } from '../schema/schema-types.js';
import { didYouMean, printable } from '../schema/suggest.js';
import { ALL_ATTRIBUTES } from './attribute-set.js';
import type { Field, MarkedText, MarkedYaml } from './marked-yaml.js';
import { readDns, runOrFault } from './parse-who.js';
import type { AttributeSet, Target, TargetFilter } from './rule.js';

const SCOPES = ['base', 'one', 'subtree'] as const;
const KEYS: readonly string[] = [...SCOPES, 'filter', 'attributes'];

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

  read(node: Node, keys = KEYS): Target {
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
