import { isUtf8 } from 'node:buffer';
import { fileURLToPath } from 'node:url';
import { LdapError } from '../ldap/ldap-error.js';
import { ClassSets, EXTENSIBLE } from './class-sets.js';
import { Describer, descriptionMatches, isWellFormed, requireRequestable } from './describer.js';
import { ancestorOf, type DnContext, MAX_DN, nextComma, parseBelow, parseDn, parseLoose } from './dn.js';
import { joinRdns, rdnNorm } from './dn-norm.js';
import { type CheckedAttribute, type CheckOptions, checkValues, EntryChecker, refuseOptions } from './entry-check.js';
import {
  readDefinitions,
  readSchemaFile,
  readSchemaFolders,
  type SourceDefinition,
  schemaFiles,
  shortName,
  systemMacros,
} from './files.js';
import { Doorkeeper, GenerationCache } from './generations.js';
import { link, type SchemaTables } from './link.js';
import type { Warn } from './link-types.js';
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
import { type NisSchema, type SchemaSource, toStorableSource } from './source.js';
import { parseStateOptions } from './state-options.js';
import { type SchemaAttribute, subschema } from './subschema.js';
import { printable, unknownAttribute } from './suggest.js';
import type { Context } from './syntaxes.js';

export interface SchemaOptions {
  /** Folder of the built-in definitions. Default: `schema/` of the package. */
  readonly folder?: string | undefined;
  /** Folders with `*.ldif` files of the operator. */
  readonly extra?: readonly string[] | undefined;
  /** The NIS schema to use. In rfc2307bis, posixGroup is auxiliary. */
  readonly nis?: NisSchema | undefined;
  /** Takes warnings of definitions without effect and of files that are not read. */
  readonly warn?: Warn;
}

/** Path of the package's `schema/`, relative to `dist/src/schema/`. */
const BUILT_IN = fileURLToPath(new URL('../../../schema', import.meta.url));
const NIS_FILES: Record<NisSchema, string> = { rfc2307: 'rfc2307-nis.ldif', rfc2307bis: 'rfc2307bis-nis.ldif' };
const CASE_IGNORE = '2.5.13.2';
const DN_CACHE_SIZE = 4096;
const MAX_NESTED_DNS = 4;
/** The largest number of ancestors of a new DN that are looked up in the cache. */
const MAX_ANCESTOR_LOOKUPS = 4;

/** The schema of a server. Immutable once loaded. */
export class Schema {
  /** The options and files that a directory stores. The built-in definitions are not among them. */
  readonly source: SchemaSource;
  private readonly tables: SchemaTables;
  private readonly describer: Describer;
  private readonly checker: EntryChecker;
  private readonly dnContext: DnContext;
  private readonly dnCache = new GenerationCache<Dn>(DN_CACHE_SIZE);
  private readonly recentDns = new Doorkeeper();
  /** Parent of the most recently parsed DN. */
  private lastParent: Dn | undefined;
  private readonly oidCache = new Map<string, Buffer>();
  /** Nesting depth of the DN that is being parsed: values of a DN can contain DNs. */
  private nestingDepth = 0;
  /** Whether callers discard errors. Error messages are then built without suggestions, which are expensive. */
  private discardsErrors = false;
  private subschemaAttributes: readonly SchemaAttribute[] | undefined;

  /** Reads the definitions. Throws SchemaError with file and line at the first mistake. */
  static load(options: SchemaOptions = {}): Schema {
    const warn = options.warn ?? (() => undefined);
    const files = readSchemaFolders(options.extra ?? [], warn);
    return Schema.create({ nis: options.nis ?? 'rfc2307', files }, options.folder ?? BUILT_IN, warn);
  }

  /** Loads the built-in definitions selected by `source` and the files in `source`. Throws like `load`. */
  static of(source: SchemaSource, folder = BUILT_IN): Schema {
    return Schema.create(source, folder, undefined);
  }

  private static create(source: SchemaSource, folder: string, warn: Warn | undefined): Schema {
    const unusedFile = NIS_FILES[source.nis === 'rfc2307bis' ? 'rfc2307' : 'rfc2307bis'];
    const builtInFiles = schemaFiles(folder).filter((file) => shortName(file) !== unusedFile);
    const macros = systemMacros();
    const ownDefinitions = source.files.flatMap(({ name, text }) => readDefinitions(text, name, macros));
    return new Schema([...builtInFiles.flatMap(readSchemaFile), ...ownDefinitions], toStorableSource(source), warn);
  }

  private constructor(declared: readonly SourceDefinition[], source: SchemaSource, warn: Warn | undefined) {
    this.source = source;
    this.tables = link(declared, this.context(), warn);
    const fallback = this.tables.rules.get(CASE_IGNORE);
    if (!fallback)
      throw new SchemaError(`the matching rule caseIgnoreMatch is not defined; add rfc4517 to the schema folder`);
    const { types, classes, contentRules } = this.tables;
    this.dnContext = {
      attribute: (name) => types.get(name),
      attributeNames: () => (this.discardsErrors ? [] : types.names()),
      fallback,
    };
    this.describer = new Describer(types);
    this.checker = new EntryChecker(new ClassSets(classes, types, contentRules), classes, types.definitions.length);
  }

  private context(): Context {
    return {
      parseDn: (text) => this.parseNested(text),
      resolveOid: (text) => this.resolveOid(text),
      dnNorm: (text) => this.undefinedOnError(() => this.parseNested(text).norm),
      composeNorm: (rdns) => this.composeNorm(rdns),
      looseNorm: (text) => this.undefinedOnError(() => this.composeNorm(parseLoose(text, this.dnContext))),
    };
  }

  /** Looks up an attribute type by name or OID, in any case, without options. */
  attribute(nameOrOid: string): AttributeType | undefined {
    return this.tables.types.get(nameOrOid);
  }

  attributes(): Iterable<AttributeType> {
    return this.tables.types.definitions;
  }

  objectClass(nameOrOid: string): ObjectClass | undefined {
    return this.tables.classes.get(nameOrOid);
  }

  objectClasses(): Iterable<ObjectClass> {
    return this.tables.classes.definitions;
  }

  rule(nameOrOid: string): MatchingRule | undefined {
    return this.tables.rules.get(nameOrOid);
  }

  syntax(oid: string): Syntax | undefined {
    return this.tables.syntaxes.get(oid);
  }

  /** Whether an extensible match may use the rule on the type (RFC 4512 §4.1.4). False for secrets. */
  ruleApplies(rule: MatchingRule, type: AttributeType): boolean {
    return isSuitable(rule as RuleNode, type);
  }

  /** Parses an attribute description; undefined if unknown or malformed. Equal descriptions are the same object. */
  describe(text: string): AttributeDescription | undefined {
    return this.describer.describe(text);
  }

  /** Like `describe`, but throws LdapError: undefinedAttributeType, or protocolError for malformed text. */
  requireDescription(text: string): AttributeDescription {
    const description = this.describer.describe(text);
    if (description) return description;
    if (!isWellFormed(text))
      throw new LdapError('protocolError', `'${printable(text)}' is not an attribute description`);
    const typeName = text.split(';', 1)[0]!;
    throw new LdapError('undefinedAttributeType', unknownAttribute(typeName, this.tables.types.names()));
  }

  /** Like `requireDescription`, for an attribute that a request compares with a value. */
  requireComparable(text: string): AttributeDescription {
    const description = this.requireDescription(text);
    requireRequestable(description);
    return description;
  }

  /**
   * Like `requireComparable`, for attributes that are written. Refuses options on secrets and operational attributes,
   * option ranges (RFC 3866 §2.2) and state options of another server.
   */
  requireStorable(text: string): AttributeDescription {
    const description = this.requireDescription(text);
    const { type } = description;
    if (type.secret) refuseOptions(description);
    requireRequestable(description);
    if (description.options.length === 0) return description;
    const stateOptions = parseStateOptions(text);
    if (stateOptions) {
      const problem = `under an option that another server keeps of a value's changes; give '${printable(stateOptions.text)}'`;
      throw new LdapError('undefinedAttributeType', `attribute '${type.name}' stands ${problem}`);
    }
    if (type.operational) refuseOptions(description);
    for (const option of description.options) {
      if (!option.endsWith('-')) continue;
      const problem = `'${option}' stands for several options and can only be asked for; name one`;
      throw new LdapError('undefinedAttributeType', `attribute '${description.type.name}': ${problem}`);
    }
    return description;
  }

  /** RFC 4512 §2.5: whether `stored` equals `requested`, has a subtype of its type, or has further options. */
  matches(requested: AttributeDescription, stored: AttributeDescription): boolean {
    return requested === stored || descriptionMatches(requested, stored);
  }

  /** Parses a DN (RFC 4514, RFC 2253) of at most 64 KiB and 1,000 RDNs. Throws LdapError invalidDNSyntax. */
  parseDn(text: string): Dn {
    if (text.length > MAX_DN || !this.recentDns.isRecent(text)) return this.parseNewDn(text);
    const cachedDn = this.dnCache.get(text);
    if (cachedDn) return cachedDn;
    const dn = this.parseNewDn(text);
    this.dnCache.set(text, dn);
    return dn;
  }

  /**
   * Like `parseDn`, for DNs that are unlikely to occur again. Caches not the DN, but its ancestors: of further DNs with
   * the same ancestor only the RDNs below it are parsed. Consecutive DNs mostly have the same parent.
   */
  parseNewDn(text: string): Dn {
    if (text.length > MAX_DN)
      throw new LdapError('invalidDNSyntax', `DN of over ${MAX_DN} bytes; at most that many are allowed`);
    const commas: number[] = [];
    for (
      let comma = nextComma(text, 0);
      comma >= 0 && commas.length < MAX_ANCESTOR_LOOKUPS;
      comma = nextComma(text, comma + 1)
    ) {
      const isFirstComma = commas.push(comma) === 1;
      const ancestor =
        isFirstComma && this.isLastParent(text, comma + 1) ? this.lastParent : this.dnCache.get(text.slice(comma + 1));
      if (!ancestor || ancestor.rdns.length === 0) continue;
      const dn = parseBelow(text, comma, ancestor, this.dnContext);
      if (isFirstComma) this.lastParent = ancestor;
      else this.keepAncestors(text, dn, commas.slice(0, -1));
      return dn;
    }
    const dn = parseDn(text, this.dnContext);
    this.keepAncestors(text, dn, commas);
    return dn;
  }

  /** Whether `text.slice(start)` is the text of `lastParent`. */
  private isLastParent(text: string, start: number): boolean {
    const parent = this.lastParent?.text;
    return parent !== undefined && text.length - start === parent.length && text.endsWith(parent);
  }

  /** Caches the ancestors of a DN by their text in `text`. `commas[i]` is the offset after RDN `i`. */
  private keepAncestors(text: string, dn: Dn, commas: readonly number[]): void {
    for (let i = 0; i < commas.length; i++) this.dnCache.set(text.slice(commas[i]! + 1), ancestorOf(dn, i + 1));
  }

  /** Parses a DN in UTF-8. The buffer is not retained. */
  parseDnBytes(utf8: Buffer): Dn {
    if (utf8.length > MAX_DN)
      throw new LdapError('invalidDNSyntax', `DN of ${utf8.length} bytes; at most ${MAX_DN} are allowed`);
    if (!isUtf8(utf8)) throw new LdapError('invalidDNSyntax', 'the DN is not UTF-8');
    return this.parseDn(utf8.toString('utf8'));
  }

  /** Parses a DN with exactly one RDN. */
  parseRdn(text: string): Rdn {
    const { rdns } = this.parseDn(text);
    if (rdns.length !== 1) throw new LdapError('invalidDNSyntax', `one RDN expected, ${rdns.length} given`);
    return rdns[0]!;
  }

  /** Parses a DN in a value, possibly nested in other DNs. */
  private parseNested(text: string): Dn {
    if (this.nestingDepth === MAX_NESTED_DNS) throw new LdapError('invalidDNSyntax', 'DNs within DNs, nested too deep');
    this.nestingDepth++;
    try {
      return this.parseDn(text);
    } finally {
      this.nestingDepth--;
    }
  }

  /** Runs `parse` and returns its result; undefined if it throws an LdapError. */
  private undefinedOnError(parse: () => Buffer | undefined): Buffer | undefined {
    const { discardsErrors } = this;
    this.discardsErrors = true;
    try {
      return parse();
    } catch (error) {
      if (error instanceof LdapError) return undefined;
      throw error;
    } finally {
      this.discardsErrors = discardsErrors;
    }
  }

  private composeNorm(rdns: readonly (readonly { oid: string; value: Buffer }[])[]): Buffer | undefined {
    const norms: Buffer[] = [];
    for (const rdn of rdns) {
      const rdnForms: { oid: string; form: Buffer }[] = [];
      for (const { oid, value } of rdn) {
        const type = this.tables.types.get(oid);
        const normalForm = type?.equality ? type.equality.normalize(value) : prepareIgnore(value);
        rdnForms.push({ oid: type?.oid ?? oid.toLowerCase(), form: normalForm ?? value });
      }
      norms.push(rdnNorm(rdnForms));
    }
    return joinRdns(norms);
  }

  /** Returns the numeric OID of a name. An object class takes precedence over an attribute type of the same name. */
  private resolveOid(text: string): Buffer | undefined {
    const cachedOid = this.oidCache.get(text);
    if (cachedOid) return cachedOid;
    const trimmed = text.trim();
    const { classes, types, rules } = this.tables;
    const oid = (classes.get(trimmed) ?? types.get(trimmed) ?? rules.get(trimmed))?.oid;
    if (oid === undefined) return /^\d+(?:\.\d+)+$/.test(trimmed) ? Buffer.from(trimmed, 'latin1') : undefined;
    const oidBytes = Buffer.from(oid, 'latin1');
    if (this.oidCache.size < DN_CACHE_SIZE) this.oidCache.set(text, oidBytes);
    return oidBytes;
  }

  /**
   * Checks a whole entry: values, object classes, required and allowed attributes, server-maintained attributes, and
   * the presence of the RDN's values. `attributes` contains each description once. Returns the structural class. Throws
   * an LdapError with a remedy.
   */
  checkEntry(attributes: readonly CheckedAttribute[], rdn: Rdn, options: CheckOptions = {}): ObjectClass {
    return this.checker.check(attributes, rdn, options);
  }

  checkValues(description: AttributeDescription, values: readonly Buffer[]): void {
    checkValues(description, values);
  }

  /** Throws LdapError objectClassModsProhibited if the structural class changes (X.501 §8.3.2). */
  checkObjectClassChange(oldClass: ObjectClass, newClass: ObjectClass): void {
    if (oldClass === newClass) return;
    const problem = `the structural object class is '${oldClass.name}' and cannot become '${newClass.name}'`;
    throw new LdapError('objectClassModsProhibited', `${problem}; add the entry anew`);
  }

  /** The attributes of cn=Subschema (RFC 4512 §4.2). */
  subschema(): readonly SchemaAttribute[] {
    this.subschemaAttributes ??= subschema(this.tables);
    return this.subschemaAttributes;
  }

  /** Returns the types that the class requires or allows, for `@name` in attribute lists (RFC 4529 §3). */
  expandClass(nameOrOid: string): readonly AttributeType[] | undefined {
    const { classes, types } = this.tables;
    const node = classes.get(nameOrOid);
    if (!node) return undefined;
    for (const { oid } of node.lineage)
      if (oid === EXTENSIBLE) return types.definitions.filter((type) => !type.operational);
    return [...node.must, ...node.may];
  }
}
