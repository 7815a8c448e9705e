import { cutNorm, type Node } from '../partition/model/tables.js';
import { ROOT } from '../partition/tree/nodes.js';
import type { Dn } from '../schema/schema-types.js';
import { isAtOrBelow } from './requester.js';
import type { AccessRule } from './rule.js';

/** Numbers of the rules that apply to an entry, ascending. Equal sets are one object. */
export interface RuleSet {
  /** Index of the set in the list of all sets, from 0. */
  readonly number: number;
  readonly rules: readonly number[];
}

/** A node in the tree of DNs that rules name, with the numbers of the rules with this base, by scope. */
class NameNode {
  readonly children = new Map<string, NameNode>();
  readonly base: number[] = [];
  readonly one: number[] = [];
  readonly subtree: number[] = [];
}

/** The rule sets that apply to an entry and below it. */
export interface Place {
  /** The rules for the entry itself. */
  readonly ownRules: RuleSet;
  /** The rules for children of the entry that have no node in the tree of names. */
  readonly childrenRules: RuleSet;
  /** The rules for children that have a node in the tree of names, by normalized RDN (truncated, Latin-1). */
  readonly namedChildren: ReadonlyMap<string, RuleSet>;
  /** The rules for entries at any depth below that have no node in the tree of names. */
  readonly inheritedRules: RuleSet;
  readonly nameNode: NameNode | undefined;
}

const NO_NAMES: ReadonlyMap<string, RuleSet> = new Map();

/** Finds the rules for an entry by the node of its parent and by its RDN. Caches the result for each node. */
export class Places {
  readonly #topName = new NameNode();
  readonly #setsByKey = new Map<string, RuleSet>();
  /** Results by node. A renamed entry gets a new node, so a cached result stays valid. */
  #placesByNode = new WeakMap<Node, Place>();
  readonly #rootPlace: Place;

  constructor(rules: readonly AccessRule[], suffixes: readonly Dn[]) {
    const everywhere: number[] = [];
    rules.forEach(({ to: { place } }, number) => {
      if (!place) everywhere.push(number);
      else for (const base of place.bases) this.#add(number, place.scope, base, suffixes);
    });
    const everywhereSet = this.#internSet(everywhere);
    this.#rootPlace = this.#createPlace(everywhereSet, everywhereSet, this.#topName);
    this.#placesByNode.set(ROOT, this.#rootPlace);
  }

  #add(number: number, scope: 'base' | 'one' | 'subtree', base: Dn, suffixes: readonly Dn[]): void {
    const suffix = suffixes.find((one) => isAtOrBelow(base, one));
    if (suffix) {
      let nameNode = ensureChild(this.#topName, cutNorm(suffix.norm));
      for (let i = base.rdns.length - suffix.rdns.length - 1; i >= 0; i--)
        nameNode = ensureChild(nameNode, cutNorm(base.rdns[i]!.norm));
      nameNode[scope].push(number);
      return;
    }
    // A rule with a base above some suffixes applies to these suffixes. Any other base may be the DN of an entry that
    // the server itself provides, such as the root DSE.
    for (const coveredSuffix of suffixes.filter((other) => isAtOrBelow(other, base))) {
      const nameNode = ensureChild(this.#topName, cutNorm(coveredSuffix.norm));
      if (scope === 'subtree') nameNode.subtree.push(number);
      else if (scope === 'one' && coveredSuffix.rdns.length === base.rdns.length + 1) nameNode.base.push(number);
    }
    ensureChild(this.#topName, cutNorm(base.norm))[scope].push(number);
  }

  #internSet(numbers: readonly number[]): RuleSet {
    const rules = [...new Set(numbers)].sort((a, b) => a - b);
    const key = rules.join();
    let set = this.#setsByKey.get(key);
    if (!set) {
      set = { number: this.#setsByKey.size, rules };
      this.#setsByKey.set(key, set);
    }
    return set;
  }

  #union(set: RuleSet, addedNumbers: readonly number[]): RuleSet {
    return addedNumbers.length === 0 ? set : this.#internSet([...set.rules, ...addedNumbers]);
  }

  #createPlace(ownRules: RuleSet, parentRules: RuleSet, nameNode: NameNode | undefined): Place {
    if (!nameNode)
      return { ownRules, childrenRules: parentRules, namedChildren: NO_NAMES, inheritedRules: parentRules, nameNode };
    const inheritedRules = nameNode === this.#topName ? parentRules : this.#union(parentRules, nameNode.subtree);
    const childrenRules = this.#union(inheritedRules, nameNode.one);
    const namedChildren = new Map<string, RuleSet>();
    for (const [rdn, childNode] of nameNode.children)
      namedChildren.set(rdn, this.#union(childrenRules, [...childNode.subtree, ...childNode.base]));
    return { ownRules, childrenRules, namedChildren, inheritedRules, nameNode };
  }

  /** The rule sets at a node of the tree. */
  placeOf(node: Node): Place {
    const cachedPlace = this.#placesByNode.get(node);
    if (cachedPlace) return cachedPlace;
    const parent = this.placeOf(node.parent ?? ROOT);
    const rdn = parent.namedChildren.size > 0 ? node.normRdn.toString('latin1') : '';
    const rules = (parent.namedChildren.size > 0 ? parent.namedChildren.get(rdn) : undefined) ?? parent.childrenRules;
    const place = this.#createPlace(rules, parent.inheritedRules, parent.nameNode?.children.get(rdn));
    this.#placesByNode.set(node, place);
    return place;
  }
}

function ensureChild(nameNode: NameNode, norm: Buffer): NameNode {
  const key = norm.toString('latin1');
  let childNode = nameNode.children.get(key);
  if (!childNode) {
    childNode = new NameNode();
    nameNode.children.set(key, childNode);
  }
  return childNode;
}
