import type { Entry } from '../partition/model/directory-types.js';
import type { Partition } from '../partition/partition.js';
import type { AttributeType, Dn } from '../schema/schema-types.js';
import { byPrecedence, weight } from './compiled-access.js';
import type { RuleFault } from './marked-yaml.js';
import { isAtOrBelow } from './requester.js';
import type { AccessRules, PolicyRule, Target, Who } from './rule.js';

/** Result of checking parsed rules against a directory. */
export interface CheckedRules {
  readonly faults: readonly RuleFault[];
  /** Faults that may be intended, such as a rule about an entry that does not exist yet. The rules still apply. */
  readonly warnings: readonly RuleFault[];
}

type Checkable = Pick<Partition, 'findRow' | 'readById' | 'suffixes' | 'settings' | 'schema' | 'context'>;

/** OIDs of member, uniqueMember and memberURL: an entry with one of these attributes is a group. */
const MEMBER_TYPES = new Set(['2.5.4.31', '2.5.4.50', '2.16.840.1.113730.3.1.198']);

/** Checks rules against the entries and suffixes of a directory. */
export async function checkRules(
  rules: AccessRules,
  partition: Checkable,
  isPolicy: (entry: Entry) => boolean,
): Promise<CheckedRules> {
  const check = new Check(partition);
  for (const { name, line, who, to } of rules.rules) {
    check.subject = { line, name: `rule '${name}'` };
    await check.checkWho(who);
    await check.checkPlace(to.place);
  }
  for (const { name, line, who } of rules.limits) {
    check.subject = { line, name: `limit '${name}'` };
    await check.checkWho(who);
  }
  for (const { name, line, policy, subtrees: bases, groups } of rules.passwordPolicies) {
    check.subject = { line, name: `password policy '${name}'` };
    await check.checkPolicy(policy, isPolicy);
    if (bases) await check.checkPlace({ scope: 'subtree', bases });
    for (const group of groups ?? []) await check.checkGroup(group);
  }
  check.checkOrder(rules.passwordPolicies);
  return check;
}

/** What the directory has at a DN. `group`: an entry with an attribute of `MEMBER_TYPES`. */
type EntryKind = 'missing' | 'entry' | 'group';

class Check implements CheckedRules {
  readonly faults: RuleFault[] = [];
  readonly warnings: RuleFault[] = [];
  subject = { line: 0, name: '' };
  readonly #partition: Checkable;
  readonly #adminDn: Dn;
  readonly #monitorDn: Dn;
  readonly #subschemaDn: Dn;
  readonly #entryKinds = new Map<string, EntryKind>();

  constructor(partition: Checkable) {
    const { schema, settings } = partition;
    this.#partition = partition;
    this.#adminDn = schema.parseDn(settings.adminDn);
    this.#monitorDn = schema.parseDn('cn=Monitor');
    this.#subschemaDn = schema.parseDn('cn=Subschema');
  }

  #fault(message: string): void {
    this.faults.push({ line: this.subject.line, message: `${this.subject.name}: ${message}` });
  }

  #warn(message: string): void {
    this.warnings.push({ line: this.subject.line, message: `${this.subject.name}: ${message}` });
  }

  async checkWho({ dn, subtree, group, not }: Who): Promise<void> {
    for (const userDn of dn ?? []) await this.#checkUser(userDn);
    for (const ancestorDn of subtree ?? [])
      if (!this.#mayHaveEntriesAt(ancestorDn))
        this.#fault(`no user lies below '${ancestorDn.text}': ${this.#suffixes()}`);
    for (const groupDn of group ?? []) await this.checkGroup(groupDn);
    for (const one of not ?? []) await this.checkWho(one);
  }

  async #checkUser(dn: Dn): Promise<void> {
    if (dn.norm.equals(this.#adminDn.norm))
      this.#warn(`'${dn.text}' is the administrator, who is above rules; the rule says nothing of it`);
    else if ((await this.#findKind(dn)) === 'missing')
      this.#warn(`the user '${dn.text}' is not there; the rule holds once it is`);
  }

  async checkGroup(dn: Dn): Promise<void> {
    const entryKind = await this.#findKind(dn);
    if (entryKind === 'missing') this.#fault(`the group '${dn.text}' is not there; add it first, or correct its name`);
    if (entryKind === 'entry')
      this.#warn(`'${dn.text}' has no member, uniqueMember or memberURL: nobody is in this group as yet`);
  }

  async checkPlace(place: Target['place']): Promise<void> {
    for (const base of place?.bases ?? []) {
      if (base.norm.equals(this.#monitorDn.norm)) continue;
      if (base.norm.equals(this.#subschemaDn.norm))
        this.#fault('this never applies: cn=Subschema is shown to everybody, whatever the rules');
      else if (!this.#containsSuffix(place!.scope, base))
        this.#fault(`this never applies: '${base.text}' is below no suffix: ${this.#suffixes()}`);
      else if (this.#isBelowSuffix(base) && (await this.#findKind(base)) === 'missing')
        this.#warn(`'${base.text}' is not there; it holds once it is`);
    }
  }

  async checkPolicy(dn: Dn, isPolicy: (entry: Entry) => boolean): Promise<void> {
    const policyRow = await this.#partition.findRow(dn);
    const entry = policyRow && (await this.#partition.readById(policyRow.id));
    if (!entry) this.#fault(`the policy '${dn.text}' is not there; add it first, or correct its name`);
    else if (!isPolicy(entry))
      this.#fault(`'${dn.text}' is no password policy; it needs the class pwdPolicy and pwdAttribute: userPassword`);
  }

  /** Reports password policy rules that never apply. Warns where only the names decide the precedence. */
  checkOrder(rules: readonly PolicyRule[]): void {
    const rulesByKind = new Map<string, PolicyRule>();
    const rulesByAccounts = new Map<string, PolicyRule>();
    for (const { rule, subtree } of byPrecedence(rules)) {
      const kind = listKey([String(weight(rule)), dnKey(subtree)]);
      const accounts = listKey([
        kind,
        listKey(rule.groups?.map(dnKey)),
        listKey(rule.filters?.map(({ text }) => text)),
      ]);
      const equalRule = rulesByAccounts.get(accounts);
      const similarRule = rulesByKind.get(kind);
      this.subject = { line: rule.line, name: `password policy '${rule.name}'` };
      if (equalRule && equalRule !== rule)
        this.#fault(`this never applies: '${equalRule.name}' is for the same accounts; take one of the two away`);
      else if (similarRule && similarRule !== rule)
        this.#warn(`for accounts that '${similarRule.name}' fits, too, that one comes first, by its name`);
      if (!equalRule) rulesByAccounts.set(accounts, rule);
      if (!similarRule) rulesByKind.set(kind, rule);
    }
  }

  #suffixes(): string {
    return `this directory holds ${this.#partition.suffixes.map(({ text }) => `'${text}'`).join(', ')}`;
  }

  #isBelowSuffix(dn: Dn): boolean {
    return this.#partition.suffixes.some((suffix) => isAtOrBelow(dn, suffix));
  }

  /** Whether entries of the directory can be at or below the DN. */
  #mayHaveEntriesAt(dn: Dn): boolean {
    return this.#isBelowSuffix(dn) || this.#partition.suffixes.some((suffix) => isAtOrBelow(suffix, dn));
  }

  /** Whether a scope with a base above the suffixes contains a suffix. */
  #containsSuffix(scope: 'base' | 'one' | 'subtree', base: Dn): boolean {
    if (this.#isBelowSuffix(base)) return true;
    const suffixesBelow = this.#partition.suffixes.filter((suffix) => isAtOrBelow(suffix, base));
    if (scope === 'one') return suffixesBelow.some(({ rdns }) => rdns.length === base.rdns.length + 1);
    return scope === 'subtree' && suffixesBelow.length > 0;
  }

  /** Looks up the entry at a DN. Caches the result, because rules name the same entries repeatedly. */
  async #findKind(dn: Dn): Promise<EntryKind> {
    const key = dn.norm.toString('latin1');
    let entryKind = this.#entryKinds.get(key);
    if (!entryKind) {
      const entry = await this.#partition.findRow(dn);
      entryKind = !entry ? 'missing' : this.#hasMembers(entry.row) ? 'group' : 'entry';
      this.#entryKinds.set(key, entryKind);
    }
    return entryKind;
  }

  #hasMembers(row: Buffer): boolean {
    const reader = this.#partition.context.reader.read(row);
    for (let i = 0; i < reader.attributeCount; i++)
      if (isMemberType(reader.descriptions[i]!.description.type)) return true;
    return false;
  }
}

function dnKey(dn: Dn | undefined): string {
  return dn ? dn.norm.toString('latin1') : '';
}

/** Returns an unambiguous map key for a list of texts. */
function listKey(texts: readonly string[] = []): string {
  return JSON.stringify(texts);
}

/** Whether the type or one of its supertypes is in `MEMBER_TYPES`. */
function isMemberType(type: AttributeType | undefined): boolean {
  return type !== undefined && (MEMBER_TYPES.has(type.oid) || isMemberType(type.superior));
}
