import type { Definition } from './definition.js';
import { SchemaError } from './schema-error.js';
import type { AttributeType, MatchingRule, ObjectClass, Syntax } from './schema-types.js';
import { didYouMean } from './suggest.js';
import { LDAP_SYNTAX } from './syntaxes.js';

/** The internal elements of a schema: the public interfaces with additional fields for the checks. */

export interface TypeNode extends AttributeType {
  /** Number of the type in this schema, from 0. Index into the tables of the entry check. */
  readonly index: number;
  readonly superior: TypeNode | undefined;
  readonly subtypes: TypeNode[];
}

/** Whether the type is `ancestor` or derived from it. */
export function isDerivedFrom(type: TypeNode, ancestor: AttributeType): boolean {
  for (let node: TypeNode | undefined = type; node; node = node.superior) if (node === ancestor) return true;
  return false;
}

export interface ClassNode extends ObjectClass {
  readonly superiors: readonly ClassNode[];
  readonly must: ReadonlySet<TypeNode>;
  readonly may: ReadonlySet<TypeNode>;
  /** This class and all its superiors. */
  readonly lineage: ReadonlySet<ClassNode>;
}

/** A matching rule with its definition and the syntaxes of the attributes that may use it. */
export interface RuleNode extends MatchingRule {
  readonly name: string;
  /** OID of the built-in rule: the rule's own OID or the OID in X-SUBST. */
  readonly builtInOid: string;
  readonly appliesTo: ReadonlySet<string>;
  readonly definition: string;
}

export interface SyntaxNode extends Syntax {
  /** OID of the built-in syntax: the syntax's own OID or the OID in X-SUBST. */
  readonly builtInOid: string;
  readonly definition: string;
}

/** Syntaxes whose values are ASCII, as arcs below `LDAP_SYNTAX`. */
const ASCII_SYNTAXES = [6, 7, 11, 24, 27, 36, 38, 44, 50, 53];
/** Arcs of further syntaxes that a rule can normalize, in addition to the rule's `appliesTo`, by rule. */
const ADDITIONAL_SYNTAXES: Readonly<Record<string, readonly number[]>> = {
  '2.5.13.20': [36, 44],
  '2.5.13.23': [12],
  '1.3.6.1.4.1.1466.109.114.1': ASCII_SYNTAXES,
  '1.3.6.1.4.1.1466.109.114.2': ASCII_SYNTAXES,
};
/** Rules that can normalize every text. */
const TEXT_RULES = new Set(['2.5.13.2', '2.5.13.3', '2.5.13.5', '2.5.13.6']);
const OCTET_RULES = new Set(['2.5.13.17', '2.5.13.18']);

/** Whether the rule has normal forms for values of the syntax, so that filters can find them. */
export function isCompatible(rule: RuleNode, syntax: SyntaxNode): boolean {
  if (rule.appliesTo.has(syntax.builtInOid) || OCTET_RULES.has(rule.builtInOid)) return true;
  if (TEXT_RULES.has(rule.builtInOid)) return !syntax.binary;
  return ADDITIONAL_SYNTAXES[rule.builtInOid]?.some((arc) => syntax.builtInOid === `${LDAP_SYNTAX}.${arc}`) === true;
}

/** Whether an extensible match may use the rule on the type (RFC 4511 §4.5.1.7.7). False for secrets. */
export function isSuitable(rule: RuleNode, type: AttributeType): boolean {
  if (type.secret) return false;
  const isOwnRule = rule === type.equality || rule === type.ordering || rule === type.substrings;
  return isOwnRule || rule.appliesTo.has((type.syntax as SyntaxNode).builtInOid);
}

/** A definition and its position in the source, for error messages. */
export interface ParsedDefinition {
  readonly definition: Definition;
  readonly names: readonly string[];
  readonly file: string;
  readonly line: number;
}

/** Definitions of one kind, by OID and by every name in any case. */
export class Registry<T extends { readonly oid: string; readonly names: readonly string[] }> {
  readonly definitions: T[] = [];
  private readonly itemsByName = new Map<string, T>();

  add(definition: T): void {
    this.definitions.push(definition);
    this.itemsByName.set(definition.oid, definition);
    for (const name of definition.names) {
      this.itemsByName.set(name, definition);
      this.itemsByName.set(name.toLowerCase(), definition);
    }
  }

  /** Looks up a definition by OID or name, in any case. */
  get(nameOrOid: string): T | undefined {
    return this.itemsByName.get(nameOrOid) ?? this.itemsByName.get(nameOrOid.toLowerCase());
  }

  *names(): Generator<string> {
    for (const definition of this.definitions) yield* definition.names;
  }
}

export function fail(parsed: ParsedDefinition, message: string): never {
  throw new SchemaError(message, parsed);
}

export function firstValue(parsed: ParsedDefinition, keyword: string): string | undefined {
  return parsed.definition.fields.get(keyword)?.[0];
}

export function hasKeyword(parsed: ParsedDefinition, keyword: string): boolean {
  return parsed.definition.fields.has(keyword);
}

export function describe(parsed: ParsedDefinition): string {
  const [name] = parsed.names;
  return name === undefined ? parsed.definition.id : `'${name}'`;
}

/** Reports an undefined reference: `label 'name' is not defined; did you mean …`. */
export function failUndefined(
  parsed: ParsedDefinition,
  label: string,
  name: string,
  candidates: Iterable<string>,
): never {
  const hint = didYouMean(name, candidates) || '; define it or correct the name';
  fail(parsed, `${describe(parsed)}: ${label} '${name}' is not defined${hint}`);
}
