import type { AttributeType, MatchingRule, ObjectClass, Syntax, Usage } from './schema-types.js';
import { LDAP_SYNTAX } from './syntaxes.js';

/** The internal elements of a schema. They implement the public interfaces, with additional fields for the checks. */

export class TypeNode implements AttributeType {
  /** Number of the type in this schema, from 0. Index into the tables of the entry check. */
  readonly index: number;
  readonly oid: string;
  readonly names: readonly string[];
  readonly name: string;
  readonly description: string | undefined;
  readonly obsolete: boolean;
  readonly superior: TypeNode | undefined;
  readonly subtypes: TypeNode[] = [];
  readonly equality: MatchingRule | undefined;
  readonly ordering: MatchingRule | undefined;
  readonly substrings: MatchingRule | undefined;
  readonly syntax: Syntax;
  readonly maxLength: number | undefined;
  readonly singleValue: boolean;
  readonly collective: boolean;
  readonly noUserModification: boolean;
  readonly usage: Usage;
  readonly operational: boolean;
  readonly secret: boolean;
  readonly definition: string;

  constructor(
    fields: Omit<AttributeType, 'name' | 'subtypes' | 'operational' | 'superior'> & {
      index: number;
      superior: TypeNode | undefined;
    },
  ) {
    this.index = fields.index;
    this.oid = fields.oid;
    this.names = fields.names;
    this.name = fields.names[0] ?? fields.oid;
    this.description = fields.description;
    this.obsolete = fields.obsolete;
    this.superior = fields.superior;
    this.equality = fields.equality;
    this.ordering = fields.ordering;
    this.substrings = fields.substrings;
    this.syntax = fields.syntax;
    this.maxLength = fields.maxLength;
    this.singleValue = fields.singleValue;
    this.collective = fields.collective;
    this.noUserModification = fields.noUserModification;
    this.usage = fields.usage;
    this.operational = fields.usage !== 'userApplications';
    this.secret = fields.secret;
    this.definition = fields.definition;
    for (let type: TypeNode | undefined = this; type; type = type.superior) type.subtypes.push(this);
  }

  isA(ancestor: AttributeType): boolean {
    for (let type: TypeNode | undefined = this; type; type = type.superior) if (type === ancestor) return true;
    return false;
  }
}

export class ClassNode implements ObjectClass {
  readonly oid: string;
  readonly names: readonly string[];
  readonly name: string;
  readonly description: string | undefined;
  readonly obsolete: boolean;
  readonly superiors: readonly ClassNode[];
  readonly kind: ObjectClass['kind'];
  readonly must: ReadonlySet<TypeNode>;
  readonly may: ReadonlySet<TypeNode>;
  readonly definition: string;
  /** This class and all its superiors. */
  readonly lineage: ReadonlySet<ClassNode>;

  constructor(
    fields: Pick<ObjectClass, 'oid' | 'names' | 'description' | 'obsolete' | 'kind' | 'definition'> & {
      superiors: readonly ClassNode[];
      must: readonly TypeNode[];
      may: readonly TypeNode[];
    },
  ) {
    this.oid = fields.oid;
    this.names = fields.names;
    this.name = fields.names[0] ?? fields.oid;
    this.description = fields.description;
    this.obsolete = fields.obsolete;
    this.superiors = fields.superiors;
    this.kind = fields.kind;
    this.definition = fields.definition;
    const lineage = new Set<ClassNode>([this]);
    const must = new Set(fields.must);
    const may = new Set(fields.may);
    for (const superior of fields.superiors) {
      for (const inheritedClass of superior.lineage) lineage.add(inheritedClass);
      for (const type of superior.must) must.add(type);
      for (const type of superior.may) may.add(type);
    }
    for (const type of must) may.delete(type);
    this.lineage = lineage;
    this.must = must;
    this.may = may;
  }
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
