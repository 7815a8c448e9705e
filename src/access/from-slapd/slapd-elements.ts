import { NO_RIGHTS, type Right, type RightSet, rightSet } from '../right.js';
import { type AttributeBits, type Attributes, CHILDREN, ENTRY } from './attribute-bits.js';
import type { Element } from './element.js';
import { regionContains } from './region.js';
import type { Report } from './report.js';
import type { SlapdStep } from './slapd-steps.js';
import { PRIVILEGES } from './slapd-syntax.js';
import { subtractWho, type WhoSet } from './who-set.js';

/** Converts a set of slapd privileges to rights. */
type RightsOfPrivileges = (privileges: number) => RightSet;

const { a, z, c, s, r, m } = PRIVILEGES;

function rightsByPrivileges(pairs: readonly (readonly [privileges: number, right: Right])[]): RightsOfPrivileges {
  return (given) =>
    pairs.reduce((set, [wanted, right]) => ((given & wanted) === wanted ? set | rightSet(right) : set), NO_RIGHTS);
}

const ON_ATTRIBUTE = rightsByPrivileges([
  [r, 'read'],
  [s, 'search'],
  [c, 'compare'],
  [a, 'add'],
  [z, 'delete'],
  [a | z, 'replace'],
  [m, 'manage'],
]);
const ON_ENTRY = rightsByPrivileges([
  [r | s, 'see'],
  [m, 'manage'],
]);
const BELOW = rightsByPrivileges([[a, 'moveIn']]);

const SEARCH = rightSet('search');
const WRITE = rightSet('add', 'delete', 'replace');

/** Returns the first-match lists of a database: for attributes, secrets, entries, and creation below entries. */
export function elementLists(steps: readonly SlapdStep[], bits: AttributeBits, report: Report): Element[][] {
  return [
    elementsOnAttributes(steps, bits.plainBits, ON_ATTRIBUTE),
    secretLists(steps, bits, report),
    elementsOnAttributes(steps, ENTRY, ON_ENTRY),
    elementsOnAttributes(steps, CHILDREN, BELOW),
  ];
}

export function elementsOnAttributes(
  steps: readonly SlapdStep[],
  attributes: Attributes,
  rights: RightsOfPrivileges,
): (SlapdStep & Element)[] {
  return withRemainingWho(
    steps.flatMap((step) => {
      const region = { ...step.region, attributes: step.region.attributes & attributes };
      return region.attributes === 0n ? [] : [{ ...step, region, rights: rights(step.privileges) }];
    }),
  );
}

/** Returns the lists for secrets. A line grants rights on secrets that it names, and writing `userPassword`. */
function secretLists(steps: readonly SlapdStep[], bits: AttributeBits, report: Report): Element[] {
  const unnamedSecrets = new Map<number, string[]>();
  const elements = bits.typesIn(bits.secretBits).flatMap((type) => {
    const bit = bits.sum([type]);
    const unnamedRights = type === bits.passwordType ? WRITE : NO_RIGHTS;
    const list = withRemainingWho(
      steps.flatMap((step) => {
        if (!(step.region.attributes & bit)) return [];
        const allRights = ON_ATTRIBUTE(step.privileges) & ~SEARCH;
        const rights = step.namedAttributes & bit ? allRights : allRights & unnamedRights;
        return [{ ...step, region: { ...step.region, attributes: bit }, rights, lost: allRights & ~rights }];
      }),
    );
    const origin = list.find(
      (one) => one.remainingWho && one.lost !== NO_RIGHTS && one.inexactReason === undefined,
    )?.origin;
    if (origin && type === bits.passwordType)
      report.add('secrets', origin.line, `'${type.name}' is read and compared by those whom a line that names it lets`);
    else if (origin) unnamedSecrets.set(origin.line, [...(unnamedSecrets.get(origin.line) ?? []), type.name]);
    return list;
  });
  for (const [line, names] of unnamedSecrets)
    report.add('secrets', line, `nothing is given of secrets that no line names: ${names.join(', ')}`);
  return elements;
}

function withRemainingWho<T extends Omit<Element, 'remainingWho'> & SlapdStep>(steps: readonly T[]): (T & Element)[] {
  return steps.map((step, i) => {
    let remainingWho: WhoSet | undefined = step.who;
    for (const earlierStep of steps.slice(0, i)) {
      if (!remainingWho) break;
      const isSameName = earlierStep.sourceRegion === step.sourceRegion && earlierStep.isWhoExact;
      if (isSameName || (earlierStep.inexactReason === undefined && regionContains(earlierStep.region, step.region)))
        remainingWho = subtractWho(remainingWho, earlierStep.who);
    }
    return { ...step, remainingWho };
  });
}
