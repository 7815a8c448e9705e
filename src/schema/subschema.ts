import type { SchemaTables } from './link.js';
import { isSuitable, type RuleNode } from './nodes.js';

export interface SchemaAttribute {
  readonly type: string;
  readonly values: readonly string[];
}

/** The matching rule use `( OID NAME 'rule' APPLIES ( … ) )`; undefined if the rule suits no attribute type. */
function useOf(rule: RuleNode, tables: SchemaTables): string | undefined {
  const types = tables.types.all.filter((type) => isSuitable(rule, type));
  if (types.length === 0) return undefined;
  const names = types.map((type) => type.name);
  return `( ${rule.oid} NAME '${rule.name}' APPLIES ${names.length === 1 ? names[0] : `( ${names.join(' $ ')} )`} )`;
}

/** The schema as attributes of a subschema entry. Kinds without definitions are left out. */
export function subschema(tables: SchemaTables): SchemaAttribute[] {
  const uses = tables.rules.all.map((rule) => useOf(rule, tables)).filter((use) => use !== undefined);
  const attributes: SchemaAttribute[] = [
    { type: 'ldapSyntaxes', values: [...tables.syntaxes.values()].map((syntax) => syntax.definition) },
    { type: 'matchingRules', values: tables.rules.all.map((rule) => rule.definition) },
    { type: 'matchingRuleUse', values: uses },
    { type: 'attributeTypes', values: tables.types.all.map((type) => type.definition) },
    { type: 'objectClasses', values: tables.classes.all.map((node) => node.definition) },
  ];
  for (const [type, values] of tables.others) attributes.push({ type, values });
  return attributes.filter((attribute) => attribute.values.length > 0);
}
