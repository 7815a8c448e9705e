import { type RightSet, rightSet } from '../right.js';
import { CHILDREN, ENTRY } from './attribute-bits.js';
import type { Element } from './element.js';
import { intersectPlaces, type Place, parentOf } from './place.js';
import { elementsOf } from './slapd-elements.js';
import type { SlapdStep } from './slapd-steps.js';
import { PRIVILEGES } from './slapd-syntax.js';
import { intersectWho, simplifyNonEmpty, type WhoSet } from './who-set.js';

const { a, z } = PRIVILEGES;
const WRITE = a | z;

/** Remark for slapd conditions on two entries that a rule cannot express. */
export const TWO_ENTRIES =
  'it gives less of making, removing, renaming and moving: slapd asks of the entry and its parent, a rule of one of them';

/** Combines the privileges on `children` of the parent and on `entry` of the child into rights. */
type CombineRights = (below: number, entry: number) => RightSet;

const AT_ENTRY: CombineRights = (below, entry) =>
  (below & z && entry & z ? rightSet('remove') : 0) |
  ((below & WRITE) === WRITE && (entry & WRITE) === WRITE ? rightSet('rename') : 0) |
  (below & z && (entry & WRITE) === WRITE ? rightSet('moveOut') : 0);
const AT_PARENT: CombineRights = (below, entry) => (below & a && entry & a ? rightSet('create') : 0);

/** A place as seen from the parent or from the child. If not exact, `place` is a superset. */
interface ApproximatePlace {
  readonly place: Place;
  readonly exact: boolean;
}

type ElementStep = Element & SlapdStep;

/**
 * First-match lists for creating, removing, renaming and moving entries. slapd checks privileges on `children` of the
 * parent and on `entry` of the entry itself. So pairs of steps, in order, form a first-match list.
 */
export function structureLists(steps: readonly SlapdStep[]): Element[][] {
  const below = elementsOf(steps, CHILDREN, () => 0);
  const entry = elementsOf(steps, ENTRY, () => 0);
  const atEntry = below.flatMap((parent) =>
    entry.flatMap((own) => {
      const { place, exact } = placeOfChildren(parent.region.place);
      const both = intersectPlaces(place, own.region.place);
      if (!both) return [];
      const sure = exact && parent.region.filters.length === 0;
      const region = { place: both, filters: own.region.filters, attributes: ENTRY };
      return pair(own, parent, region, AT_ENTRY(parent.privileges, own.privileges), sure);
    }),
  );
  const atParent = below.flatMap((parent) =>
    entry.flatMap((own) =>
      placesOfParents(own.region.place).flatMap(({ place, exact }) => {
        const both = intersectPlaces(place, parent.region.place);
        if (!both) return [];
        const sure = exact && own.region.filters.length === 0;
        const region = { place: both, filters: parent.region.filters, attributes: CHILDREN };
        return pair(parent, own, region, AT_PARENT(parent.privileges, own.privileges), sure);
      }),
    ),
  );
  return [atEntry, atParent];
}

/** Combines a step for the entry that a rule applies to with a step for the related entry, its parent or child. */
function pair(
  here: ElementStep,
  there: ElementStep,
  region: Element['region'],
  rights: RightSet,
  sure: boolean,
): Element[] {
  if (here.who.self && there.who.self) return [];
  const other = withoutEntryConditions(there.who);
  const firstThere = there.first && withoutEntryConditions(there.first).who;
  const who = intersectWho(here.who, other.who);
  const first = here.first && firstThere && intersectWho(here.first, firstThere);
  if (!who || !first) return [];
  const inexactReason =
    here.inexactReason ?? there.inexactReason ?? (sure && other.exact && who !== 'unknown' ? undefined : TWO_ENTRIES);
  const { origin } = rights !== 0 && there.origin.line > here.origin.line ? there : here;
  return [
    {
      region,
      who: who === 'unknown' ? here.who : who,
      first: first === 'unknown' ? here.first : first,
      rights,
      inexactReason,
      origin,
    },
  ];
}

/** The part of `who` that does not depend on the related entry. */
function withoutEntryConditions(who: WhoSet): { who: WhoSet; exact: boolean } {
  const { self, attribute, ...rest } = who;
  const hangs = self !== undefined || attribute !== undefined;
  const nots = rest.nots.filter((not) => !dependsOnEntry(not));
  const exact = !hangs && nots.length === rest.nots.length;
  if (exact) return { who, exact };
  return { who: simplifyNonEmpty({ ...rest, ...(hangs && { users: true as const }), nots }), exact };
}

function dependsOnEntry({ self, attribute, nots }: WhoSet): boolean {
  return self !== undefined || attribute !== undefined || nots.some(dependsOnEntry);
}

/** Entries whose parent is in the place. */
function placeOfChildren({ scope, name }: Place): ApproximatePlace {
  if (name.rdns.length === 0) return { place: { scope: 'subtree', name }, exact: scope === 'subtree' };
  if (scope === 'base') return { place: { scope: 'one', name }, exact: true };
  return { place: { scope: 'children', name }, exact: scope === 'subtree' };
}

/** Entries that have a child in the place, except the root: only the administrator adds entries below it. */
function placesOfParents({ scope, name }: Place): ApproximatePlace[] {
  if (scope === 'one') return [{ place: { scope: 'base', name }, exact: true }];
  const parent = parentOf(name);
  const above: ApproximatePlace[] =
    parent && parent.rdns.length > 0 ? [{ place: { scope: 'base', name: parent }, exact: false }] : [];
  if (scope === 'base') return above;
  const within: ApproximatePlace = { place: { scope: 'subtree', name }, exact: true };
  return scope === 'children' ? [within] : [within, ...above];
}
