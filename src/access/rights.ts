import { LdapError } from '../ldap/ldap-error.js';
import type { Access, AttributeChange, CheckedEntry, Move, WriteRequest } from '../partition/model/directory-types.js';
import type { EntryReader } from '../partition/model/entry-reader.js';
import { type Node, normRdnOf } from '../partition/model/tables.js';
import { UNRESTRICTED, type ViewedEntry, type Viewer } from '../partition/model/viewer.js';
import { ROOT } from '../partition/tree/nodes.js';
import type { AttributeDescription, AttributeType } from '../schema/schema-types.js';
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
import { type AccessRule, covers } from './rule.js';
import { RuleSight } from './rule-sight.js';

const VIEW = rightSet('see', 'read', 'search', 'compare');
const USES = ['search', 'compare', 'read'] as const;
const MOVE = rightSet('rename', 'moveOut');

/** A rule that applies to the requester. */
interface ApplicableRule {
  readonly rule: AccessRule;
  /** Tests whether the rule applies to an entry. Undefined: the rule applies to all entries at its places. */
  readonly condition: Condition | undefined;
}

/** The rules of one `RuleSet` that apply to the requester. */
class RulesAtPlace {
  readonly #plainRules: readonly AccessRule[];
  readonly #conditionalRules: readonly ApplicableRule[];
  readonly #isConfidential: boolean;
  /** Rights on an entry by the conditional rules that apply: `1` or `0` in the key for each of these rules. */
  readonly #sights = new Map<string, RuleSight>();
  /** The rights on every entry of the place; undefined if a conditional rule decides. */
  readonly constantSight: RuleSight | undefined;
  /** Whether every entry of the place is visible (true) or none (false); undefined if a conditional rule decides. */
  readonly maySeeEntries: boolean | undefined;

  constructor(applicableRules: readonly ApplicableRule[], isConfidential: boolean) {
    this.#plainRules = applicableRules.filter(({ condition }) => !condition).map(({ rule }) => rule);
    this.#conditionalRules = applicableRules.filter(({ condition }) => condition);
    this.#isConfidential = isConfidential;
    const plainSight = new RuleSight(this.#plainRules, isConfidential);
    if (this.#conditionalRules.length === 0) this.constantSight = plainSight;
    if (!this.#conditionalRules.some(({ rule }) => decidesSight(rule))) this.maySeeEntries = plainSight.seen;
  }

  sightOf(entry: ViewedEntry): RuleSight {
    return this.constantSight ?? this.#decideSight(entry);
  }

  rulesFor(entry: ViewedEntry): AccessRule[] {
    return [
      ...this.#plainRules,
      ...this.#conditionalRules.filter(({ condition }) => condition!(entry)).map(({ rule }) => rule),
    ];
  }

  #decideSight(entry: ViewedEntry): RuleSight {
    let key = '';
    const conditionalRules = this.#conditionalRules;
    for (let i = 0; i < conditionalRules.length; i++) key += conditionalRules[i]!.condition!(entry) ? '1' : '0';
    let sight = this.#sights.get(key);
    if (!sight) {
      if (this.#sights.size >= MAX_SIGHTS) this.#sights.clear();
      const fulfilledRules = conditionalRules.filter((_, i) => key[i] === '1').map(({ rule }) => rule);
      sight = new RuleSight([...this.#plainRules, ...fulfilledRules], this.#isConfidential);
      this.#sights.set(key, sight);
    }
    return sight;
  }
}

const MAX_SIGHTS = 1024;

/** The rules that apply to the requester, for every place. */
class ApplicableRules {
  readonly #places: Places;
  readonly #rulesByNumber: ReadonlyMap<number, ApplicableRule>;
  readonly #isConfidential: boolean;
  /** Rules of one `RuleSet`, indexed by `RuleSet.number`; created at the first use. */
  readonly #rulesAtPlaces: (RulesAtPlace | undefined)[] = [];

  constructor(places: Places, rulesByNumber: ReadonlyMap<number, ApplicableRule>, isConfidential: boolean) {
    this.#places = places;
    this.#rulesByNumber = rulesByNumber;
    this.#isConfidential = isConfidential;
  }

  rulesOfSet({ number, rules }: RuleSet): RulesAtPlace {
    let rulesAtPlace = this.#rulesAtPlaces[number];
    if (!rulesAtPlace) {
      const applicableRules = rules.map((rule) => this.#rulesByNumber.get(rule)).filter((one) => one !== undefined);
      rulesAtPlace = new RulesAtPlace(applicableRules, this.#isConfidential);
      this.#rulesAtPlaces[number] = rulesAtPlace;
    }
    return rulesAtPlace;
  }

  rulesAtEntry(entry: ViewedEntry): RulesAtPlace {
    const place = this.#places.placeOf(entry.parent);
    if (place.namedChildren.size === 0) return this.rulesOfSet(place.childrenRules);
    const rdn = (entry.normRdn ?? normRdnOf(entry.row)).toString('latin1');
    return this.rulesOfSet(place.namedChildren.get(rdn) ?? place.childrenRules);
  }

  /** Returns the rights on an entry and its attributes. For the root, only rights on children matter. */
  sightOf({ node, row }: CheckedEntry): RuleSight {
    const { id, parent, normRdn } = node;
    return this.#rulesAtNode(node).sightOf({ id, parent: parent ?? ROOT, row, normRdn });
  }

  rulesFor({ node, row }: CheckedEntry): AccessRule[] {
    const { id, parent, normRdn } = node;
    return this.#rulesAtNode(node).rulesFor({ id, parent: parent ?? ROOT, row, normRdn });
  }

  /** Returns the rules for the entry at a node. Starts from the parent: a new entry's node is not in the tree yet. */
  #rulesAtNode(node: Node): RulesAtPlace {
    if (node === ROOT) return this.rulesOfSet(this.#places.placeOf(ROOT).ownRules);
    const place = this.#places.placeOf(node.parent ?? ROOT);
    const set = place.namedChildren.size > 0 ? place.namedChildren.get(node.normRdn.toString('latin1')) : undefined;
    return this.rulesOfSet(set ?? place.childrenRules);
  }

  /** Returns the rights on the entry at a node; undefined if they depend on the contents of the entry. */
  constantSightAt(node: Node): RuleSight | undefined {
    return this.#rulesAtNode(node).constantSight;
  }

  /** Whether the requester may see the entry at a node; undefined if that depends on the contents of the entry. */
  sees(node: Node): boolean | undefined {
    return this.#rulesAtNode(node).maySeeEntries;
  }

  seesAllBelow(node: Node): boolean {
    const { namedChildren, childrenRules } = this.#places.placeOf(node);
    return namedChildren.size === 0 && this.rulesOfSet(childrenRules).maySeeEntries === true;
  }
}

/** A right and the rules that decide it, for `explain`. */
export interface RightReason {
  readonly right: Right;
  readonly isGranted: boolean;
  /** Names of the rules that grant the right; if the right is denied, of the rules that deny it. */
  readonly rules: readonly string[];
}

/** The rights of a requester by the rules that apply to that requester. */
export class Rights implements Access {
  readonly version: number;
  readonly viewer: Viewer;
  readonly requester: Requester;
  readonly #rulesByNumber: ReadonlyMap<number, ApplicableRule>;
  readonly #applicableRules: ApplicableRules;

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
    const ruleByNumber = new Map<number, ApplicableRule>();
    const viewingRules = new Map<number, ApplicableRule>();
    const looksInto = new Set<AttributeType>();
    compiled.forEach((compiledRule, number) => {
      const decision = decide(compiledRule.rule.who, requester, inGroup);
      if (decision === false) return;
      const condition = conditionOf(compiledRule, decision === true ? undefined : decision, requester, reader);
      const rule = { rule: compiledRule.rule, condition };
      ruleByNumber.set(number, rule);
      if (affectsViewing(compiledRule.rule)) viewingRules.set(number, rule);
      if (condition) collectReadTypes(compiledRule, looksInto);
    });
    this.#rulesByNumber = ruleByNumber;
    this.#applicableRules = new ApplicableRules(places, ruleByNumber, requester.confidential);
    this.viewer = createViewer(
      new ApplicableRules(places, viewingRules, requester.confidential),
      [...viewingRules.values()],
      looksInto,
    );
  }

  renew(): undefined {}

  /** Whether a rule grants the right on any entry. */
  mayAnywhere(right: Right): boolean {
    const bit = rightSet(right);
    for (const { rule } of this.#rulesByNumber.values()) {
      const { attributes } = rule.to;
      if (!(rule.allow & bit)) continue;
      if (attributes.includesEntry && bit & ENTRY_RIGHTS) return true;
      if (attributes.includesChildren && bit & CHILDREN_RIGHTS) return true;
      if (bit & ATTRIBUTE_RIGHTS && coversAttributes(rule)) return true;
    }
    return false;
  }

  #mayAnywhereOn(right: Right, description: AttributeDescription): boolean {
    const bit = rightSet(right);
    for (const { rule } of this.#rulesByNumber.values())
      if (rule.allow & bit && covers(rule.to.attributes, description)) return true;
    return false;
  }

  checkRequest({ op, changes, rdn }: WriteRequest): LdapError | undefined {
    switch (op) {
      case 'add':
        if (!this.mayAnywhere('create')) return this.nowhereError('create');
        break;
      case 'delete':
        return this.mayAnywhere('remove') ? undefined : this.nowhereError('remove');
      case 'rename':
        return this.mayAnywhere('rename') || this.mayAnywhere('moveOut') ? undefined : this.nowhereError('rename');
      case 'restore':
        return new LdapError('insufficientAccessRights', 'only the administrator may bring back deleted entries');
      case 'modify':
    }
    const refusedChange = changes.find(({ operation, description }) => !this.#mayAnywhereOn(operation, description));
    if (refusedChange) return this.nowhereError(refusedChange.operation, refusedChange.description);
    const rdnAvas = op === 'add' ? (rdn?.avas ?? []) : [];
    const ava = rdnAvas.find(
      ({ type }) => ![...this.#rulesByNumber.values()].some(({ rule }) => allowsAdding(rule, type)),
    );
    return ava && this.#errorOnAnyEntry(`'add' on attribute '${ava.type.name}'`);
  }

  checkTarget({ op, changes }: WriteRequest, entry: CheckedEntry): LdapError | undefined {
    const sight = this.#applicableRules.sightOf(entry);
    switch (op) {
      case 'add':
        return sight.childrenRights & rightSet('create') ? undefined : this.missingError('create', entry, 'below');
      case 'delete':
        return sight.entryRights & rightSet('remove') ? undefined : this.missingError('remove', entry);
      case 'rename':
        return sight.entryRights & MOVE ? undefined : this.missingError('rename', entry);
      default:
        return this.#checkChanges(sight, changes, entry);
    }
  }

  checkNewEntry({ changes }: WriteRequest, entry: CheckedEntry): LdapError | undefined {
    return this.#checkChanges(this.#applicableRules.sightOf(entry), changes, entry);
  }

  checkMove({ entry, isRenamed, superior, changes }: Move): LdapError | undefined {
    const sight = this.#applicableRules.sightOf(entry);
    if (isRenamed && !(sight.entryRights & rightSet('rename'))) return this.missingError('rename', entry);
    if (superior) {
      if (!(sight.entryRights & rightSet('moveOut'))) return this.missingError('moveOut', entry);
      if (!(this.#applicableRules.sightOf(superior).childrenRights & rightSet('moveIn')))
        return this.missingError('moveIn', superior, 'below');
    }
    return this.#checkChanges(sight, changes, entry);
  }

  #checkChanges(sight: RuleSight, changes: readonly AttributeChange[], entry: CheckedEntry): LdapError | undefined {
    for (const { operation, description } of changes)
      if (!(sight.rightsOn(description) & rightSet(operation))) return this.missingError(operation, entry, description);
    return undefined;
  }

  /** Returns the rights on an entry, on its attributes and on its children. */
  sightOf(entry: CheckedEntry): RuleSight {
    return this.#applicableRules.sightOf(entry);
  }

  /** Returns each right on the entry and its children, or on one attribute, with the rules that decide it. */
  explain(entry: CheckedEntry, attribute: AttributeDescription | undefined): RightReason[] {
    const sight = this.#applicableRules.sightOf(entry);
    const rules = this.#applicableRules.rulesFor(entry);
    const kinds: [RightSet, (rule: AccessRule) => boolean, RightSet][] = attribute
      ? [[ATTRIBUTE_RIGHTS, ({ to }) => covers(to.attributes, attribute), sight.rightsOn(attribute)]]
      : [
          [ENTRY_RIGHTS, ({ to }) => to.attributes.includesEntry, sight.entryRights],
          [CHILDREN_RIGHTS, ({ to }) => to.attributes.includesChildren, sight.childrenRights],
        ];
    return kinds.flatMap(([kindRights, isAboutIt, grantedRights]) => {
      const rulesAbout = rules.filter(isAboutIt);
      return rightsIn(kindRights).map((right) => explainRight(right, grantedRights, rulesAbout));
    });
  }

  /** The error for a requester that may see the entry but lacks a right on it. */
  missingError(right: Right, { node }: Pick<CheckedEntry, 'node'>, on?: AttributeDescription | 'below'): LdapError {
    const entryText = node === ROOT ? 'the root' : `'${node.dn.toString()}'`;
    if (on === 'below') return this.#accessError(`'${right}' below ${entryText}`);
    return this.#accessError(`'${right}'${on ? ` on attribute '${on.text}'` : ''} of ${entryText}`);
  }

  /** Returns the error for a requester that has the right on no entry. */
  nowhereError(right: Right, description?: AttributeDescription): LdapError {
    return this.#errorOnAnyEntry(`'${right}'${description ? ` on attribute '${description.text}'` : ''}`);
  }

  #errorOnAnyEntry(deniedAction: string): LdapError {
    return this.#accessError(`${deniedAction}, on any entry`);
  }

  #accessError(deniedAction: string): LdapError {
    const remedy = this.requester.user ? '' : '; bind first';
    return new LdapError('insufficientAccessRights', `this needs the right ${deniedAction}${remedy}`);
  }
}

function explainRight(right: Right, grantedRights: RightSet, rulesAbout: readonly AccessRule[]): RightReason {
  const bit = rightSet(right);
  const denyingRules = rulesAbout.filter(({ deny }) => deny & bit);
  const allowingRules = rulesAbout.filter(({ allow }) => allow & bit);
  const rules = (denyingRules.length > 0 ? denyingRules : allowingRules).map(({ name }) => name);
  return { right, isGranted: (grantedRights & bit) !== NO_RIGHTS, rules };
}

function allowsAdding(rule: AccessRule, type: AttributeType): boolean {
  return (
    Boolean(rule.allow & rightSet('add')) &&
    covers(rule.to.attributes, { type, options: [], binary: false, text: type.name })
  );
}

function coversAttributes({ to: { attributes } }: AccessRule): boolean {
  const { includesUser, includesOperational, types, descriptions } = attributes;
  return includesUser || includesOperational || types.size > 0 || descriptions.length > 0;
}

function decidesSight({ allow, deny, to }: AccessRule): boolean {
  return to.attributes.includesEntry && ((allow | deny) & rightSet('see')) !== NO_RIGHTS;
}

/** Whether the rule affects viewing: which entries and attributes are visible, searchable, comparable or readable. */
function affectsViewing(rule: AccessRule): boolean {
  const rights = rule.allow | rule.deny;
  const { descriptions, ...sets } = rule.to.attributes;
  if (decidesSight(rule)) return true;
  if (descriptions.some(({ type }) => type.secret) && rights & rightSet('read')) return true;
  const coversPlain =
    sets.includesUser ||
    sets.includesOperational ||
    sets.types.size > 0 ||
    descriptions.some(({ type }) => !type.secret);
  return coversPlain && (rights & VIEW & ATTRIBUTE_RIGHTS) !== NO_RIGHTS;
}

/** Returns the viewer of a requester; `UNRESTRICTED` if the rules hide only secrets, so that no row is checked. */
function createViewer(
  applicableRules: ApplicableRules,
  rules: readonly ApplicableRule[],
  looksInto: ReadonlySet<AttributeType>,
): Viewer {
  const isUniform = rules.every(({ condition, rule }) => !condition && !rule.to.place);
  const coverSecrets = rules.some(({ rule }) => rule.to.attributes.descriptions.some(({ type }) => type.secret));
  const uniformSight = isUniform && !coverSecrets ? applicableRules.constantSightAt(ROOT) : undefined;
  if (uniformSight?.seen && USES.every((use) => uniformSight.all(use))) return UNRESTRICTED;
  return {
    sightOf(entry) {
      const sight = applicableRules.rulesAtEntry(entry).sightOf(entry);
      return sight.seen ? sight : undefined;
    },
    sees: (node) => applicableRules.sees(node),
    mayUse(node, use, type) {
      const sight = applicableRules.constantSightAt(node);
      return sight?.seen === true && sight.allowsEvery(use, type);
    },
    seesAllBelow: (node) => applicableRules.seesAllBelow(node),
    ...(looksInto.size > 0 && { looksInto }),
  };
}
