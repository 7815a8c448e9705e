import type { Entry } from '../partition/model/directory-types.js';
import type { Partition } from '../partition/partition.js';
import type { AttributeType, Dn } from '../schema/schema-types.js';
import type { RuleFault } from './marked-yaml.js';
import { byPrecedence, weight } from './policy-choice.js';
import { isAtOrBelow } from './requester.js';
import type { AccessRules, PolicyRule, Target, Who } from './rule.js';

/** Result of checking parsed rules against a directory. */
export interface CheckedRules {
  readonly faults: readonly RuleFault[];
  /** Suspicious rules that may be intended, such as rules about entries that do not exist yet. */
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
    await check.who(who);
    await check.place(to.place);
  }
  for (const { name, line, who } of rules.limits) {
    check.subject = { line, name: `limit '${name}'` };
    await check.who(who);
  }
  for (const { name, line, policy, subtrees: bases, groups } of rules.passwordPolicies) {
    check.subject = { line, name: `password policy '${name}'` };
    await check.policy(policy, isPolicy);
    if (bases) await check.place({ scope: 'subtree', bases });
    for (const group of groups ?? []) await check.group(group);
  }
  check.order(rules.passwordPolicies);
  return check;
}

/** What the directory has at a DN: no entry, an entry, or an entry with group members. */
type EntryKind = 'missing' | 'entry' | 'group';

class Check implements CheckedRules {
  readonly faults: RuleFault[] = [];
  readonly warnings: RuleFault[] = [];
  subject = { line: 0, name: '' };
  readonly #partition: Checkable;
  readonly #admin: Dn;
  readonly #monitor: Dn;
  readonly #subschema: Dn;
  readonly #known = new Map<string, EntryKind>();

  constructor(partition: Checkable) {
    const { schema, settings } = partition;
    this.#partition = partition;
    this.#admin = schema.parseDn(settings.adminDn);
    this.#monitor = schema.parseDn('cn=Monitor');
    this.#subschema = schema.parseDn('cn=Subschema');
  }

  #fault(message: string): void {
    this.faults.push({ line: this.subject.line, message: `${this.subject.name}: ${message}` });
  }

  #warn(message: string): void {
    this.warnings.push({ line: this.subject.line, message: `${this.subject.name}: ${message}` });
  }

  async who({ dn, subtree, group, not }: Who): Promise<void> {
    for (const one of dn ?? []) await this.#user(one);
    for (const one of subtree ?? [])
      if (!this.#mayHaveEntriesAt(one)) this.#fault(`no user lies below '${one.text}': ${this.#suffixes()}`);
    for (const one of group ?? []) await this.group(one);
    if (not) await this.who(not);
  }

  async #user(dn: Dn): Promise<void> {
    if (dn.norm.equals(this.#admin.norm))
      this.#warn(`'${dn.text}' is the administrator, who is above rules; the rule says nothing of it`);
    else if ((await this.#find(dn)) === 'missing')
      this.#warn(`the user '${dn.text}' is not there; the rule holds once it is`);
  }

  async group(dn: Dn): Promise<void> {
    const found = await this.#find(dn);
    if (found === 'missing') this.#fault(`the group '${dn.text}' is not there; add it first, or correct its name`);
    if (found === 'entry')
      this.#warn(`'${dn.text}' has no member, uniqueMember or memberURL: nobody is in this group as yet`);
  }

  async place(place: Target['place']): Promise<void> {
    for (const base of place?.bases ?? []) {
      if (base.norm.equals(this.#monitor.norm)) continue;
      if (base.norm.equals(this.#subschema.norm))
        this.#fault('this never applies: cn=Subschema is shown to everybody, whatever the rules');
      else if (!this.#containsSuffix(place!.scope, base))
        this.#fault(`this never applies: '${base.text}' is below no suffix: ${this.#suffixes()}`);
      else if (this.#isBelowSuffix(base) && (await this.#find(base)) === 'missing')
        this.#warn(`'${base.text}' is not there; it holds once it is`);
    }
  }

  async policy(dn: Dn, isPolicy: (entry: Entry) => boolean): Promise<void> {
    const found = await this.#partition.findRow(dn);
    const entry = found && (await this.#partition.readById(found.id));
    if (!entry) this.#fault(`the policy '${dn.text}' is not there; add it first, or correct its name`);
    else if (!isPolicy(entry))
      this.#fault(`'${dn.text}' is no password policy; it needs the class pwdPolicy and pwdAttribute: userPassword`);
  }

  /** Reports policy rules that never apply, and warns where only the names decide which of two rules applies. */
  order(rules: readonly PolicyRule[]): void {
    const ofKind = new Map<string, PolicyRule>();
    const exactly = new Map<string, PolicyRule>();
    for (const { rule, subtree } of byPrecedence(rules)) {
      const kind = listKey([String(weight(rule)), dnKey(subtree)]);
      const accounts = listKey([
        kind,
        listKey(rule.groups?.map(dnKey)),
        listKey(rule.filters?.map(({ text }) => text)),
      ]);
      const same = exactly.get(accounts);
      const alike = ofKind.get(kind);
      this.subject = { line: rule.line, name: `password policy '${rule.name}'` };
      if (same && same !== rule)
        this.#fault(`this never applies: '${same.name}' is for the same accounts; take one of the two away`);
      else if (alike && alike !== rule)
        this.#warn(`for accounts that '${alike.name}' fits, too, that one comes first, by its name`);
      if (!same) exactly.set(accounts, rule);
      if (!alike) ofKind.set(kind, rule);
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
    const below = this.#partition.suffixes.filter((suffix) => isAtOrBelow(suffix, base));
    if (scope === 'one') return below.some(({ rdns }) => rdns.length === base.rdns.length + 1);
    return scope === 'subtree' && below.length > 0;
  }

  /** Looks up a DN. The result is cached, because rules name the same entries repeatedly. */
  async #find(dn: Dn): Promise<EntryKind> {
    const key = dn.norm.toString('latin1');
    let found = this.#known.get(key);
    if (!found) {
      const entry = await this.#partition.findRow(dn);
      found = !entry ? 'missing' : this.#hasMembers(entry.row) ? 'group' : 'entry';
      this.#known.set(key, found);
    }
    return found;
  }

  #hasMembers(row: Buffer): boolean {
    const reader = this.#partition.context.reader.read(row);
    for (let i = 0; i < reader.count; i++) if (isMemberType(reader.stored[i]!.description.type)) return true;
    return false;
  }
}

function dnKey(dn: Dn | undefined): string {
  return dn ? dn.norm.toString('latin1') : '';
}

/** An unambiguous map key for a list of texts. */
function listKey(texts: readonly string[] = []): string {
  return JSON.stringify(texts);
}

/** Whether the type or one of its supertypes is in `MEMBER_TYPES`. */
function isMemberType(type: AttributeType | undefined): boolean {
  return type !== undefined && (MEMBER_TYPES.has(type.oid) || isMemberType(type.superior));
}
