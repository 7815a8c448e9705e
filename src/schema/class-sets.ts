import { sameBytes } from '../bytes/compare.js';
import { BoundedMap } from '../cache/bounded-map.js';
import { LdapError } from '../ldap/ldap-error.js';
import type { ContentRule } from './link-types.js';
import type { ClassNode, Registry, TypeNode } from './nodes.js';
import { didYouMean, printable } from './suggest.js';

/** The requirements of a combination of object classes on entries (RFC 4512 §2.4, §4.1.6). Cached by `ClassSets`. */
export interface ClassSet {
  readonly structural: ClassNode;
  /** In the order of the values of objectClass. */
  readonly classes: readonly ClassNode[];
  readonly must: readonly TypeNode[];
  /** The DIT content rule of the structural class. */
  readonly rule: ContentRule | undefined;
  /** By `TypeNode.index`: 1 if a class or content rule allows the type and the content rule does not preclude it. */
  readonly allowedTypes: Uint8Array;
}

/** extensibleObject, which allows every user attribute (RFC 4512 §4.3). */
export const EXTENSIBLE = '1.3.6.1.4.1.1466.101.120.111';
const MAX_SETS = 1024;
const MAX_CLASSES = 256;
const MAX_NAME = 1024;

/** Caches the class sets of a schema by the values of objectClass. */
export class ClassSets {
  private readonly classes: Registry<ClassNode>;
  private readonly types: Registry<TypeNode>;
  private readonly rules: ReadonlyMap<ClassNode, ContentRule>;
  private readonly sets = new BoundedMap<string, ClassSet>(MAX_SETS);
  /** The values of the last lookup. In a bulk load, consecutive entries often have the same object classes. */
  private lastValues: readonly Buffer[] = [];
  private lastSet: ClassSet | undefined;

  constructor(classes: Registry<ClassNode>, types: Registry<TypeNode>, rules: ReadonlyMap<ClassNode, ContentRule>) {
    this.classes = classes;
    this.types = types;
    this.rules = rules;
  }

  /** Returns the class set for values of objectClass. Throws objectClassViolation or attributeOrValueExists. */
  get(values: readonly Buffer[]): ClassSet {
    if (this.lastSet && sameValues(values, this.lastValues)) return this.lastSet;
    const set = this.find(values);
    this.lastValues = values.map((value) => Buffer.from(value));
    this.lastSet = set;
    return set;
  }

  private find(values: readonly Buffer[]): ClassSet {
    if (values.length > MAX_CLASSES) {
      throw new LdapError(
        'objectClassViolation',
        `${values.length} object classes; at most ${MAX_CLASSES} are allowed`,
      );
    }
    const classes: ClassNode[] = [];
    for (const value of values) classes.push(this.classOf(value));
    const key = classes.map((node) => node.oid).join(' ');
    const cachedSet = this.sets.get(key);
    if (cachedSet) return cachedSet;
    const set = this.build(classes);
    this.sets.set(key, set);
    return set;
  }

  private classOf(value: Buffer): ClassNode {
    const className = value.length <= MAX_NAME ? value.toString('latin1') : '';
    const node = this.classes.get(className);
    if (node) return node;
    const hint = didYouMean(className, this.classes.names());
    throw new LdapError('objectClassViolation', `object class '${printable(className)}' is not in the schema${hint}`);
  }

  private build(classes: readonly ClassNode[]): ClassSet {
    if (new Set(classes).size < classes.length) {
      const twice = classes.find((node, i) => classes.indexOf(node) !== i)!;
      throw new LdapError('attributeOrValueExists', `object class '${twice.name}' is given twice`);
    }
    const lineage = new Set<ClassNode>();
    for (const node of classes) for (const superior of node.lineage) lineage.add(superior);
    const structural = structuralClass(classes, lineage);
    refuseLoneAbstract(classes, structural);
    const contentRule = this.rules.get(structural);
    if (contentRule) refuseOtherAuxiliary(classes, structural, contentRule);
    const allowedTypes = new Uint8Array(this.types.definitions.length);
    const must = new Set<TypeNode>(contentRule?.must);
    for (const node of lineage) {
      for (const type of node.must) must.add(type);
      for (const type of node.may) allowedTypes[type.index] = 1;
      if (node.oid === EXTENSIBLE)
        for (const type of this.types.definitions) if (!type.operational) allowedTypes[type.index] = 1;
    }
    for (const type of must) allowedTypes[type.index] = 1;
    for (const type of contentRule?.may ?? []) allowedTypes[type.index] = 1;
    for (const type of contentRule?.not ?? []) allowedTypes[type.index] = 0;
    return { structural, classes, must: [...must], rule: contentRule, allowedTypes };
  }
}

function sameValues(a: readonly Buffer[], b: readonly Buffer[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) {
    if (!sameBytes(a[i]!, b[i]!)) return false;
  }
  return true;
}

/** Returns the structural class that all other structural classes of the entry are superiors of (X.501 §8.3.2). */
function structuralClass(classes: readonly ClassNode[], allClasses: ReadonlySet<ClassNode>): ClassNode {
  const structural = [...allClasses].filter((node) => node.kind === 'STRUCTURAL');
  const lowest = structural.filter((node) => !structural.some((other) => other !== node && other.lineage.has(node)));
  const [first] = lowest;
  if (!first) {
    const classNames = classes.map((node) => node.name).join(', ') || 'none';
    const problem = `the entry has no structural object class (it has: ${classNames})`;
    throw new LdapError(
      'objectClassViolation',
      `${problem}; add one that says what it is, such as 'person' or 'organizationalUnit'`,
    );
  }
  if (lowest.length > 1) {
    const lowestNames = lowest.map((node) => `'${node.name}'`).join(' and ');
    throw new LdapError(
      'objectClassViolation',
      `structural object classes ${lowestNames} do not derive from one another; an entry is of one such chain, keep one of them`,
    );
  }
  return first;
}

/** Refuses an abstract class if the entry has no class derived from it. */
function refuseLoneAbstract(classes: readonly ClassNode[], structural: ClassNode): void {
  for (const node of classes) {
    if (node.kind !== 'ABSTRACT' || structural.lineage.has(node)) continue;
    if (classes.some((other) => other !== node && other.lineage.has(node))) continue;
    const problem = `abstract object class '${node.name}' is given without one derived from it`;
    throw new LdapError('objectClassViolation', `${problem}; add such a class or remove it`);
  }
}

function refuseOtherAuxiliary(classes: readonly ClassNode[], structural: ClassNode, { aux }: ContentRule): void {
  const unlistedClass = classes.find((node) => node.kind === 'AUXILIARY' && !aux.has(node));
  if (!unlistedClass) return;
  const problem = `the DIT content rule of '${structural.name}' does not list auxiliary object class '${unlistedClass.name}'`;
  throw new LdapError('objectClassViolation', `${problem}; leave it out`);
}
