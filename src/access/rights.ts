import { LdapError } from '../ldap/ldap-error.js';
import type { Access, AttributeChange, CheckedEntry, Move, WriteRequest } from '../partition/model/directory-types.js';
import type { EntryReader } from '../partition/model/entry-reader.js';
import type { Node } from '../partition/model/node.js';
import { normRdnOf } from '../partition/model/tables.js';
import { UNRESTRICTED, type Viewed, type Viewer } from '../partition/model/viewer.js';
import { ROOT } from '../partition/tree/nodes.js';
import type { AttributeDescription, AttributeType } from '../schema/schema-types.js';
import { covers } from './attribute-set.js';
import { type CompiledRule, type Condition, collectReadTypes, conditionOf } from './conditions.js';
import type { Places, RuleSet } from './places.js';
import type { IsMember, Requester } from './requester.js';
import { decide } from './requester.js';
import {
  ATTRIBUTE_RIGHTS,
  CHILDREN_RIGHTS,
  ENTRY_RIGHTS,
  NO_RIGHTS,
  type Right,
  type RightSet,
  rightSet,
  rightsIn,
} from './right.js';
import type { AccessRule } from './rule.js';
import { RuleSight } from './rule-sight.js';

const VIEW = rightSet('see', 'read', 'search', 'compare');
const USES = ['search', 'compare', 'read'] as const;
const MOVE = rightSet('rename', 'moveOut');

/** A rule that applies to the requester. */
interface ApplicableRule {
  readonly rule: AccessRule;
  /** Decides for which entries the rule applies; undefined: for all entries at its places. */
  readonly condition: Condition | undefined;
}

/** The rules of one `RuleSet` that apply to the requester, split into rules without and rules with a condition. */
class RulesAtPlace {
  readonly #always: readonly AccessRule[];
  readonly #conditional: readonly ApplicableRule[];
  readonly #confidential: boolean;
  /** Sights by the conditional rules that apply: one character `0` or `1` per rule. */
  readonly #sights = new Map<string, RuleSight>();
  /** The sight of all entries if there are no conditional rules; else undefined. */
  readonly constant: RuleSight | undefined;
  /** Whether the requester may see the entries; undefined if that depends on the entry. */
  readonly seen: boolean | undefined;

  constructor(held: readonly ApplicableRule[], confidential: boolean) {
    this.#always = held.filter(({ condition }) => !condition).map(({ rule }) => rule);
    this.#conditional = held.filter(({ condition }) => condition);
    this.#confidential = confidential;
    const always = new RuleSight(this.#always, confidential);
    if (this.#conditional.length === 0) this.constant = always;
    if (!this.#conditional.some(({ rule }) => decidesSight(rule))) this.seen = always.seen;
  }

  of(entry: Viewed): RuleSight {
    return this.constant ?? this.#decide(entry);
  }

  /** The rules that apply to the entry. */
  rules(entry: Viewed): AccessRule[] {
    return [...this.#always, ...this.#conditional.filter(({ condition }) => condition!(entry)).map(({ rule }) => rule)];
  }

  #decide(entry: Viewed): RuleSight {
    let key = '';
    const conditional = this.#conditional;
    for (let i = 0; i < conditional.length; i++) key += conditional[i]!.condition!(entry) ? '1' : '0';
    let sight = this.#sights.get(key);
    if (!sight) {
      if (this.#sights.size >= MAX_SIGHTS) this.#sights.clear();
      const more = conditional.filter((_, i) => key[i] === '1').map(({ rule }) => rule);
      sight = new RuleSight([...this.#always, ...more], this.#confidential);
      this.#sights.set(key, sight);
    }
    return sight;
  }
}

const MAX_SIGHTS = 1024;

/** The rules that apply to the requester, by place. */
class ApplicableRules {
  readonly #places: Places;
  readonly #held: ReadonlyMap<number, ApplicableRule>;
  readonly #confidential: boolean;
  /** By `RuleSet.number`. */
  readonly #locals: (RulesAtPlace | undefined)[] = [];

  constructor(places: Places, held: ReadonlyMap<number, ApplicableRule>, confidential: boolean) {
    this.#places = places;
    this.#held = held;
    this.#confidential = confidential;
  }

  at({ number, rules }: RuleSet): RulesAtPlace {
    let local = this.#locals[number];
    if (!local) {
      const held = rules.map((rule) => this.#held.get(rule)).filter((one) => one !== undefined);
      local = new RulesAtPlace(held, this.#confidential);
      this.#locals[number] = local;
    }
    return local;
  }

  of(entry: Viewed): RulesAtPlace {
    const place = this.#places.of(entry.parent);
    if (place.named.size === 0) return this.at(place.children);
    const rdn = (entry.normRdn ?? normRdnOf(entry.row)).toString('latin1');
    return this.at(place.named.get(rdn) ?? place.children);
  }

  /** The sight of an entry; for the root, the rights on its children. */
  sightOf({ node, row }: CheckedEntry): RuleSight {
    const { id, parent, normRdn } = node;
    return this.#own(node).of({ id, parent: parent ?? ROOT, row, normRdn });
  }

  rules({ node, row }: CheckedEntry): AccessRule[] {
    const { id, parent, normRdn } = node;
    return this.#own(node).rules({ id, parent: parent ?? ROOT, row, normRdn });
  }

  /** The rules at the entry's own place, looked up by its parent: the node of a new entry is not in the tree. */
  #own(node: Node): RulesAtPlace {
    if (node === ROOT) return this.at(this.#places.of(ROOT).own);
    const place = this.#places.of(node.parent ?? ROOT);
    const named = place.named.size > 0 ? place.named.get(node.normRdn.toString('latin1')) : undefined;
    return this.at(named ?? place.children);
  }

  /** The sight of the entry at a node; undefined if it depends on the entry's content. */
  constantAt(node: Node): RuleSight | undefined {
    return this.#own(node).constant;
  }

  /** Whether the requester may see the entry at a node; undefined if that depends on the entry's content. */
  sees(node: Node): boolean | undefined {
    return this.#own(node).seen;
  }

  seesAllBelow(node: Node): boolean {
    const { named, children } = this.#places.of(node);
    return named.size === 0 && this.at(children).seen === true;
  }
}

/** A right and the rules that decide it, for `explain`. */
export interface RightReason {
  readonly right: Right;
  readonly given: boolean;
  /** Names of the rules that grant the right, or of the rules that deny it. */
  readonly rules: readonly string[];
}

/** The rights of a requester by the rules that apply to that requester. */
export class Rights implements Access {
  readonly version: number;
  readonly viewer: Viewer;
  readonly requester: Requester;
  readonly #held: ReadonlyMap<number, ApplicableRule>;
  readonly #all: ApplicableRules;

  constructor(
    version: number,
    compiled: readonly CompiledRule[],
    places: Places,
    reader: EntryReader,
    requester: Requester,
    inGroup: IsMember,
  ) {
    this.version = version;
    this.requester = requester;
    const held = new Map<number, ApplicableRule>();
    const viewing = new Map<number, ApplicableRule>();
    const looksInto = new Set<AttributeType>();
    compiled.forEach((one, number) => {
      const decided = decide(one.rule.who, requester, inGroup);
      if (decided === false) return;
      const condition = conditionOf(one, decided === true ? undefined : decided, requester, reader);
      const rule = { rule: one.rule, condition };
      held.set(number, rule);
      if (affectsViewing(one.rule)) viewing.set(number, rule);
      if (condition) collectReadTypes(one, looksInto);
    });
    this.#held = held;
    this.#all = new ApplicableRules(places, held, requester.confidential);
    this.viewer = viewerOf(
      new ApplicableRules(places, viewing, requester.confidential),
      [...viewing.values()],
      looksInto,
    );
  }

  renew(): undefined {}

  /** Whether a rule grants the right on any entry. */
  mayEver(right: Right): boolean {
    const bit = rightSet(right);
    for (const { rule } of this.#held.values()) {
      const { attributes } = rule.to;
      if (!(rule.allow & bit)) continue;
      if (attributes.entry && bit & ENTRY_RIGHTS) return true;
      if (attributes.children && bit & CHILDREN_RIGHTS) return true;
      if (bit & ATTRIBUTE_RIGHTS && isAboutAttributes(rule)) return true;
    }
    return false;
  }

  #mayEverOn(right: Right, description: AttributeDescription): boolean {
    const bit = rightSet(right);
    for (const { rule } of this.#held.values())
      if (rule.allow & bit && covers(rule.to.attributes, description)) return true;
    return false;
  }

  checkRequest({ op, changes, rdn }: WriteRequest): LdapError | undefined {
    switch (op) {
      case 'add':
        if (!this.mayEver('create')) return this.nowhere('create');
        break;
      case 'delete':
        return this.mayEver('remove') ? undefined : this.nowhere('remove');
      case 'rename':
        return this.mayEver('rename') || this.mayEver('moveOut') ? undefined : this.nowhere('rename');
      case 'restore':
        return new LdapError('insufficientAccessRights', 'only the administrator may bring back deleted entries');
      case 'modify':
    }
    const refused = changes.find(({ how, description }) => !this.#mayEverOn(how, description));
    if (refused) return this.nowhere(refused.how, refused.description);
    const names = op === 'add' ? (rdn?.avas ?? []) : [];
    const unnamed = names.find(({ type }) => ![...this.#held.values()].some(({ rule }) => isAbout(rule, type)));
    return unnamed && this.#missingAnywhere(`'add' on attribute '${unnamed.type.name}'`);
  }

  checkTarget({ op, changes }: WriteRequest, entry: CheckedEntry): LdapError | undefined {
    const sight = this.#all.sightOf(entry);
    switch (op) {
      case 'add':
        return sight.children & rightSet('create') ? undefined : this.missing('create', entry, 'below');
      case 'delete':
        return sight.entry & rightSet('remove') ? undefined : this.missing('remove', entry);
      case 'rename':
        return sight.entry & MOVE ? undefined : this.missing('rename', entry);
      default:
        return this.#changes(sight, changes, entry);
    }
  }

  checkNewEntry({ changes }: WriteRequest, entry: CheckedEntry): LdapError | undefined {
    return this.#changes(this.#all.sightOf(entry), changes, entry);
  }

  checkMove({ entry, renamed, superior, changes }: Move): LdapError | undefined {
    const sight = this.#all.sightOf(entry);
    if (renamed && !(sight.entry & rightSet('rename'))) return this.missing('rename', entry);
    if (superior) {
      if (!(sight.entry & rightSet('moveOut'))) return this.missing('moveOut', entry);
      if (!(this.#all.sightOf(superior).children & rightSet('moveIn')))
        return this.missing('moveIn', superior, 'below');
    }
    return this.#changes(sight, changes, entry);
  }

  #changes(sight: RuleSight, changes: readonly AttributeChange[], entry: CheckedEntry): LdapError | undefined {
    for (const { how, description } of changes)
      if (!(sight.on(description) & rightSet(how))) return this.missing(how, entry, description);
    return undefined;
  }

  /** The rights on an entry, on its attributes, and below it. */
  of(entry: CheckedEntry): RuleSight {
    return this.#all.sightOf(entry);
  }

  /** Each right on the entry and below it, or on an attribute, with the rules that decide. */
  explain(entry: CheckedEntry, attribute: AttributeDescription | undefined): RightReason[] {
    const sight = this.#all.sightOf(entry);
    const rules = this.#all.rules(entry);
    const kinds: [RightSet, (rule: AccessRule) => boolean, RightSet][] = attribute
      ? [[ATTRIBUTE_RIGHTS, ({ to }) => covers(to.attributes, attribute), sight.on(attribute)]]
      : [
          [ENTRY_RIGHTS, ({ to }) => to.attributes.entry, sight.entry],
          [CHILDREN_RIGHTS, ({ to }) => to.attributes.children, sight.children],
        ];
    return kinds.flatMap(([of, isAboutIt, given]) => {
      const about = rules.filter(isAboutIt);
      return rightsIn(of).map((right) => reason(right, given, about));
    });
  }

  /** The error for a requester that may see the entry but lacks a right on it. */
  missing(right: Right, { node }: Pick<CheckedEntry, 'node'>, on?: AttributeDescription | 'below'): LdapError {
    const where = node === ROOT ? 'the root' : `'${node.dn.toString()}'`;
    if (on === 'below') return this.#missingRight(`'${right}' below ${where}`);
    return this.#missingRight(`'${right}'${on ? ` on attribute '${on.text}'` : ''} of ${where}`);
  }

  /** The error for a requester that lacks a right on every entry. */
  nowhere(right: Right, description?: AttributeDescription): LdapError {
    return this.#missingAnywhere(`'${right}'${description ? ` on attribute '${description.text}'` : ''}`);
  }

  #missingAnywhere(what: string): LdapError {
    return this.#missingRight(`${what}, on any entry`);
  }

  #missingRight(what: string): LdapError {
    const remedy = this.requester.user ? '' : '; bind first';
    return new LdapError('insufficientAccessRights', `this needs the right ${what}${remedy}`);
  }
}

function reason(right: Right, given: RightSet, about: readonly AccessRule[]): RightReason {
  const bit = rightSet(right);
  const denied = about.filter(({ deny }) => deny & bit);
  const allowed = about.filter(({ allow }) => allow & bit);
  const rules = (denied.length > 0 ? denied : allowed).map(({ name }) => name);
  return { right, given: (given & bit) !== NO_RIGHTS, rules };
}

function isAbout(rule: AccessRule, type: AttributeType): boolean {
  return (
    Boolean(rule.allow & rightSet('add')) &&
    covers(rule.to.attributes, { type, options: [], binary: false, text: type.name })
  );
}

function isAboutAttributes({ to: { attributes } }: AccessRule): boolean {
  const { user, operational, types, descriptions } = attributes;
  return user || operational || types.size > 0 || descriptions.length > 0;
}

function decidesSight({ allow, deny, to }: AccessRule): boolean {
  return to.attributes.entry && ((allow | deny) & rightSet('see')) !== NO_RIGHTS;
}

/** Whether the rule affects viewing: which entries and attributes are visible, searchable, comparable or readable. */
function affectsViewing(rule: AccessRule): boolean {
  const rights = rule.allow | rule.deny;
  const { descriptions, ...sets } = rule.to.attributes;
  if (decidesSight(rule)) return true;
  if (descriptions.some(({ type }) => type.secret) && rights & rightSet('read')) return true;
  const others = sets.user || sets.operational || sets.types.size > 0 || descriptions.some(({ type }) => !type.secret);
  return others && (rights & VIEW & ATTRIBUTE_RIGHTS) !== NO_RIGHTS;
}

/** The viewer of a requester: `UNRESTRICTED`, without checks of rows, if the rules hide nothing but secrets. */
function viewerOf(
  held: ApplicableRules,
  rules: readonly ApplicableRule[],
  looksInto: ReadonlySet<AttributeType>,
): Viewer {
  const isSame = rules.every(({ condition, rule }) => !condition && !rule.to.place);
  const secrets = rules.some(({ rule }) => rule.to.attributes.descriptions.some(({ type }) => type.secret));
  const everywhere = isSame && !secrets ? held.constantAt(ROOT) : undefined;
  if (everywhere?.seen && USES.every((use) => everywhere.all(use))) return UNRESTRICTED;
  return {
    sightOf(entry) {
      const sight = held.of(entry).of(entry);
      return sight.seen ? sight : undefined;
    },
    sees: (node) => held.sees(node),
    mayUse(node, use, type) {
      const sight = held.constantAt(node);
      return sight?.seen === true && sight.allowsEvery(use, type);
    },
    seesAllBelow: (node) => held.seesAllBelow(node),
    ...(looksInto.size > 0 && { looksInto }),
  };
}
