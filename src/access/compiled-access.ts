import type { EntryReader } from '../partition/model/entry-reader.js';
import type { FilterCompiler } from '../partition/read/filter/filter-compiler.js';
import type { Dn } from '../schema/schema-types.js';
import { type Asker, decide, type InGroup } from './asker.js';
import { type CompiledRule, compileRule } from './conditions.js';
import { KnownGroups } from './known-groups.js';
import { Places } from './places.js';
import { PolicyChoice } from './policy-choice.js';
import { Rights } from './rights.js';
import type { AccessRules, Limits, Who } from './rule.js';

/** What compiling rules takes of a directory. */
export interface Ground {
  readonly suffixes: readonly Dn[];
  readonly compiler: FilterCompiler;
  /** For use within one call. */
  readonly reader: EntryReader;
}

/** What one who asks may do. */
export interface Entitled {
  readonly rights: Rights;
  readonly limits: Limits;
}

/** A set of rules, ready to be asked by whom and for what. */
export class CompiledAccess {
  readonly version: number;
  /** Groups that rules name: who is in them has to be known. */
  readonly groups: readonly Dn[];
  readonly passwordPolicies: PolicyChoice;
  readonly #rules: AccessRules;
  readonly #compiled: readonly CompiledRule[];
  readonly #places: Places;
  readonly #ground: Ground;
  /** Who is in these. Another set of rules begins with none. */
  readonly known = new KnownGroups();

  constructor(version: number, rules: AccessRules, ground: Ground) {
    this.version = version;
    this.#rules = rules;
    this.#ground = ground;
    this.#compiled = rules.rules.map((rule) => compileRule(ground.compiler, rule));
    this.#places = new Places(rules.rules, ground.suffixes);
    this.passwordPolicies = new PolicyChoice(rules.passwordPolicies, ground.compiler);
    const groups = new Map<string, Dn>();
    for (const { who } of [...rules.rules, ...rules.limits]) addGroups(who, groups);
    this.groups = [...groups.values()];
  }

  entitle(asker: Asker, inGroup: InGroup): Entitled {
    const rights = new Rights(this.version, this.#compiled, this.#places, this.#ground.reader, asker, inGroup);
    return { rights, limits: this.#limitsOf(asker, inGroup) };
  }

  /** Of several limits that hold for who asks the widest counts. */
  #limitsOf(asker: Asker, inGroup: InGroup): Limits {
    const held: Record<string, number> = {};
    for (const { who, limits } of this.#rules.limits) {
      if (decide(who, asker, inGroup) !== true) continue;
      for (const [name, value] of Object.entries(limits)) held[name] = name in held ? wider(held[name]!, value) : value;
    }
    return held;
  }
}

/** 0 is without limit. */
function wider(a: number, b: number): number {
  return a === 0 || b === 0 ? 0 : Math.max(a, b);
}

function addGroups(who: Who, groups: Map<string, Dn>): void {
  for (const group of who.group ?? []) groups.set(group.norm.toString('latin1'), group);
  if (who.not) addGroups(who.not, groups);
}
