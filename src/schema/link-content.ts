import type { ClassNode, TypeNode } from './nodes.js';
import { describe, fail, failUndefined, hasKeyword, type ParsedDefinition, type Registry } from './parsed.js';

/** The requirements of a DIT content rule (RFC 4512 §4.1.6) on entries, in addition to the object classes. */
export interface ContentRule {
  /** Auxiliary classes that entries may have, including superiors. */
  readonly aux: ReadonlySet<ClassNode>;
  readonly must: ReadonlySet<TypeNode>;
  readonly may: ReadonlySet<TypeNode>;
  /** Attributes that the rule precludes although the classes allow them. */
  readonly not: ReadonlySet<TypeNode>;
}

/** Returns the content rules that are in force, by structural class. */
export function linkContentRules(
  definitions: readonly ParsedDefinition[],
  types: Registry<TypeNode>,
  classes: Registry<ClassNode>,
): ReadonlyMap<ClassNode, ContentRule> {
  const rules = new Map<ClassNode, ContentRule>();
  for (const parsed of definitions) {
    const { id, fields } = parsed.definition;
    const structural = classes.get(id);
    if (structural?.kind !== 'STRUCTURAL')
      fail(parsed, `${describe(parsed)}: ${id} is no structural object class; give the OID of the one that it governs`);
    const typesOfKeyword = (keyword: string): Set<TypeNode> => {
      const requireType = (name: string): TypeNode =>
        types.get(name) ?? failUndefined(parsed, `attribute of ${keyword}`, name, types.names());
      return new Set((fields.get(keyword) ?? []).map(requireType));
    };
    const aux = new Set<ClassNode>();
    for (const name of fields.get('AUX') ?? []) {
      const node = classes.get(name) ?? failUndefined(parsed, 'class of AUX', name, classes.names());
      if (node.kind !== 'AUXILIARY')
        fail(parsed, `${describe(parsed)}: class '${name}' of AUX is not auxiliary; remove it`);
      for (const superior of node.lineage) aux.add(superior);
    }
    const not = typesOfKeyword('NOT');
    for (const type of structural.must) {
      const problem = `${describe(parsed)}: '${structural.name}' requires attribute '${type.name}' of NOT`;
      if (not.has(type)) fail(parsed, `${problem}; remove it from NOT`);
    }
    const rule = { aux, must: typesOfKeyword('MUST'), may: typesOfKeyword('MAY'), not };
    if (!hasKeyword(parsed, 'OBSOLETE')) rules.set(structural, rule);
  }
  return rules;
}
