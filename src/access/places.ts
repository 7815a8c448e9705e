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

/** A DN that rules mention, or an ancestor of one: with the numbers of the rules at each scope there. */
class NameNode {
  readonly children = new Map<string, NameNode>();
  readonly base: number[] = [];
  readonly one: number[] = [];
  readonly subtree: number[] = [];
}

/** The rule sets at and below an entry. */
export interface Place {
  /** For the entry itself. */
  readonly ownRules: RuleSet;
  /** For children of the entry that no rule names. */
  readonly childrenRules: RuleSet;
  /** For children of the entry that rules name, by normalized RDN (truncated, Latin-1). */
  readonly namedChildren: ReadonlyMap<string, RuleSet>;
  /** For entries at any depth below that no rule names. */
  readonly inheritedRules: RuleSet;
  readonly nameNode: NameNode | undefined;
}

const NO_NAMES: ReadonlyMap<string, RuleSet> = new Map();

/** Finds the rules for an entry by its parent's node and its RDN. The result for each node is cached. */
export class Places {
  readonly #topName = new NameNode();
  readonly #setsByKey = new Map<string, RuleSet>();
  /** Results by node. A rename creates new nodes, so entries of the map never go stale. */
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
    // A rule with a base above suffixes applies to the suffixes. A base apart from all suffixes may be an entry of the
    // server's own.
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
