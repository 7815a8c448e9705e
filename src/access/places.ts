import type { Node } from '../partition/model/node.js';
import { cutNorm } from '../partition/model/tables.js';
import { ROOT } from '../partition/tree/nodes.js';
import type { Dn } from '../schema/schema-types.js';
import { isAtOrBelow } from './requester.js';
import type { AccessRule } from './rule.js';

/** The rules that apply at a place, by number in ascending order. Equal sets are one object. */
export interface RuleSet {
  /** Index of the set: small and dense. */
  readonly number: number;
  readonly rules: readonly number[];
}

/** A name in the tree of the names that rules mention. */
class NameNode {
  readonly below = new Map<string, NameNode>();
  readonly base: number[] = [];
  readonly one: number[] = [];
  readonly subtree: number[] = [];
}

/** The rule sets at and below an entry. */
export interface Place {
  /** For the entry itself. */
  readonly own: RuleSet;
  /** For children of the entry that no rule names. */
  readonly children: RuleSet;
  /** For children of the entry that rules name, by normalized RDN (truncated, Latin-1). */
  readonly named: ReadonlyMap<string, RuleSet>;
  /** For entries at any depth below that no rule names. */
  readonly inherited: RuleSet;
  readonly name: NameNode | undefined;
}

const NO_NAMES: ReadonlyMap<string, RuleSet> = new Map();

/** Finds the rules for an entry by its parent's node and its RDN. The result for each node is cached. */
export class Places {
  readonly #top = new NameNode();
  readonly #sets = new Map<string, RuleSet>();
  /** Results by node. A rename creates new nodes, so entries of the map never go stale. */
  #known = new WeakMap<Node, Place>();
  readonly #root: Place;

  constructor(rules: readonly AccessRule[], suffixes: readonly Dn[]) {
    const everywhere: number[] = [];
    rules.forEach(({ to: { place } }, number) => {
      if (!place) everywhere.push(number);
      else for (const base of place.bases) this.#add(number, place.scope, base, suffixes);
    });
    const all = this.#set(everywhere);
    this.#root = this.#placeOf(all, all, this.#top);
    this.#known.set(ROOT, this.#root);
  }

  #add(number: number, scope: 'base' | 'one' | 'subtree', base: Dn, suffixes: readonly Dn[]): void {
    const suffix = suffixes.find((one) => isAtOrBelow(base, one));
    if (suffix) {
      let name = child(this.#top, cutNorm(suffix.norm));
      for (let i = base.rdns.length - suffix.rdns.length - 1; i >= 0; i--)
        name = child(name, cutNorm(base.rdns[i]!.norm));
      name[scope].push(number);
      return;
    }
    // A rule with a base above suffixes applies to the suffixes. A base apart from all suffixes may be an entry of the
    // server's own.
    for (const one of suffixes.filter((other) => isAtOrBelow(other, base))) {
      const name = child(this.#top, cutNorm(one.norm));
      if (scope === 'subtree') name.subtree.push(number);
      else if (scope === 'one' && one.rdns.length === base.rdns.length + 1) name.base.push(number);
    }
    child(this.#top, cutNorm(base.norm))[scope].push(number);
  }

  #set(numbers: readonly number[]): RuleSet {
    const rules = [...new Set(numbers)].sort((a, b) => a - b);
    const key = rules.join();
    let set = this.#sets.get(key);
    if (!set) {
      set = { number: this.#sets.size, rules };
      this.#sets.set(key, set);
    }
    return set;
  }

  #union(set: RuleSet, more: readonly number[]): RuleSet {
    return more.length === 0 ? set : this.#set([...set.rules, ...more]);
  }

  #placeOf(own: RuleSet, above: RuleSet, name: NameNode | undefined): Place {
    if (!name) return { own, children: above, named: NO_NAMES, inherited: above, name };
    const inherited = name === this.#top ? above : this.#union(above, name.subtree);
    const children = this.#union(inherited, name.one);
    const named = new Map<string, RuleSet>();
    for (const [rdn, below] of name.below) named.set(rdn, this.#union(children, [...below.subtree, ...below.base]));
    return { own, children, named, inherited, name };
  }

  /** The rule sets at a node of the tree. */
  of(node: Node): Place {
    const known = this.#known.get(node);
    if (known) return known;
    const parent = this.of(node.parent ?? ROOT);
    const rdn = parent.named.size > 0 ? node.normRdn.toString('latin1') : '';
    const own = (parent.named.size > 0 ? parent.named.get(rdn) : undefined) ?? parent.children;
    const place = this.#placeOf(own, parent.inherited, parent.name?.below.get(rdn));
    this.#known.set(node, place);
    return place;
  }
}

function child(name: NameNode, norm: Buffer): NameNode {
  const key = norm.toString('latin1');
  let below = name.below.get(key);
  if (!below) {
    below = new NameNode();
    name.below.set(key, below);
  }
  return below;
}
