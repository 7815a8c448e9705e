import { formatDefinition } from './definition.js';
import { shortName } from './files.js';
import {
  type ClassNode,
  describe,
  fail,
  failUndefined,
  firstValue,
  hasKeyword,
  isCompatible,
  type ParsedDefinition,
  Registry,
  type RuleNode,
  type SyntaxNode,
  type TypeNode,
} from './nodes.js';
import type { MatchingRule, Usage } from './schema-types.js';
import { didYouMean } from './suggest.js';
import { LDAP_SYNTAX } from './syntaxes.js';

/**
 * OIDs of attribute types that always hold secrets, whatever their definitions say, such as Samba's password hashes,
 * Kerberos keys and the password of Active Directory. Other secret types are marked by X-SECRET 'TRUE'.
 */
const SECRET_TYPES = new Set([
  '2.5.4.35',
  '1.3.6.1.4.1.4203.1.3.4',
  '1.3.6.1.4.1.42.2.27.8.1.20',
  '1.3.6.1.4.1.7165.2.1.24',
  '1.3.6.1.4.1.7165.2.1.25',
  '1.3.6.1.4.1.7165.2.1.54',
  '2.16.840.1.113719.1.301.4.39.1',
  '1.2.840.113556.1.4.90',
]);

const USAGES = new Map<string, Usage>(
  (['userApplications', 'directoryOperation', 'distributedOperation', 'dSAOperation'] as const).map((usage) => [
    usage.toLowerCase(),
    usage,
  ]),
);

/** Links attribute types, superiors first. */
class TypeLinker {
  readonly types = new Registry<TypeNode>();
  private readonly definitions = new Map<string, ParsedDefinition>();
  private readonly beingLinked = new Set<ParsedDefinition>();
  private readonly syntaxes: ReadonlyMap<string, SyntaxNode>;
  private readonly rules: Registry<RuleNode>;
  private readonly warn: Warn | undefined;

  constructor(
    definitions: readonly ParsedDefinition[],
    syntaxes: ReadonlyMap<string, SyntaxNode>,
    rules: Registry<RuleNode>,
    warn: Warn | undefined,
  ) {
    this.syntaxes = syntaxes;
    this.rules = rules;
    this.warn = warn;
    for (const parsed of definitions) {
      this.definitions.set(parsed.definition.id, parsed);
      for (const name of parsed.names) this.definitions.set(name.toLowerCase(), parsed);
    }
    for (const parsed of definitions) this.link(parsed);
  }

  private link(parsed: ParsedDefinition): TypeNode {
    const linkedType = this.types.get(parsed.definition.id);
    if (linkedType) return linkedType;
    if (this.beingLinked.has(parsed)) fail(parsed, `${describe(parsed)} is above itself; break the circle of SUP`);
    this.beingLinked.add(parsed);
    const superior = this.superior(parsed);
    const { syntax, maxLength } = this.syntax(parsed, superior);
    const usage = this.usage(parsed, superior);
    const type: TypeNode = {
      index: this.types.definitions.length,
      oid: parsed.definition.id,
      names: parsed.names,
      name: parsed.names[0] ?? parsed.definition.id,
      description: firstValue(parsed, 'DESC'),
      obsolete: hasKeyword(parsed, 'OBSOLETE'),
      superior,
      subtypes: [],
      equality: this.rule(parsed, 'EQUALITY', 'equality') ?? superior?.equality,
      ordering: this.rule(parsed, 'ORDERING', 'ordering') ?? superior?.ordering,
      substrings: this.rule(parsed, 'SUBSTR', 'substrings') ?? superior?.substrings,
      syntax,
      maxLength,
      singleValue: hasKeyword(parsed, 'SINGLE-VALUE'),
      collective: hasKeyword(parsed, 'COLLECTIVE'),
      noUserModification: hasKeyword(parsed, 'NO-USER-MODIFICATION'),
      usage,
      operational: usage !== 'userApplications',
      secret: isSecret(parsed) || superior?.secret === true,
      definition: formatDefinition(parsed.definition),
    };
    for (let node: TypeNode | undefined = type; node; node = node.superior) node.subtypes.push(type);
    if (this.warn) for (const rule of [type.equality, type.ordering]) checkRule(parsed, rule, syntax, this.warn);
    this.types.add(type);
    this.beingLinked.delete(parsed);
    return type;
  }

  private superior(parsed: ParsedDefinition): TypeNode | undefined {
    const superiorName = firstValue(parsed, 'SUP');
    if (superiorName === undefined) return undefined;
    const superiorDefinition = this.definitions.get(superiorName.toLowerCase());
    return superiorDefinition
      ? this.link(superiorDefinition)
      : failUndefined(parsed, 'superior', superiorName, this.definitions.keys());
  }

  private syntax(
    parsed: ParsedDefinition,
    superior: TypeNode | undefined,
  ): { syntax: SyntaxNode; maxLength: number | undefined } {
    const text = firstValue(parsed, 'SYNTAX');
    if (text === undefined) {
      if (!superior)
        fail(parsed, `${describe(parsed)} has neither SYNTAX nor SUP; add one, such as SYNTAX ${LDAP_SYNTAX}.15`);
      return { syntax: superior.syntax as SyntaxNode, maxLength: superior.maxLength };
    }
    const match = /^([0-9.]+)(?:\{(\d{1,9})\})?$/.exec(text);
    if (!match) fail(parsed, `${describe(parsed)}: SYNTAX '${text}' is not an OID with an optional {length}`);
    const syntax = this.syntaxes.get(match[1]!);
    if (!syntax) {
      const hint = didYouMean(match[1]!, this.syntaxes.keys()) || `; ${LDAP_SYNTAX}.15 is the one for text`;
      fail(parsed, `${describe(parsed)}: syntax ${match[1]} is not defined${hint}`);
    }
    return { syntax, maxLength: match[2] === undefined ? undefined : Number(match[2]) };
  }

  private usage(parsed: ParsedDefinition, superior: TypeNode | undefined): Usage {
    const text = firstValue(parsed, 'USAGE') ?? 'userApplications';
    const usage = USAGES.get(text.toLowerCase());
    if (!usage) {
      const hint = didYouMean(text, USAGES.values()) || `; use one of ${[...USAGES.values()].join(', ')}`;
      fail(parsed, `${describe(parsed)}: USAGE '${text}' is unknown${hint}`);
    }
    if (superior && superior.usage !== usage) {
      fail(
        parsed,
        `${describe(parsed)}: USAGE differs from that of '${superior.name}' above it; add USAGE ${superior.usage}`,
      );
    }
    return usage;
  }

  private rule(parsed: ParsedDefinition, keyword: string, kind: MatchingRule['kind']): MatchingRule | undefined {
    const ruleName = firstValue(parsed, keyword);
    if (ruleName === undefined) return undefined;
    const rule = this.rules.get(ruleName);
    if (!rule) failUndefined(parsed, `matching rule of ${keyword}`, ruleName, this.rules.names());
    if (rule.kind !== kind)
      fail(parsed, `${describe(parsed)}: ${keyword} ${rule.name} is a rule for ${rule.kind}, not ${kind}`);
    return rule;
  }
}

/** Takes a warning about definitions or files. */
export type Warn = (message: string) => void;

/**
 * Refuses a rule without normal forms for values of the syntax, since filters would never find such values. Only warns
 * of a rule that compares values with assertions of another syntax, such as certificateExactMatch: schemas of other
 * servers name such rules for attributes with the syntax of the assertion.
 */
function checkRule(parsed: ParsedDefinition, rule: MatchingRule | undefined, syntax: SyntaxNode, warn: Warn): void {
  if (!rule || isCompatible(rule as RuleNode, syntax)) return;
  const { name, kind, appliesTo } = rule as RuleNode;
  const problem = `${describe(parsed)}: ${kind} rule ${name} does not go with syntax ${syntax.oid} (${syntax.description})`;
  if (appliesTo.has(rule.syntax)) fail(parsed, `${problem}; change one`);
  warn(`${shortName(parsed.file)}:${parsed.line}: ${problem}, so that it finds no value`);
}

function isSecret(parsed: ParsedDefinition): boolean {
  return SECRET_TYPES.has(parsed.definition.id) || firstValue(parsed, 'X-SECRET')?.toUpperCase() === 'TRUE';
}

export function linkTypes(
  definitions: readonly ParsedDefinition[],
  syntaxes: ReadonlyMap<string, SyntaxNode>,
  rules: Registry<RuleNode>,
  warn: Warn | undefined,
): Registry<TypeNode> {
  return new TypeLinker(definitions, syntaxes, rules, warn).types;
}

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
