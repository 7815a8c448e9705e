import { UNRESTRICTED } from '../partition/model/viewer.js';
import type { FilterCompiler } from '../partition/read/filter/filter-compiler.js';
import type { Dn } from '../schema/schema-types.js';
import { filterCondition } from './conditions.js';
import { type IsMember, isAtOrBelow } from './requester.js';
import type { PolicyRule } from './rule.js';

/** A policy rule with one of the subtrees that it names. */
export interface PlacedPolicy {
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
export class PolicyChoice {
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
