import { type RightSet, rightSet } from '../right.js';
import { CHILDREN, ENTRY } from './attribute-bits.js';
import type { Element } from './element.js';
import { intersectPlaces, type Place, parentName } from './place.js';
import { elementsOnAttributes, type SlapdStep } from './slapd-steps.js';
import { PRIVILEGES } from './slapd-syntax.js';
import { intersectWho, simplifyNonEmpty, type WhoSet } from './who-set.js';

const { a, z } = PRIVILEGES;
const WRITE = a | z;

/** Remark for slapd conditions on two entries that a rule cannot express. */
export const TWO_ENTRIES =
  'it gives less of making, removing, renaming and moving: slapd asks of the entry and its parent, a rule of one of them';

/** Returns the rights that result from slapd's privileges on `children` of the parent and on `entry` of the child. */
type CombineRights = (below: number, entry: number) => RightSet;

const AT_ENTRY: CombineRights = (below, entry) =>
  (below & z && entry & z ? rightSet('remove') : 0) |
  ((below & WRITE) === WRITE && (entry & WRITE) === WRITE ? rightSet('rename') : 0) |
  (below & z && (entry & WRITE) === WRITE ? rightSet('moveOut') : 0);
const AT_PARENT: CombineRights = (below, entry) => (below & a && entry & a ? rightSet('create') : 0);

/** The place of the children or parents of the entries in another place. If not exact, `place` is a superset. */
interface ApproximatePlace {
  readonly place: Place;
  readonly isExact: boolean;
}

type ElementStep = Element & SlapdStep;

/**
 * Returns the first-match lists for creating, removing, renaming and moving entries. slapd checks privileges on
 * `children` of the parent and on `entry` of the entry itself. So each pair of a step on `children` and a step on
 * `entry` becomes one step of the list.
 */
export function structureLists(steps: readonly SlapdStep[]): Element[][] {
  const childrenSteps = elementsOnAttributes(steps, CHILDREN, () => 0);
  const entrySteps = elementsOnAttributes(steps, ENTRY, () => 0);
  const atEntry = childrenSteps.flatMap((parent) =>
    entrySteps.flatMap((child) => {
      const { place, isExact } = placeOfChildren(parent.region.place);
      const intersection = intersectPlaces(place, child.region.place);
      if (!intersection) return [];
      const isSure = isExact && parent.region.filters.length === 0;
      const region = { place: intersection, filters: child.region.filters, attributes: ENTRY };
      return combineSteps(child, parent, region, AT_ENTRY(parent.privileges, child.privileges), isSure);
    }),
  );
  const atParent = childrenSteps.flatMap((parent) =>
    entrySteps.flatMap((child) =>
      placesOfParents(child.region.place).flatMap(({ place, isExact }) => {
        const intersection = intersectPlaces(place, parent.region.place);
        if (!intersection) return [];
        const isSure = isExact && child.region.filters.length === 0;
        const region = { place: intersection, filters: parent.region.filters, attributes: CHILDREN };
        return combineSteps(parent, child, region, AT_PARENT(parent.privileges, child.privileges), isSure);
      }),
    ),
  );
  return [atEntry, atParent];
}

/** Combines two steps. `ruleStep` matches the entry that the rule is about; `relatedStep` its parent or child. */
function combineSteps(
  ruleStep: ElementStep,
  relatedStep: ElementStep,
  region: Element['region'],
  rights: RightSet,
  isSure: boolean,
): Element[] {
  if (ruleStep.who.self && relatedStep.who.self) return [];
  const relatedWho = withoutEntryConditions(relatedStep.who);
  const relatedRemaining = relatedStep.remainingWho && withoutEntryConditions(relatedStep.remainingWho).who;
  const who = intersectWho(ruleStep.who, relatedWho.who);
  const remainingWho =
    ruleStep.remainingWho && relatedRemaining && intersectWho(ruleStep.remainingWho, relatedRemaining);
  if (!who || !remainingWho) return [];
  const inexactReason =
    ruleStep.inexactReason ??
    relatedStep.inexactReason ??
    (isSure && relatedWho.exact && who !== 'unknown' ? undefined : TWO_ENTRIES);
  const { origin } = rights !== 0 && relatedStep.origin.line > ruleStep.origin.line ? relatedStep : ruleStep;
  return [
    {
      region,
      who: who === 'unknown' ? ruleStep.who : who,
      remainingWho: remainingWho === 'unknown' ? ruleStep.remainingWho : remainingWho,
      rights,
      inexactReason,
      origin,
    },
  ];
}

/** Returns the requesters without the conditions that compare them with the entry, such as `self`. */
function withoutEntryConditions(who: WhoSet): { who: WhoSet; exact: boolean } {
  const { self, attribute, ...rest } = who;
  const hasEntryCondition = self !== undefined || attribute !== undefined;
  const nots = rest.nots.filter((not) => !dependsOnEntry(not));
  const exact = !hasEntryCondition && nots.length === rest.nots.length;
  if (exact) return { who, exact };
  return { who: simplifyNonEmpty({ ...rest, ...(hasEntryCondition && { users: true as const }), nots }), exact };
}

function dependsOnEntry({ self, attribute, nots }: WhoSet): boolean {
  return self !== undefined || attribute !== undefined || nots.some(dependsOnEntry);
}

/** Returns the place of the entries whose parent is in the place. */
function placeOfChildren({ scope, base }: Place): ApproximatePlace {
  if (base.rdns.length === 0) return { place: { scope: 'subtree', base }, isExact: scope === 'subtree' };
  if (scope === 'base') return { place: { scope: 'one', base }, isExact: true };
  return { place: { scope: 'children', base }, isExact: scope === 'subtree' };
}

/** Returns the places of entries with a child in the place. Not the root: only the administrator adds entries there. */
function placesOfParents({ scope, base }: Place): ApproximatePlace[] {
  if (scope === 'one') return [{ place: { scope: 'base', base }, isExact: true }];
  const parent = parentName(base);
  const parentPlaces: ApproximatePlace[] =
    parent && parent.rdns.length > 0 ? [{ place: { scope: 'base', base: parent }, isExact: false }] : [];
  if (scope === 'base') return parentPlaces;
  const subtreePlace: ApproximatePlace = { place: { scope: 'subtree', base }, isExact: true };
  return scope === 'children' ? [subtreePlace] : [subtreePlace, ...parentPlaces];
}
