import type { SchemaTables } from './link.js';
import { isSuitable, type RuleNode } from './nodes.js';

export interface SchemaAttribute {
  readonly type: string;
  readonly values: readonly string[];
}

/** Returns the matching rule use `( OID NAME 'rule' APPLIES ( … ) )`; undefined if it would be empty. */
function formatRuleUse(rule: RuleNode, tables: SchemaTables): string | undefined {
  const types = tables.types.definitions.filter((type) => isSuitable(rule, type));
  if (types.length === 0) return undefined;
  const typeNames = types.map((type) => type.name);
  return `( ${rule.oid} NAME '${rule.name}' APPLIES ${typeNames.length === 1 ? typeNames[0] : `( ${typeNames.join(' $ ')} )`} )`;
}

/** The schema as attributes of a subschema entry. Kinds without definitions are left out. */
export function subschema(tables: SchemaTables): SchemaAttribute[] {
  const uses = tables.rules.definitions.map((rule) => formatRuleUse(rule, tables)).filter((use) => use !== undefined);
  const attributes: SchemaAttribute[] = [
    { type: 'ldapSyntaxes', values: [...tables.syntaxes.values()].map((syntax) => syntax.definition) },
    { type: 'matchingRules', values: tables.rules.definitions.map((rule) => rule.definition) },
    { type: 'matchingRuleUse', values: uses },
    { type: 'attributeTypes', values: tables.types.definitions.map((type) => type.definition) },
    { type: 'objectClasses', values: tables.classes.definitions.map((node) => node.definition) },
  ];
  for (const [type, values] of tables.publishedTexts) attributes.push({ type, values });
  return attributes.filter((attribute) => attribute.values.length > 0);
}
