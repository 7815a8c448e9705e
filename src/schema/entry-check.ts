import { LdapError } from '../ldap/ldap-error.js';
import type { ClassSet, ClassSets } from './class-sets.js';
import type { ClassNode, Registry, TypeNode } from './nodes.js';
import type { AttributeDescription, Ava, ObjectClass, Rdn } from './schema-types.js';

export interface CheckedAttribute {
  readonly description: AttributeDescription;
  readonly values: readonly Buffer[];
  /** Whether the values are those of the stored entry. They were checked before and are not checked again. */
  readonly unchanged?: boolean;
}

export interface CheckOptions {
  /** Allows NO-USER-MODIFICATION attributes. Set for writes by the server itself, import and restore. */
  readonly system?: boolean;
  /** false: skip the check that the entry contains the values of its RDN. */
  readonly naming?: boolean;
}

const OBJECT_CLASS = '2.5.4.0';
const MAX_PAIRWISE = 8;

/** Checks whole entries. Each schema has one checker; `check` allocates no memory for a valid entry. */
export class EntryChecker {
  private readonly sets: ClassSets;
  private readonly classes: Registry<ClassNode>;
  /** By `TypeNode.index`: number of the last check in which the type occurred. */
  private readonly lastRounds: Uint32Array;
  private round = 0;

  constructor(sets: ClassSets, classes: Registry<ClassNode>, types: number) {
    this.sets = sets;
    this.classes = classes;
    this.lastRounds = new Uint32Array(types);
  }

  /** Checks an entry against RFC 4512 §2. Returns the structural class; throws LdapError. */
  check(attributes: readonly CheckedAttribute[], rdn: Rdn, options: CheckOptions): ObjectClass {
    const set = this.sets.get(requireObjectClass(attributes).values);
    this.round = this.round === 0xffffffff ? this.restartRounds() : this.round + 1;
    for (let i = 0; i < attributes.length; i++) this.checkAttribute(attributes[i]!, set, options.system === true);
    for (let i = 0; i < set.must.length; i++) {
      const type = set.must[i]!;
      if (this.lastRounds[type.index] !== this.round) failMissing(type, set);
    }
    if (options.naming !== false) checkNaming(attributes, rdn);
    return set.structural;
  }

  private restartRounds(): number {
    this.lastRounds.fill(0);
    return 1;
  }

  private checkAttribute(attribute: CheckedAttribute, set: ClassSet, isSystem: boolean): void {
    const { description, values } = attribute;
    const type = description.type as TypeNode;
    this.lastRounds[type.index] = this.round;
    if (type.noUserModification && !isSystem) {
      throw new LdapError('constraintViolation', `attribute '${type.name}' is maintained by the server; leave it out`);
    }
    if (set.allowedTypes[type.index] === 0 && !type.operational) this.refuseType(type, set);
    if (isClassList(description) || attribute.unchanged) return;
    if (type.secret || (type.operational && description.options.length > 0)) refuseOptions(description);
    checkValues(description, values);
    if (type.oid === OBJECT_CLASS) this.requireClassNames(description, values);
  }

  /** RFC 4512 §3.3: the values of objectClass name classes, under options, too. */
  private requireClassNames(description: AttributeDescription, values: readonly Buffer[]): void {
    const index = values.findIndex((value) => !this.classes.get(value.toString('latin1')));
    if (index >= 0) failInvalid(description, values.length, index, 'names no object class of the schema');
  }

  private refuseType(type: TypeNode, set: ClassSet): never {
    const { rule, structural } = set;
    if (rule?.not.has(type)) {
      const problem = `the DIT content rule of '${structural.name}' precludes attribute '${type.name}'`;
      throw new LdapError('objectClassViolation', `${problem}; leave it out`);
    }
    const classNames = set.classes.map((node) => node.name).join(', ');
    const allows = (node: ClassNode) => node.may.has(type) || node.must.has(type);
    const subclass = this.classes.definitions
      .filter((node) => node.lineage.has(structural) && allows(node))
      .reduce<ClassNode | undefined>((best, node) => (best && best.may.size >= node.may.size ? best : node), undefined);
    const auxiliaryClass = this.classes.definitions
      .filter((node) => node.kind === 'AUXILIARY' && allows(node) && (!rule || rule.aux.has(node)))
      .reduce<ClassNode | undefined>(
        (best, node) => (best && countOtherRequired(best, type) <= countOtherRequired(node, type) ? best : node),
        undefined,
      );
    const addedClass = auxiliaryClass ?? subclass;
    const hint = addedClass ? `; add object class '${addedClass.name}' or leave it out` : '; leave it out';
    throw new LdapError(
      'objectClassViolation',
      `attribute '${type.name}' is not allowed by the object classes ${classNames}${hint}`,
    );
  }
}

/** Number of attributes that the class requires in addition to `type`. */
function countOtherRequired(node: ClassNode, type: TypeNode): number {
  return node.must.size - (node.must.has(type) ? 1 : 0);
}

/**
 * Refuses options on secrets and operational attributes. With an option, a secret would be a separate attribute, which
 * a change of the secret leaves untouched; the same holds for attributes that the server maintains. `binary` does not
 * make a separate attribute, but is meaningless for secrets.
 */
export function refuseOptions(description: AttributeDescription): void {
  if (!hasOptions(description)) return;
  const { name, secret } = description.type;
  throw new LdapError(
    'constraintViolation',
    `attribute '${name}' ${secret ? 'holds secrets' : 'is operational'} and takes no options; give '${name}' alone`,
  );
}

/** Whether the description has options, including `binary`. */
export function hasOptions({ options, binary }: AttributeDescription): boolean {
  return binary || options.length > 0;
}

/** Whether the attribute is the list of the entry's classes: objectClass without options. */
function isClassList({ type, options }: AttributeDescription): boolean {
  return type.oid === OBJECT_CLASS && options.length === 0;
}

function requireObjectClass(attributes: readonly CheckedAttribute[]): CheckedAttribute {
  for (let i = 0; i < attributes.length; i++) {
    if (isClassList(attributes[i]!.description)) return attributes[i]!;
  }
  throw new LdapError(
    'objectClassViolation',
    "the entry has no attribute 'objectClass'; say what it is, such as 'person'",
  );
}

function failMissing(type: TypeNode, set: ClassSet): never {
  const requiringClass = set.classes.find((node) => node.must.has(type)) ?? set.structural;
  const requirement = requiringClass.must.has(type)
    ? `object class '${requiringClass.name}'`
    : `the DIT content rule of '${requiringClass.name}'`;
  throw new LdapError('objectClassViolation', `${requirement} requires attribute '${type.name}'; add it`);
}

/** RFC 4512 §2.3: the entry has to contain all attribute values of its RDN. */
function checkNaming(attributes: readonly CheckedAttribute[], rdn: Rdn): void {
  for (let i = 0; i < rdn.avas.length; i++) {
    const ava = rdn.avas[i]!;
    if (!hasAva(attributes, ava)) {
      throw new LdapError(
        'namingViolation',
        `the value of '${ava.type.name}' in the entry's RDN is not among its attributes; add it to '${ava.type.name}'`,
      );
    }
  }
}

function hasAva(attributes: readonly CheckedAttribute[], ava: Ava): boolean {
  for (let i = 0; i < attributes.length; i++) {
    const { description, values } = attributes[i]!;
    if (description.type !== ava.type || description.options.length > 0) continue;
    for (let k = 0; k < values.length; k++) if (matchesAva(values[k]!, ava)) return true;
  }
  return false;
}

function matchesAva(value: Buffer, ava: Ava): boolean {
  if (value.equals(ava.value)) return true;
  const norm = ava.type.equality?.normalize(value);
  return norm?.equals(ava.norm) === true;
}

/**
 * Checks the values of an attribute: syntax (invalidAttributeSyntax), number (constraintViolation, or protocolError if
 * there is no value) and duplicates (attributeOrValueExists). A bound such as `{64}` is the minimum length that servers
 * should support (RFC 4512 §4.1.2) and is not enforced.
 */
export function checkValues(description: AttributeDescription, values: readonly Buffer[]): void {
  const { type } = description;
  if (values.length === 0) throw new LdapError('protocolError', `attribute '${description.text}' has no value`);
  for (let i = 0; i < values.length; i++) {
    const wrong = type.syntax.check(values[i]!);
    if (wrong !== undefined) failInvalid(description, values.length, i, wrong);
  }
  if (values.length === 1) return;
  if (type.singleValue) {
    throw new LdapError(
      'constraintViolation',
      `attribute '${description.text}' has ${values.length} values; it may have one`,
    );
  }
  const duplicateIndex =
    values.length <= MAX_PAIRWISE ? findDuplicate(description, values) : findDuplicateHashed(description, values);
  if (duplicateIndex >= 0) {
    throw new LdapError(
      'attributeOrValueExists',
      `value ${duplicateIndex + 1} of '${description.text}' equals an earlier one`,
    );
  }
}

function failInvalid(description: AttributeDescription, count: number, index: number, wrong: string): never {
  const valueText = count === 1 ? 'the value' : `value ${index + 1}`;
  throw new LdapError('invalidAttributeSyntax', `${valueText} of '${description.text}' ${wrong}`);
}

/** Returns the normal form of a value for comparisons; the value itself if no equality rule fits it (RFC 4512 §2.2). */
function comparedForm(description: AttributeDescription, value: Buffer): Buffer {
  return description.type.equality?.normalize(value) ?? value;
}

/** Returns the index of a value that equals an earlier value, or -1. */
function findDuplicate(description: AttributeDescription, values: readonly Buffer[]): number {
  const normalForms: Buffer[] = [];
  for (let i = 0; i < values.length; i++) {
    const normalForm = comparedForm(description, values[i]!);
    for (let k = 0; k < i; k++) if (normalForms[k]!.equals(normalForm)) return i;
    normalForms.push(normalForm);
  }
  return -1;
}

function findDuplicateHashed(description: AttributeDescription, values: readonly Buffer[]): number {
  const normalForms = new Set<string>();
  for (let i = 0; i < values.length; i++) {
    normalForms.add(comparedForm(description, values[i]!).toString('latin1'));
    if (normalForms.size === i) return i;
  }
  return -1;
}
