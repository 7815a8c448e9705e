import type { Node } from '../partition/model/node.js';
import { cutNorm } from '../partition/model/tables.js';
import { ROOT } from '../partition/tree/nodes.js';
import type { Dn } from '../schema/schema-types.js';
import { isAtOrBelow } from './asker.js';
import type { AccessRule } from './rule.js';

/** Rules that hold at one place, by their numbers, rising. One object for each set that is alike. */
export interface RuleSet {
  /** Small, dense. */
  readonly number: number;
  readonly rules: readonly number[];
}

/** A name that rules are about, and those below it. */
class Name {
  readonly below = new Map<string, Name>();
  readonly base: number[] = [];
  readonly one: number[] = [];
  readonly subtree: number[] = [];
}

/** What holds at an entry's place. */
export interface Place {
  /** Of the entry itself. */
  readonly own: RuleSet;
  /** Of entries right below it, but for those that rules name. */
  readonly children: RuleSet;
  /** Of entries right below it that rules name, by their normalized RDN (cut, Latin-1). */
  readonly named: ReadonlyMap<string, RuleSet>;
  /** Of entries anywhere below, but for those that rules name. */
  readonly inherited: RuleSet;
  readonly name: Name | undefined;
}

const NOWHERE: ReadonlyMap<string, RuleSet> = new Map();

/**
 * Which rules hold where, by their places alone. An entry is asked for by its parent's node and its RDN; what holds at
 * a node is worked out once.
 */
export class Places {
  readonly #top = new Name();
  readonly #sets = new Map<string, RuleSet>();
  /** Nodes are made anew when names change. */
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
    // What is above suffixes holds at them; what is apart from them may be an entry of the server's own.
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

  #placeOf(own: RuleSet, above: RuleSet, name: Name | undefined): Place {
    if (!name) return { own, children: above, named: NOWHERE, inherited: above, name };
    const inherited = name === this.#top ? above : this.#union(above, name.subtree);
    const children = this.#union(inherited, name.one);
    const named = new Map<string, RuleSet>();
    for (const [rdn, below] of name.below) named.set(rdn, this.#union(children, [...below.subtree, ...below.base]));
    return { own, children, named, inherited, name };
  }

  /** What holds at a node of the tree. */
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

function child(name: Name, norm: Buffer): Name {
  const key = norm.toString('latin1');
  let below = name.below.get(key);
  if (!below) {
    below = new Name();
    name.below.set(key, below);
  }
  return below;
}
