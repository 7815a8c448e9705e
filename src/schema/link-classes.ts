import { formatDefinition } from './definition.js';
import type { ClassNode, TypeNode } from './nodes.js';
import { describe, fail, failUndefined, firstValue, hasKeyword, type ParsedDefinition, Registry } from './parsed.js';
import type { ObjectClass } from './schema-types.js';

const TOP = '2.5.6.0';
const KINDS = ['ABSTRACT', 'STRUCTURAL', 'AUXILIARY'] as const;

/** Kinds that a class may derive from (RFC 4512 §2.4). */
const MAY_DERIVE: Record<ObjectClass['kind'], readonly ObjectClass['kind'][]> = {
  ABSTRACT: ['ABSTRACT'],
  STRUCTURAL: ['ABSTRACT', 'STRUCTURAL'],
  AUXILIARY: ['ABSTRACT', 'AUXILIARY'],
};

/** Links classes, superiors first. */
class ClassLinker {
  readonly classes = new Registry<ClassNode>();
  private readonly definitions = new Map<string, ParsedDefinition>();
  private readonly beingLinked = new Set<ParsedDefinition>();
  private readonly types: Registry<TypeNode>;

  constructor(definitions: readonly ParsedDefinition[], types: Registry<TypeNode>) {
    this.types = types;
    for (const parsed of definitions) {
      this.definitions.set(parsed.definition.id, parsed);
      for (const name of parsed.names) this.definitions.set(name.toLowerCase(), parsed);
    }
    for (const parsed of definitions) this.link(parsed);
  }

  private link(parsed: ParsedDefinition): ClassNode {
    const linkedClass = this.classes.get(parsed.definition.id);
    if (linkedClass) return linkedClass;
    if (this.beingLinked.has(parsed)) fail(parsed, `${describe(parsed)} is above itself; break the circle of SUP`);
    this.beingLinked.add(parsed);
    const kind = this.kind(parsed);
    const superiors = this.superiors(parsed, kind);
    const must = new Set([...this.attributes(parsed, 'MUST'), ...superiors.flatMap((superior) => [...superior.must])]);
    const may = new Set([...this.attributes(parsed, 'MAY'), ...superiors.flatMap((superior) => [...superior.may])]);
    for (const type of must) may.delete(type);
    const lineage = new Set<ClassNode>();
    const node: ClassNode = {
      oid: parsed.definition.id,
      names: parsed.names,
      name: parsed.names[0] ?? parsed.definition.id,
      description: firstValue(parsed, 'DESC'),
      obsolete: hasKeyword(parsed, 'OBSOLETE'),
      kind,
      superiors,
      must,
      may,
      lineage,
      definition: formatDefinition(parsed.definition),
    };
    lineage.add(node);
    for (const superior of superiors) for (const inheritedClass of superior.lineage) lineage.add(inheritedClass);
    this.classes.add(node);
    this.beingLinked.delete(parsed);
    return node;
  }

  private kind(parsed: ParsedDefinition): ObjectClass['kind'] {
    const kinds = KINDS.filter((kind) => hasKeyword(parsed, kind));
    if (kinds.length > 1) fail(parsed, `${describe(parsed)} is ${kinds.join(' and ')}; keep one`);
    return kinds[0] ?? 'STRUCTURAL';
  }

  /** A class without SUP derives from `top`, if the schema defines `top`. */
  private superiors(parsed: ParsedDefinition, kind: ObjectClass['kind']): ClassNode[] {
    const superiorNames = parsed.definition.fields.get('SUP');
    if (!superiorNames) {
      const top = parsed.definition.id === TOP ? undefined : this.definitions.get(TOP);
      return top ? [this.link(top)] : [];
    }
    return superiorNames.map((name) => {
      const superiorDefinition = this.definitions.get(name.toLowerCase());
      if (!superiorDefinition) failUndefined(parsed, 'superior class', name, this.definitions.keys());
      const superior = this.link(superiorDefinition);
      if (!MAY_DERIVE[kind].includes(superior.kind)) {
        const derivableKinds = MAY_DERIVE[kind].join(' or ').toLowerCase();
        const problem = `${kind.toLowerCase()} class ${describe(parsed)} derives from ${superior.kind.toLowerCase()} '${superior.name}'`;
        fail(parsed, `${problem}; derive it from an ${derivableKinds} class`);
      }
      return superior;
    });
  }

  private attributes(parsed: ParsedDefinition, keyword: 'MUST' | 'MAY'): TypeNode[] {
    const typeNames = parsed.definition.fields.get(keyword) ?? [];
    return typeNames.map(
      (name) => this.types.get(name) ?? failUndefined(parsed, `attribute of ${keyword}`, name, this.types.names()),
    );
  }
}

export function linkClasses(definitions: readonly ParsedDefinition[], types: Registry<TypeNode>): Registry<ClassNode> {
  return new ClassLinker(definitions, types).classes;
}
