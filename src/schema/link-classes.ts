import { formatDefinition } from './definition.js';
import { ClassNode, type TypeNode } from './nodes.js';
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
  private readonly parsed = new Map<string, ParsedDefinition>();
  private readonly open = new Set<ParsedDefinition>();
  private readonly types: Registry<TypeNode>;

  constructor(all: readonly ParsedDefinition[], types: Registry<TypeNode>) {
    this.types = types;
    for (const parsed of all) {
      this.parsed.set(parsed.definition.id, parsed);
      for (const name of parsed.names) this.parsed.set(name.toLowerCase(), parsed);
    }
    for (const parsed of all) this.link(parsed);
  }

  private link(parsed: ParsedDefinition): ClassNode {
    const done = this.classes.get(parsed.definition.id);
    if (done) return done;
    if (this.open.has(parsed)) fail(parsed, `${describe(parsed)} is above itself; break the circle of SUP`);
    this.open.add(parsed);
    const kind = this.kind(parsed);
    const node = new ClassNode({
      oid: parsed.definition.id,
      names: parsed.names,
      description: firstValue(parsed, 'DESC'),
      obsolete: hasKeyword(parsed, 'OBSOLETE'),
      kind,
      superiors: this.superiors(parsed, kind),
      must: this.attributes(parsed, 'MUST'),
      may: this.attributes(parsed, 'MAY'),
      definition: formatDefinition(parsed.definition),
    });
    this.classes.add(node);
    this.open.delete(parsed);
    return node;
  }

  private kind(parsed: ParsedDefinition): ObjectClass['kind'] {
    const given = KINDS.filter((kind) => hasKeyword(parsed, kind));
    if (given.length > 1) fail(parsed, `${describe(parsed)} is ${given.join(' and ')}; keep one`);
    return given[0] ?? 'STRUCTURAL';
  }

  /** A class without SUP derives from `top`, if the schema defines `top`. */
  private superiors(parsed: ParsedDefinition, kind: ObjectClass['kind']): ClassNode[] {
    const names = parsed.definition.fields.get('SUP');
    if (!names) {
      const top = parsed.definition.id === TOP ? undefined : this.parsed.get(TOP);
      return top ? [this.link(top)] : [];
    }
    return names.map((name) => {
      const above = this.parsed.get(name.toLowerCase());
      if (!above) failUndefined(parsed, 'superior class', name, this.parsed.keys());
      const superior = this.link(above);
      if (!MAY_DERIVE[kind].includes(superior.kind)) {
        const derives = MAY_DERIVE[kind].join(' or ').toLowerCase();
        const what = `${kind.toLowerCase()} class ${describe(parsed)} derives from ${superior.kind.toLowerCase()} '${superior.name}'`;
        fail(parsed, `${what}; derive it from an ${derives} class`);
      }
      return superior;
    });
  }

  private attributes(parsed: ParsedDefinition, keyword: 'MUST' | 'MAY'): TypeNode[] {
    const names = parsed.definition.fields.get(keyword) ?? [];
    return names.map(
      (name) => this.types.get(name) ?? failUndefined(parsed, `attribute of ${keyword}`, name, this.types.names()),
    );
  }
}

export function linkClasses(all: readonly ParsedDefinition[], types: Registry<TypeNode>): Registry<ClassNode> {
  return new ClassLinker(all, types).classes;
}
