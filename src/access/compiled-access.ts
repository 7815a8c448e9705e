import { BoundedMap } from '../cache/bounded-map.js';
import type { EntryReader } from '../partition/model/entry-reader.js';
import { UNRESTRICTED } from '../partition/model/viewer.js';
import type { FilterCompiler } from '../partition/read/filter/filter-compiler.js';
import type { Dn } from '../schema/schema-types.js';
import { type CompiledRule, compileRule, filterCondition } from './conditions.js';
import { Places } from './places.js';
import { decide, type IsMember, isAtOrBelow, type Requester } from './requester.js';
import { Rights } from './rights.js';
import type { AccessRules, Limits, PolicyRule, Who } from './rule.js';

/** The parts of a directory that compiled rules use. */
export interface CompileContext {
  readonly suffixes: readonly Dn[];
  readonly compiler: FilterCompiler;
  /** Parses rows for filters and conditions. Each use overwrites the state of the previous use. */
  readonly reader: EntryReader;
}

/** Rights and limits of one requester. */
export interface Entitlement {
  readonly rights: Rights;
  readonly limits: Limits;
}

/** A set of access rules, compiled for a directory. `entitle` returns the rights and limits of one requester. */
export class CompiledAccess {
  readonly version: number;
  /** The groups that rules and limits name. The server looks up each requester's membership in these groups. */
  readonly groups: readonly Dn[];
  readonly passwordPolicies: PolicyChoice;
  readonly #rules: AccessRules;
  readonly #ruleList: readonly CompiledRule[];
  readonly #places: Places;
  readonly #context: CompileContext;
  /** Cached memberships in `groups`. A new set of rules starts with an empty cache. */
  readonly membershipCache = new MembershipCache();

  constructor(version: number, rules: AccessRules, context: CompileContext) {
    this.version = version;
    this.#rules = rules;
    this.#context = context;
    this.#ruleList = rules.rules.map((rule) => compileRule(context.compiler, rule));
    this.#places = new Places(rules.rules, context.suffixes);
    this.passwordPolicies = new PolicyChoice(rules.passwordPolicies, context.compiler);
    const groups = new Map<string, Dn>();
    for (const { who } of [...rules.rules, ...rules.limits]) addGroups(who, groups);
    this.groups = [...groups.values()];
  }

  entitle(requester: Requester, inGroup: IsMember): Entitlement {
    const rights = new Rights(this.version, this.#ruleList, this.#places, this.#context.reader, requester, inGroup);
    return { rights, limits: this.#limitsOf(requester, inGroup) };
  }

  /** Merges all limits that apply to the requester, taking the wider value of each. */
  #limitsOf(requester: Requester, inGroup: IsMember): Limits {
    const result: Record<string, number> = {};
    for (const { who, limits } of this.#rules.limits) {
      if (decide(who, requester, inGroup) !== true) continue;
      for (const [name, value] of Object.entries(limits))
        result[name] = name in result ? widerLimit(result[name]!, value) : value;
    }
    return result;
  }
}

/** The wider of two limits; 0 means no limit. */
function widerLimit(a: number, b: number): number {
  return a === 0 || b === 0 ? 0 : Math.max(a, b);
}

function addGroups(who: Who, groups: Map<string, Dn>): void {
  for (const group of who.group ?? []) groups.set(group.norm.toString('latin1'), group);
  for (const not of who.not ?? []) addGroups(not, groups);
}

const MAX_MEMBERS = 10_000;
/** Memberships of a user in more groups than this are not cached. */
const MAX_GROUPS = 32;

/**
 * Caches the groups, of those that rules name, that a user is a member of, for one version of the group data. Where
 * rules name groups, these lookups are most of the cost of computing rights. The rights themselves are computed anew
 * for each session: caching the rights of some thousand users costs more in garbage collection than it saves.
 */
class MembershipCache {
  readonly #memberships = new BoundedMap<string, ReadonlySet<string>>(MAX_MEMBERS);
  #version: bigint | undefined;

  /** Returns the groups of a user. `member` identifies the user's entry in its current state, by name and version. */
  get(version: bigint, member: string): ReadonlySet<string> | undefined {
    return version === this.#version ? this.#memberships.get(member) : undefined;
  }

  set(version: bigint, member: string, groups: ReadonlySet<string>): void {
    if (version !== this.#version) this.#memberships.clear();
    this.#version = version;
    if (groups.size <= MAX_GROUPS) this.#memberships.set(member, groups);
  }
}

/** A policy rule with one of the subtrees that it names. */
interface PlacedPolicy {
  readonly rule: PolicyRule;
  /** Undefined: the whole directory. */
  readonly subtree: Dn | undefined;
}

/**
 * Returns all policy rules in order of precedence: rules with groups, then rules with filters, then the rest. Among
 * equal rules the rule with the deeper subtree comes first, then the rule whose name sorts first.
 */
export function byPrecedence(rules: readonly PolicyRule[]): PlacedPolicy[] {
  const policies = rules.flatMap((rule) => (rule.subtrees ?? [undefined]).map((subtree) => ({ rule, subtree })));
  return policies.sort(
    (a, b) => weight(b.rule) - weight(a.rule) || depthOf(b) - depthOf(a) || (a.rule.name < b.rule.name ? -1 : 1),
  );
}

/** Returns the weight of a rule: among the rules that match an account, the one with the highest applies. */
export function weight({ groups, filters }: PolicyRule): number {
  return (groups ? 2 : 0) + (filters ? 1 : 0);
}

function depthOf({ subtree }: PlacedPolicy): number {
  return subtree?.rdns.length ?? -1;
}

interface CompiledPolicy extends PlacedPolicy {
  readonly matches: ((entry: { readonly row: Buffer }) => boolean) | undefined;
}

/** Chooses the password policy of an account by the rules. */
class PolicyChoice {
  readonly rules: readonly PolicyRule[];
  /** Whether a rule names groups, so that the choice needs the memberships of the account. */
  readonly usesGroups: boolean;
  readonly #policies: readonly CompiledPolicy[];

  constructor(rules: readonly PolicyRule[], compiler: FilterCompiler) {
    this.rules = rules;
    this.usesGroups = rules.some(({ groups }) => groups);
    this.#policies = byPrecedence(rules).map((placed) => {
      const filters = placed.rule.filters?.map(({ filter }) => compiler.compile(filter, UNRESTRICTED).filter);
      return { ...placed, matches: filters && filterCondition(filters, false) };
    });
  }

  policyRuleFor(dn: Dn, entry: { readonly row: Buffer }, inGroup: IsMember): PolicyRule | undefined {
    const isForAccount = ({ rule: { groups }, subtree, matches }: CompiledPolicy): boolean =>
      (!subtree || isAtOrBelow(dn, subtree)) && (!groups || groups.some(inGroup)) && (!matches || matches(entry));
    return this.#policies.find(isForAccount)?.rule;
  }
}
