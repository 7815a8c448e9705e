import type { Asker, Mechanism } from '../../access/asker.js';
import { CompiledAccess, type Entitled } from '../../access/compiled-access.js';
import { OF_ATTRIBUTE, type Right, rightSet } from '../../access/right.js';
import type { Rights } from '../../access/rights.js';
import type { AccessRules } from '../../access/rule.js';
import { UNRESTRICTED } from '../../partition/index.js';
import type { AttributeDescription, Dn } from '../../schema/schema-types.js';
import { CliError } from '../exit.js';
import type { OpenDirectory } from '../open-directory.js';

export const ANONYMOUS = 'anonymous';
/** Of the best cipher, and of a socket of this machine. */
export const FULL_STRENGTH = 256;

/** By which way a client comes. */
export interface Way {
  /** Undefined: by a socket of this machine. */
  readonly address: string | undefined;
  /** Bits of TLS; 0: without. */
  readonly strength: number;
  /** By which a user has bound. */
  readonly mechanism: Mechanism;
}

/** Whether a right is given, and why. */
export interface Answer {
  readonly right: Right;
  readonly given: boolean;
  /** Names the rules that decide. */
  readonly why: string;
}

/** Answers who may do what under a set of rules, as the server would. */
export class RightAnswers {
  readonly #directory: OpenDirectory;
  readonly #rules: AccessRules;
  readonly #compiled: CompiledAccess;
  readonly #entitled = new Map<string, Entitled>();

  constructor(directory: OpenDirectory, rules: AccessRules) {
    const { suffixes, context } = directory.partition;
    this.#directory = directory;
    this.#rules = rules;
    this.#compiled = new CompiledAccess(0, rules, { suffixes, compiler: context.compiler, reader: context.reader });
  }

  /** `as`: a user's DN, or `anonymous`. */
  async entitled(as: Dn | typeof ANONYMOUS, { address, strength, mechanism }: Way): Promise<Entitled> {
    const key = [as === ANONYMOUS ? as : as.norm.toString('latin1'), address, strength, mechanism].join('\n');
    let known = this.#entitled.get(key);
    if (!known) {
      const user = as === ANONYMOUS ? undefined : await this.#user(as);
      const confidential = strength > 0;
      known = await this.#rightsOf({ user, address, strength, mechanism: user && mechanism, confidential });
      this.#entitled.set(key, known);
    }
    return known;
  }

  async #user(dn: Dn): Promise<NonNullable<Asker['user']>> {
    const { partition, schema } = this.#directory;
    if (dn.norm.equals(schema.parseDn(partition.settings.adminDn).norm))
      throw new CliError('the administrator is above rules, and may do everything');
    const found = await partition.findRow(dn);
    if (!found) throw new CliError(`'${dn.text}' is not there, so that nobody can ask as this user`);
    return { id: found.id, dn };
  }

  async #rightsOf(asker: Asker): Promise<Entitled> {
    const isAsked = asker.user && this.#compiled.groups.length > 0;
    const names = isAsked ? await this.#directory.partition.groupsOf(asker.user) : new Set<string>();
    const inGroup = (group: Dn) => names.has(group.norm.toString('latin1'));
    return this.#compiled.entitle(asker, inGroup);
  }

  /** Of each right on the entry and below it, or on an attribute. */
  async answers(rights: Rights, to: Dn, attribute: AttributeDescription | undefined): Promise<readonly Answer[]> {
    const entry = await this.#directory.partition.findVisible(to, UNRESTRICTED);
    const see = rights.explain(entry, undefined).find(({ right }) => right === 'see')!;
    const unseen = see.given ? undefined : `the entry is not there for who asks: ${this.#whyNot(see, undefined)}`;
    return rights.explain(entry, attribute).map((reason) => {
      if (unseen !== undefined && reason.right !== 'see') return { ...reason, given: false, why: unseen };
      return { ...reason, why: reason.given ? quoted(reason.rules) : this.#whyNot(reason, attribute) };
    });
  }

  #whyNot({ right, rules }: { right: Right; rules: readonly string[] }, on: AttributeDescription | undefined): string {
    if (rules.length === 0) return 'no rule grants it';
    const bit = rightSet(right);
    const denying = this.#rules.rules.filter(({ name, deny }) => rules.includes(name) && deny & bit);
    if (denying.length > 0) return `denied by ${quoted(rules)}`;
    if (!on?.type.secret) return `not given by ${quoted(rules)}`;
    return right === 'search'
      ? 'nobody searches for secrets'
      : `${quoted(rules)} gives it under TLS or by a socket of this machine alone`;
  }

  /** The attributes that the entry has, with the rights on each; none where the entry is not seen. */
  async onAttributes(rights: Rights, to: Dn): Promise<readonly (readonly [AttributeDescription, number])[]> {
    const { partition } = this.#directory;
    const entry = await partition.findVisible(to, UNRESTRICTED);
    const { reader } = partition.context;
    reader.read(entry.row);
    const descriptions = reader.stored.slice(0, reader.count).map(({ description }) => description);
    const sight = rights.of(entry);
    return sight.seen ? descriptions.map((description) => [description, sight.on(description) & OF_ATTRIBUTE]) : [];
  }
}

function quoted(names: readonly string[]): string {
  return names.map((name) => `'${name}'`).join(', ');
}
