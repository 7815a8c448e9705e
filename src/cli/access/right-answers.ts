import { CompiledAccess, type Entitlement } from '../../access/compiled-access.js';
import type { Mechanism, Requester } from '../../access/requester.js';
import { ATTRIBUTE_RIGHTS, type Right, rightSet } from '../../access/right.js';
import type { Rights } from '../../access/rights.js';
import type { AccessRules } from '../../access/rule.js';
import { UNRESTRICTED } from '../../partition/index.js';
import type { AttributeDescription, Dn } from '../../schema/schema-types.js';
import { CliError } from '../exit.js';
import type { OpenDirectory } from '../open-directory.js';

export const ANONYMOUS = 'anonymous';
/** Security strength in bits of the best cipher, and of a local socket. */
export const MAX_STRENGTH = 256;

export interface Connection {
  /** Undefined: a local socket. */
  readonly address: string | undefined;
  /** Strength of TLS in bits. 0: no TLS. */
  readonly strength: number;
  /** Bind mechanism of the user. */
  readonly mechanism: Mechanism;
}

export interface Answer {
  readonly right: Right;
  readonly granted: boolean;
  /** Names the deciding rules. */
  readonly reason: string;
}

/** Answers questions about rights under a set of rules, as the server would decide. */
export class RightsExplainer {
  readonly #directory: OpenDirectory;
  readonly #rules: AccessRules;
  readonly #compiled: CompiledAccess;
  readonly #cache = new Map<string, Entitlement>();

  constructor(directory: OpenDirectory, rules: AccessRules) {
    const { suffixes, context } = directory.partition;
    this.#directory = directory;
    this.#rules = rules;
    this.#compiled = new CompiledAccess(0, rules, { suffixes, compiler: context.compiler, reader: context.reader });
  }

  /** Returns the rights of a user DN, or of `anonymous`. */
  async rightsOf(as: Dn | typeof ANONYMOUS, { address, strength, mechanism }: Connection): Promise<Entitlement> {
    const key = [as === ANONYMOUS ? as : as.norm.toString('latin1'), address, strength, mechanism].join('\n');
    let known = this.#cache.get(key);
    if (!known) {
      const user = as === ANONYMOUS ? undefined : await this.#findUser(as);
      const confidential = strength > 0;
      known = await this.#computeRights({ user, address, strength, mechanism: user && mechanism, confidential });
      this.#cache.set(key, known);
    }
    return known;
  }

  async #findUser(dn: Dn): Promise<NonNullable<Requester['user']>> {
    const { partition, schema } = this.#directory;
    if (dn.norm.equals(schema.parseDn(partition.settings.adminDn).norm))
      throw new CliError('the administrator is above rules, and may do everything');
    const found = await partition.findRow(dn);
    if (!found) throw new CliError(`'${dn.text}' does not exist, so its rights cannot be explained`);
    return { id: found.id, dn };
  }

  async #computeRights(requester: Requester): Promise<Entitlement> {
    const isAsked = requester.user && this.#compiled.groups.length > 0;
    const names = isAsked ? await this.#directory.partition.groupsOf(requester.user) : new Set<string>();
    const inGroup = (group: Dn) => names.has(group.norm.toString('latin1'));
    return this.#compiled.entitle(requester, inGroup);
  }

  /** Explains each right on an entry and below it, or on an attribute. */
  async explain(rights: Rights, to: Dn, attribute: AttributeDescription | undefined): Promise<readonly Answer[]> {
    const entry = await this.#directory.partition.findVisible(to, UNRESTRICTED);
    const see = rights.explain(entry, undefined).find(({ right }) => right === 'see')!;
    const unseen = see.isGranted
      ? undefined
      : `the entry is not visible to this user: ${this.#describeDenial(see, undefined)}`;
    return rights.explain(entry, attribute).map((decision) => {
      const { right, isGranted, rules } = decision;
      if (unseen !== undefined && right !== 'see') return { right, granted: false, reason: unseen };
      return {
        right,
        granted: isGranted,
        reason: isGranted ? quoteAll(rules) : this.#describeDenial(decision, attribute),
      };
    });
  }

  #describeDenial(
    { right, rules }: { right: Right; rules: readonly string[] },
    on: AttributeDescription | undefined,
  ): string {
    if (rules.length === 0) return 'no rule grants it';
    const bit = rightSet(right);
    const denying = this.#rules.rules.filter(({ name, deny }) => rules.includes(name) && deny & bit);
    if (denying.length > 0) return `denied by ${quoteAll(rules)}`;
    if (!on?.type.secret) return `not given by ${quoteAll(rules)}`;
    return right === 'search'
      ? 'nobody searches for secrets'
      : `${quoteAll(rules)} gives it under TLS or by a socket of this machine alone`;
  }

  /** Returns the attributes of the entry with the rights on each. Empty when the entry is not visible. */
  async attributeRights(rights: Rights, to: Dn): Promise<readonly (readonly [AttributeDescription, number])[]> {
    const { partition } = this.#directory;
    const entry = await partition.findVisible(to, UNRESTRICTED);
    const { reader } = partition.context;
    reader.read(entry.row);
    const descriptions = reader.descriptions.slice(0, reader.attributeCount).map(({ description }) => description);
    const sight = rights.sightOf(entry);
    return sight.seen
      ? descriptions.map((description) => [description, sight.rightsOn(description) & ATTRIBUTE_RIGHTS])
      : [];
  }
}

function quoteAll(names: readonly string[]): string {
  return names.map((name) => `'${name}'`).join(', ');
}
