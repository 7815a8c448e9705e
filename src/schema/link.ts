import type { Context } from './context.js';
import { DefinitionError, type DefinitionKind, formatDefinition, parseDefinition } from './definition.js';
import { type SourceDefinition, shortName } from './files.js';
import { linkClasses } from './link-classes.js';
import { type ContentRule, linkContentRules } from './link-content.js';
import { linkTypes } from './link-types.js';
import type { ClassNode, RuleNode, SyntaxNode, TypeNode } from './nodes.js';
import { describe, fail, firstValue, type ParsedDefinition, Registry } from './parsed.js';
import { ruleCode } from './rules.js';
import { SchemaError } from './schema-error.js';
import { syntaxCode } from './syntaxes.js';

export interface SchemaTables {
  readonly syntaxes: ReadonlyMap<string, SyntaxNode>;
  readonly rules: Registry<RuleNode>;
  readonly types: Registry<TypeNode>;
  readonly classes: Registry<ClassNode>;
  readonly contentRules: ReadonlyMap<ClassNode, ContentRule>;
  /** Canonical texts of definitions that are published without further processing, by kind. */
  readonly others: ReadonlyMap<DefinitionKind, readonly string[]>;
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

/** Refuses a second definition of an OID, or of a name within its kind. */
function refuseDuplicates(all: readonly ParsedDefinition[]): void {
  const seen = new Map<string, ParsedDefinition>();
  for (const parsed of all) {
    const { kind, id } = parsed.definition;
    const keys = [kind === 'matchingRuleUse' || kind === 'dITContentRules' ? `${kind} ${id}` : id];
    for (const name of parsed.names) keys.push(`${kind} ${name.toLowerCase()}`);
    for (const key of keys) {
      const first = seen.get(key);
      if (first && first !== parsed) {
        const what = key === id ? `OID ${id}` : `name '${key.slice(key.indexOf(' ') + 1)}'`;
        const where = `${shortName(first.file)}:${first.line}`;
        fail(parsed, `${what} is already that of ${describe(first)} (${where}); remove one of the two or rename it`);
      }
      seen.set(key, parsed);
    }
  }
}

function linkSyntaxes(all: readonly ParsedDefinition[], context: Context): Map<string, SyntaxNode> {
  const code = syntaxCode(context);
  const syntaxes = new Map<string, SyntaxNode>();
  for (const parsed of all) {
    const oid = parsed.definition.id;
    const builtIn = code.has(oid) ? oid : (firstValue(parsed, 'X-SUBST') ?? '');
    const known = code.get(builtIn);
    if (!known)
      fail(parsed, `syntax ${oid} is not built in; add X-SUBST 'OID' of a built-in syntax to check its values as`);
    const description = firstValue(parsed, 'DESC') ?? oid;
    syntaxes.set(oid, { oid, description, ...known, builtIn, definition: formatDefinition(parsed.definition) });
  }
  return syntaxes;
}

function linkRules(all: readonly ParsedDefinition[], syntaxes: ReadonlyMap<string, SyntaxNode>, context: Context) {
  const code = ruleCode(context);
  const rules = new Registry<RuleNode>();
  for (const parsed of all) {
    const oid = parsed.definition.id;
    const builtIn = code.has(oid) ? oid : (firstValue(parsed, 'X-SUBST') ?? '');
    const known = code.get(builtIn);
    if (!known)
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
      ...known,
      normalizeAssertion: known.normalizeAssertion ?? known.normalize,
      builtIn,
      appliesTo: new Set(known.appliesTo),
      definition: formatDefinition(parsed.definition),
    });
  }
  return rules;
}

/**
 * Builds a schema from definitions in any order. Throws SchemaError at the first mistake. `isNew`: whether no directory
 * uses the definitions yet; then useless definitions are errors, too.
 */
export function link(declared: readonly SourceDefinition[], context: Context, isNew: boolean): SchemaTables {
  const all = declared.map(parse);
  refuseDuplicates(all);
  const kinds = new Map<DefinitionKind, ParsedDefinition[]>();
  for (const parsed of all) {
    const kind = parsed.definition.kind;
    const list = kinds.get(kind);
    if (list) list.push(parsed);
    else kinds.set(kind, [parsed]);
  }
  const of = (kind: DefinitionKind): readonly ParsedDefinition[] => kinds.get(kind) ?? [];
  const syntaxes = linkSyntaxes(of('ldapSyntaxes'), context);
  const rules = linkRules(of('matchingRules'), syntaxes, context);
  const types = linkTypes(of('attributeTypes'), syntaxes, rules, isNew);
  const classes = linkClasses(of('objectClasses'), types);
  const [placed] = of('dITStructureRules');
  if (placed) fail(placed, `${describe(placed)}: a DIT structure rule cannot be put in force here; remove it`);
  const contentRules = linkContentRules(of('dITContentRules'), types, classes);
  const others = new Map<DefinitionKind, readonly string[]>();
  // A name form takes effect only in a structure rule (RFC 4512 §4.1.7.2).
  for (const kind of ['dITContentRules', 'nameForms'] as const) {
    others.set(
      kind,
      of(kind).map((parsed) => formatDefinition(parsed.definition)),
    );
  }
  return { syntaxes, rules, types, classes, contentRules, others };
}
