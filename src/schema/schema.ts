import { isUtf8 } from 'node:buffer';
import { fileURLToPath } from 'node:url';
import { LdapError } from '../ldap/ldap-error.js';
import { ClassSets, EXTENSIBLE } from './class-sets.js';
import type { Context } from './context.js';
import { Describer, descriptionMatches, isWellFormed, requireAskable } from './describer.js';
import { ancestorOf, type DnContext, MAX_DN, nextComma, parseBelow, parseDn, parseLoose } from './dn.js';
import { joinRdns, rdnNorm } from './dn-norm.js';
import { type CheckedAttribute, type CheckOptions, checkValues, EntryChecker, refuseOptions } from './entry-check.js';
import {
  type Declared,
  readDefinitions,
  readSchemaFile,
  readSchemaFolders,
  schemaFiles,
  shortName,
  systemMacros,
} from './files.js';
import { Doorkeeper, TwoGenerations } from './generations.js';
import { link, type Tables } from './link.js';
import { isSuitable, type RuleNode } from './nodes.js';
import { prepareIgnore } from './prepare.js';
import { SchemaError } from './schema-error.js';
import type {
  AttributeDescription,
  AttributeType,
  Dn,
  MatchingRule,
  ObjectClass,
  Rdn,
  Syntax,
} from './schema-types.js';
import { type NisSchema, type SchemaSource, storable } from './source.js';
import { stateOptionsOf } from './state-options.js';
import { type SchemaAttribute, subschema } from './subschema.js';
import { didYouMean, shown } from './suggest.js';

export interface SchemaOptions {
  /** Folder of the built-in definitions; the package's `schema/` where absent. */
  readonly folder?: string | undefined;
  /** The operator's folders of `*.ldif`. */
  readonly extra?: readonly string[] | undefined;
  /** Which of the two NIS schemas: in rfc2307bis posixGroup is auxiliary. */
  readonly nis?: NisSchema | undefined;
}

/** From `dist/src/schema/` up to the package. */
const BUILT_IN = fileURLToPath(new URL('../../../schema', import.meta.url));
const NIS_FILES: Record<NisSchema, string> = { rfc2307: 'rfc2307-nis.ldif', rfc2307bis: 'rfc2307bis-nis.ldif' };
const CASE_IGNORE = '2.5.13.2';
const KEPT_DNS = 4096;
const MAX_NESTED_DNS = 4;
/** Ancestors of a new DN that are looked for among those known. */
const TRIED = 4;

/** The schema of a server: fixed once loaded. */
export class Schema {
  /** What a directory remembers of it. */
  readonly source: SchemaSource;
  private readonly tables: Tables;
  private readonly describer: Describer;
  private readonly checker: EntryChecker;
  private readonly dnContext: DnContext;
  private readonly dns = new TwoGenerations<Dn>(KEPT_DNS);
  private readonly dnsSeen = new Doorkeeper();
  /** Parent of the DN that was parsed last. */
  private lastParent: Dn | undefined;
  private readonly oids = new Map<string, Buffer>();
  /** DNs within values of DNs being parsed. */
  private nested = 0;
  /** Nobody will read the error: no time is spent on suggestions. */
  private quiet = false;
  private published: readonly SchemaAttribute[] | undefined;

  /** Reads the definitions. Throws SchemaError, which names file and line, at the first mistake. */
  static load(options: SchemaOptions = {}): Schema {
    const files = readSchemaFolders(options.extra ?? []);
    return Schema.made({ nis: options.nis ?? 'rfc2307', files }, options.folder ?? BUILT_IN, true);
  }

  /** The built-in definitions that the source names, and its own files. Throws as `load`. */
  static of(source: SchemaSource, folder = BUILT_IN): Schema {
    return Schema.made(source, folder, false);
  }

  private static made(source: SchemaSource, folder: string, isNew: boolean): Schema {
    const left = NIS_FILES[source.nis === 'rfc2307bis' ? 'rfc2307' : 'rfc2307bis'];
    const builtIn = schemaFiles(folder).filter((file) => shortName(file) !== left);
    const macros = systemMacros();
    const own = source.files.flatMap(({ name, text }) => readDefinitions(text, name, macros));
    return new Schema([...builtIn.flatMap(readSchemaFile), ...own], storable(source), isNew);
  }

  private constructor(declared: readonly Declared[], source: SchemaSource, isNew: boolean) {
    this.source = source;
    this.tables = link(declared, this.context(), isNew);
    const fallback = this.tables.rules.get(CASE_IGNORE);
    if (!fallback)
      throw new SchemaError(`the matching rule caseIgnoreMatch is not defined; add rfc4517 to the schema folder`);
    const { types, classes, contentRules } = this.tables;
    this.dnContext = {
      attribute: (name) => types.get(name),
      attributeNames: () => (this.quiet ? [] : types.names()),
      fallback,
    };
    this.describer = new Describer(types);
    this.checker = new EntryChecker(new ClassSets(classes, types, contentRules), classes, types.all.length);
  }

  private context(): Context {
    return {
      parseDn: (text) => this.parseNested(text),
      resolveOid: (text) => this.resolveOid(text),
      dnNorm: (text) => this.attempt(() => this.parseNested(text).norm),
      composeNorm: (rdns) => this.composeNorm(rdns),
      looseNorm: (text) => this.attempt(() => this.composeNorm(parseLoose(text, this.dnContext))),
    };
  }

  /** By name or OID, any case, without options. */
  attribute(nameOrOid: string): AttributeType | undefined {
    return this.tables.types.get(nameOrOid);
  }

  attributes(): Iterable<AttributeType> {
    return this.tables.types.all;
  }

  objectClass(nameOrOid: string): ObjectClass | undefined {
    return this.tables.classes.get(nameOrOid);
  }

  objectClasses(): Iterable<ObjectClass> {
    return this.tables.classes.all;
  }

  rule(nameOrOid: string): MatchingRule | undefined {
    return this.tables.rules.get(nameOrOid);
  }

  syntax(oid: string): Syntax | undefined {
    return this.tables.syntaxes.get(oid);
  }

  /**
   * Whether an extensible match may use the rule on attributes of the type (matchingRuleUse, RFC 4512 §4.1.4). Never on
   * secrets.
   */
  ruleApplies(rule: MatchingRule, type: AttributeType): boolean {
    return isSuitable(rule as RuleNode, type);
  }

  /**
   * The description, the same object for the same description; undefined when its type is unknown or the text
   * malformed.
   */
  describe(text: string): AttributeDescription | undefined {
    return this.describer.describe(text);
  }

  /** `describe`, or LdapError undefinedAttributeType, or protocolError when the text is malformed. */
  requireDescription(text: string): AttributeDescription {
    const description = this.describer.describe(text);
    if (description) return description;
    if (!isWellFormed(text)) throw new LdapError('protocolError', `'${shown(text)}' is not an attribute description`);
    const name = text.split(';', 1)[0]!;
    const hint = didYouMean(name, this.tables.types.names());
    throw new LdapError('undefinedAttributeType', `attribute '${shown(name)}' is not in the schema${hint}`);
  }

  /** As `requireDescription`, of what a request compares. */
  requireAsked(text: string): AttributeDescription {
    const description = this.requireDescription(text);
    requireAskable(description);
    return description;
  }

  /**
   * As `requireAsked`, of what is to be stored: no option of a secret or an operational attribute, no range of options
   * (RFC 3866 §2.2), no state option of another server.
   */
  requireStorable(text: string): AttributeDescription {
    const description = this.requireDescription(text);
    const { type } = description;
    if (type.secret) refuseOptions(description);
    requireAskable(description);
    if (description.options.length === 0) return description;
    const state = stateOptionsOf(text);
    if (state) {
      const why = `under an option that another server keeps of a value's changes; give '${shown(state.text)}'`;
      throw new LdapError('undefinedAttributeType', `attribute '${type.name}' stands ${why}`);
    }
    if (type.operational) refuseOptions(description);
    for (const option of description.options) {
      if (!option.endsWith('-')) continue;
      const why = `'${option}' stands for several options and can only be asked for; name one`;
      throw new LdapError('undefinedAttributeType', `attribute '${description.type.name}': ${why}`);
    }
    return description;
  }

  /** RFC 4512 §2.5: `stored` is `wanted`, of a type below its type, or has further options. */
  matches(wanted: AttributeDescription, stored: AttributeDescription): boolean {
    return wanted === stored || descriptionMatches(wanted, stored);
  }

  /**
   * RFC 4514, and what RFC 2253 writes. At most 64 KiB and 1,000 RDNs. Throws LdapError invalidDNSyntax that says where
   * and why.
   */
  parseDn(text: string): Dn {
    if (text.length > MAX_DN || !this.dnsSeen.knows(text)) return this.parseNewDn(text);
    const known = this.dns.get(text);
    if (known) return known;
    const dn = this.parseNewDn(text);
    this.dns.set(text, dn);
    return dn;
  }

  /**
   * `parseDn` of a DN that will hardly come again: it is not kept. DNs share ancestors: those are parsed once, and what
   * stands below them alone after that. Those that follow each other mostly have one parent.
   */
  parseNewDn(text: string): Dn {
    if (text.length > MAX_DN)
      throw new LdapError('invalidDNSyntax', `DN of over ${MAX_DN} bytes; at most that many are allowed`);
    const commas: number[] = [];
    for (let at = nextComma(text, 0); at >= 0 && commas.length < TRIED; at = nextComma(text, at + 1)) {
      const first = commas.push(at) === 1;
      const ancestor = first && this.isLastParent(text, at + 1) ? this.lastParent : this.dns.get(text.slice(at + 1));
      if (!ancestor || ancestor.rdns.length === 0) continue;
      const dn = parseBelow(text, at, ancestor, this.dnContext);
      if (first) this.lastParent = ancestor;
      else this.keepAncestors(text, dn, commas.slice(0, -1));
      return dn;
    }
    const dn = parseDn(text, this.dnContext);
    this.keepAncestors(text, dn, commas);
    return dn;
  }

  /** Whether `lastParent` is what `text` has from `start` on. */
  private isLastParent(text: string, start: number): boolean {
    const parent = this.lastParent?.text;
    return parent !== undefined && text.length - start === parent.length && text.endsWith(parent);
  }

  /** Under the text that was given; `commas[i]` ends the RDN `i` of it. */
  private keepAncestors(given: string, dn: Dn, commas: readonly number[]): void {
    for (let i = 0; i < commas.length; i++) this.dns.set(given.slice(commas[i]! + 1), ancestorOf(dn, i + 1));
  }

  /** `parseDn` of UTF-8; the buffer is not kept. */
  parseDnBytes(utf8: Buffer): Dn {
    if (utf8.length > MAX_DN)
      throw new LdapError('invalidDNSyntax', `DN of ${utf8.length} bytes; at most ${MAX_DN} are allowed`);
    if (!isUtf8(utf8)) throw new LdapError('invalidDNSyntax', 'the DN is not UTF-8');
    return this.parseDn(utf8.toString('utf8'));
  }

  /** One RDN, as `parseDn`. */
  parseRdn(text: string): Rdn {
    const { rdns } = this.parseDn(text);
    if (rdns.length !== 1) throw new LdapError('invalidDNSyntax', `one RDN expected, ${rdns.length} given`);
    return rdns[0]!;
  }

  /** A DN that is a value, perhaps in another DN, perhaps in that … */
  private parseNested(text: string): Dn {
    if (this.nested === MAX_NESTED_DNS) throw new LdapError('invalidDNSyntax', 'DNs within DNs, nested too deep');
    this.nested++;
    try {
      return this.parseDn(text);
    } finally {
      this.nested--;
    }
  }

  /** Undefined where `parse` throws an LdapError. */
  private attempt(parse: () => Buffer | undefined): Buffer | undefined {
    const { quiet } = this;
    this.quiet = true;
    try {
      return parse();
    } catch (error) {
      if (error instanceof LdapError) return undefined;
      throw error;
    } finally {
      this.quiet = quiet;
    }
  }

  private composeNorm(rdns: readonly (readonly { oid: string; value: Buffer }[])[]): Buffer | undefined {
    const norms: Buffer[] = [];
    for (const rdn of rdns) {
      const parts: { oid: string; form: Buffer }[] = [];
      for (const { oid, value } of rdn) {
        const type = this.tables.types.get(oid);
        const form = type?.equality ? type.equality.normalize(value) : prepareIgnore(value);
        parts.push({ oid: type?.oid ?? oid.toLowerCase(), form: form ?? value });
      }
      norms.push(rdnNorm(parts));
    }
    return joinRdns(norms);
  }

  /** A name's numeric OID; an object class comes before an attribute type of the same name. */
  private resolveOid(text: string): Buffer | undefined {
    const known = this.oids.get(text);
    if (known) return known;
    const name = text.trim();
    const { classes, types, rules } = this.tables;
    const oid = (classes.get(name) ?? types.get(name) ?? rules.get(name))?.oid;
    if (oid === undefined) return /^\d+(?:\.\d+)+$/.test(name) ? Buffer.from(name, 'latin1') : undefined;
    const form = Buffer.from(oid, 'latin1');
    if (this.oids.size < KEPT_DNS) this.oids.set(text, form);
    return form;
  }

  /**
   * Every check on a whole entry: values, object classes, what they require and allow, server-maintained attributes,
   * and that the RDN's values are present. `attributes` holds each description once. Returns the structural class.
   * Throws the LdapError that fits, saying what to do.
   */
  checkEntry(attributes: readonly CheckedAttribute[], rdn: Rdn, options: CheckOptions = {}): ObjectClass {
    return this.checker.check(attributes, rdn, options);
  }

  /** The checks of one attribute's values alone. */
  checkValues(description: AttributeDescription, values: readonly Buffer[]): void {
    checkValues(description, values);
  }

  /** An entry keeps its structural class (X.501 §8.3.2): LdapError objectClassModsProhibited. */
  checkObjectClassChange(before: ObjectClass, after: ObjectClass): void {
    if (before === after) return;
    const what = `the structural object class is '${before.name}' and cannot become '${after.name}'`;
    throw new LdapError('objectClassModsProhibited', `${what}; add the entry anew`);
  }

  /** The attributes of cn=Subschema (RFC 4512 §4.2). */
  subschema(): readonly SchemaAttribute[] {
    this.published ??= subschema(this.tables);
    return this.published;
  }

  /**
   * What `@name` in a list of attributes asks for (RFC 4529 §3): the types that the class requires and allows;
   * undefined when it is unknown.
   */
  expandClass(nameOrOid: string): readonly AttributeType[] | undefined {
    const { classes, types } = this.tables;
    const node = classes.get(nameOrOid);
    if (!node) return undefined;
    for (const { oid } of node.lineage) if (oid === EXTENSIBLE) return types.all.filter((type) => !type.operational);
    return [...node.must, ...node.may];
  }
}
