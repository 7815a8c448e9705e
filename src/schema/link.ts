import { DefinitionError, type DefinitionKind, formatDefinition, parseDefinition } from './definition.js';
import { type SourceDefinition, shortName } from './files.js';
import { type ContentRule, linkContentRules, linkTypes, type Warn } from './link-types.js';
import {
  type ClassNode,
  describe,
  fail,
  failUndefined,
  firstValue,
  hasKeyword,
  type ParsedDefinition,
  Registry,
  type RuleNode,
  type SyntaxNode,
  type TypeNode,
} from './nodes.js';
import { ruleCode } from './rules.js';
import { SchemaError } from './schema-error.js';
import type { ObjectClass } from './schema-types.js';
import { type Context, syntaxCode } from './syntaxes.js';

export interface SchemaTables {
  readonly syntaxes: ReadonlyMap<string, SyntaxNode>;
  readonly rules: Registry<RuleNode>;
  readonly types: Registry<TypeNode>;
  readonly classes: Registry<ClassNode>;
  readonly contentRules: ReadonlyMap<ClassNode, ContentRule>;
  /** Canonical texts of definitions that the server only publishes in cn=Subschema, by kind. */
  readonly publishedTexts: ReadonlyMap<DefinitionKind, readonly string[]>;
}

function parse(declared: SourceDefinition): ParsedDefinition {
  try {
    const definition = parseDefinition(declared.kind, declared.text);
    return { definition, names: definition.fields.get('NAME') ?? [], file: declared.file, line: declared.line };
  } catch (error) {
    if (error instanceof DefinitionError) throw new SchemaError(error.message, declared);
    throw error;
  }
}

/**
 * Leaves out definitions with `X-YIELD 'TRUE'` whose name another definition of the kind has. A built-in attribute that
 * only `cn=Monitor` uses so gives way to an attribute of the operator.
 */
function withoutYielding(definitions: readonly ParsedDefinition[]): ParsedDefinition[] {
  const isYielding = (parsed: ParsedDefinition): boolean => firstValue(parsed, 'X-YIELD') === 'TRUE';
  const keysOf = ({ definition: { kind }, names }: ParsedDefinition): string[] =>
    names.map((name) => `${kind} ${name.toLowerCase()}`);
  const firmKeys = new Set(definitions.filter((parsed) => !isYielding(parsed)).flatMap(keysOf));
  return definitions.filter((parsed) => !isYielding(parsed) || !keysOf(parsed).some((key) => firmKeys.has(key)));
}

/** Refuses a second definition of an OID, or of a name within its kind. */
function refuseDuplicates(definitions: readonly ParsedDefinition[]): void {
  const definitionsByKey = new Map<string, ParsedDefinition>();
  for (const parsed of definitions) {
    const { kind, id } = parsed.definition;
    const keys = [kind === 'matchingRuleUse' || kind === 'dITContentRules' ? `${kind} ${id}` : id];
    for (const name of parsed.names) keys.push(`${kind} ${name.toLowerCase()}`);
    for (const key of keys) {
      const earlier = definitionsByKey.get(key);
      if (earlier && earlier !== parsed) {
        const identifier = key === id ? `OID ${id}` : `name '${key.slice(key.indexOf(' ') + 1)}'`;
        const place = `${shortName(earlier.file)}:${earlier.line}`;
        fail(
          parsed,
          `${identifier} is already that of ${describe(earlier)} (${place}); remove one of the two or rename it`,
        );
      }
      definitionsByKey.set(key, parsed);
    }
  }
}

function linkSyntaxes(definitions: readonly ParsedDefinition[], context: Context): Map<string, SyntaxNode> {
  const code = syntaxCode(context);
  const syntaxes = new Map<string, SyntaxNode>();
  for (const parsed of definitions) {
    const oid = parsed.definition.id;
    const builtInOid = code.has(oid) ? oid : (firstValue(parsed, 'X-SUBST') ?? '');
    const builtInSyntax = code.get(builtInOid);
    if (!builtInSyntax)
      fail(parsed, `syntax ${oid} is not built in; add X-SUBST 'OID' of a built-in syntax to check its values as`);
    const description = firstValue(parsed, 'DESC') ?? oid;
    syntaxes.set(oid, {
      oid,
      description,
      ...builtInSyntax,
      builtInOid,
      definition: formatDefinition(parsed.definition),
    });
  }
  return syntaxes;
}

function linkRules(
  definitions: readonly ParsedDefinition[],
  syntaxes: ReadonlyMap<string, SyntaxNode>,
  context: Context,
) {
  const code = ruleCode(context);
  const rules = new Registry<RuleNode>();
  for (const parsed of definitions) {
    const oid = parsed.definition.id;
    const builtInOid = code.has(oid) ? oid : (firstValue(parsed, 'X-SUBST') ?? '');
    const builtInRule = code.get(builtInOid);
    if (!builtInRule)
      fail(parsed, `matching rule ${oid} is not built in; add X-SUBST 'OID' of a built-in rule to evaluate it as`);
    const syntax = firstValue(parsed, 'SYNTAX');
    if (syntax === undefined) fail(parsed, 'a matching rule needs SYNTAX; add that of its assertion value');
    if (!syntaxes.has(syntax)) fail(parsed, `syntax ${syntax} is not defined; add an ldapSyntaxes value for it`);
    const names = parsed.names;
    rules.add({
      oid,
      names,
      name: names[0] ?? oid,
      syntax,
      ...builtInRule,
      normalizeAssertion: builtInRule.normalizeAssertion ?? builtInRule.normalize,
      builtInOid,
      appliesTo: new Set(builtInRule.appliesTo),
      definition: formatDefinition(parsed.definition),
    });
  }
  return rules;
}

/**
 * Builds a schema from definitions in any order. Throws SchemaError at the first mistake. `warn` is given where no
 * directory uses the definitions yet: definitions without effect are then errors or warnings.
 */
export function link(declared: readonly SourceDefinition[], context: Context, warn: Warn | undefined): SchemaTables {
  const definitions = withoutYielding(declared.map(parse));
  refuseDuplicates(definitions);
  const definitionsByKind = new Map<DefinitionKind, ParsedDefinition[]>();
  for (const parsed of definitions) {
    const kind = parsed.definition.kind;
    const list = definitionsByKind.get(kind);
    if (list) list.push(parsed);
    else definitionsByKind.set(kind, [parsed]);
  }
  const definitionsOf = (kind: DefinitionKind): readonly ParsedDefinition[] => definitionsByKind.get(kind) ?? [];
  const syntaxes = linkSyntaxes(definitionsOf('ldapSyntaxes'), context);
  const rules = linkRules(definitionsOf('matchingRules'), syntaxes, context);
  const types = linkTypes(definitionsOf('attributeTypes'), syntaxes, rules, warn);
  const classes = linkClasses(definitionsOf('objectClasses'), types);
  const [structureRule] = definitionsOf('dITStructureRules');
  if (structureRule)
    fail(structureRule, `${describe(structureRule)}: a DIT structure rule cannot be put in force here; remove it`);
  const contentRules = linkContentRules(definitionsOf('dITContentRules'), types, classes);
  const publishedTexts = new Map<DefinitionKind, readonly string[]>();
  // A name form takes effect only in a structure rule (RFC 4512 §4.1.7.2).
  for (const kind of ['dITContentRules', 'nameForms'] as const) {
    publishedTexts.set(
      kind,
      definitionsOf(kind).map((parsed) => formatDefinition(parsed.definition)),
    );
  }
  return { syntaxes, rules, types, classes, contentRules, publishedTexts };
}

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

function linkClasses(definitions: readonly ParsedDefinition[], types: Registry<TypeNode>): Registry<ClassNode> {
  return new ClassLinker(definitions, types).classes;
}
