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

export interface RightAnswer {
  readonly right: Right;
  readonly isGranted: boolean;
  /** Names the deciding rules. */
  readonly reason: string;
}

/** Answers questions about rights under a set of rules, as the server would decide. */
export class RightsExplainer {
  readonly #directory: OpenDirectory;
  readonly #rules: AccessRules;
  readonly #compiledAccess: CompiledAccess;
  readonly #entitlements = new Map<string, Entitlement>();

  constructor(directory: OpenDirectory, rules: AccessRules) {
    const { suffixes, context } = directory.partition;
    const { compiler, reader } = context;
    this.#directory = directory;
    this.#rules = rules;
    this.#compiledAccess = new CompiledAccess(0, rules, { suffixes, compiler, reader });
  }

  /** Returns the rights of a user DN, or of `anonymous`. */
  async rightsOf(identity: Dn | typeof ANONYMOUS, { address, strength, mechanism }: Connection): Promise<Entitlement> {
    const userKey = identity === ANONYMOUS ? identity : identity.norm.toString('latin1');
    const key = [userKey, address, strength, mechanism].join('\n');
    let entitlement = this.#entitlements.get(key);
    if (!entitlement) {
      const user = identity === ANONYMOUS ? undefined : await this.#findUser(identity);
      const channel = { address, strength, confidential: strength > 0 };
      entitlement = await this.#computeRights({ user, mechanism: user && mechanism, ...channel });
      this.#entitlements.set(key, entitlement);
    }
    return entitlement;
  }

  async #findUser(dn: Dn): Promise<NonNullable<Requester['user']>> {
    const { partition, schema } = this.#directory;
    if (dn.norm.equals(schema.parseDn(partition.settings.adminDn).norm))
      throw new CliError('the administrator is above rules, and may do everything');
    const row = await partition.findRow(dn);
    if (!row) throw new CliError(`'${dn.text}' does not exist, so its rights cannot be explained`);
    return { id: row.id, dn };
  }

  async #computeRights(requester: Requester): Promise<Entitlement> {
    const needsGroups = requester.user && this.#compiledAccess.groups.length > 0;
    const groupKeys = needsGroups ? await this.#directory.partition.groupsOf(requester.user) : new Set<string>();
    const isInGroup = (group: Dn) => groupKeys.has(group.norm.toString('latin1'));
    return this.#compiledAccess.entitle(requester, isInGroup);
  }

  /** Explains each right on an entry and below it, or on an attribute. */
  async explain(rights: Rights, target: Dn, attribute?: AttributeDescription): Promise<readonly RightAnswer[]> {
    const entry = await this.#directory.partition.findVisible(target, UNRESTRICTED);
    const visibility = rights.explain(entry, undefined).find(({ right }) => right === 'see')!;
    const invisibleReason = visibility.isGranted
      ? undefined
      : `the entry is not visible to this user: ${this.#describeDenial(visibility, undefined)}`;
    return rights.explain(entry, attribute).map((decision) => {
      const { right, isGranted, rules } = decision;
      if (invisibleReason !== undefined && right !== 'see') return { right, isGranted: false, reason: invisibleReason };
      return { right, isGranted, reason: isGranted ? quoteAll(rules) : this.#describeDenial(decision, attribute) };
    });
  }

  #describeDenial(
    { right, rules }: { right: Right; rules: readonly string[] },
    attribute?: AttributeDescription,
  ): string {
    if (rules.length === 0) return 'no rule grants it';
    const rightBit = rightSet(right);
    const denyingRules = this.#rules.rules.filter(({ name, deny }) => rules.includes(name) && deny & rightBit);
    if (denyingRules.length > 0) return `denied by ${quoteAll(rules)}`;
    if (!attribute?.type.secret) return `not given by ${quoteAll(rules)}`;
    return right === 'search'
      ? 'nobody searches for secrets'
      : `${quoteAll(rules)} gives it under TLS or by a socket of this machine alone`;
  }

  /** Returns the attributes of the entry with the rights on each. Empty when the entry is not visible. */
  async attributeRights(rights: Rights, target: Dn): Promise<readonly (readonly [AttributeDescription, number])[]> {
    const { partition } = this.#directory;
    const entry = await partition.findVisible(target, UNRESTRICTED);
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
