import { NO_RIGHTS, type Right, type RightSet, rightSet } from '../right.js';
import { type AttributeBits, type Attributes, CHILDREN, ENTRY } from './attribute-bits.js';
import type { Element } from './element.js';
import { regionContains } from './region.js';
import type { Report } from './report.js';
import type { SlapdStep } from './slapd-steps.js';
import { PRIVILEGES } from './slapd-syntax.js';
import { subtractWho, type WhoSet } from './who-set.js';

/** The rights for a set of slapd privileges. */
type Meaning = (privileges: number) => RightSet;

const { a, z, c, s, r, m } = PRIVILEGES;

function meaning(pairs: readonly (readonly [privileges: number, right: Right])[]): Meaning {
  return (given) =>
    pairs.reduce((set, [wanted, right]) => ((given & wanted) === wanted ? set | rightSet(right) : set), NO_RIGHTS);
}

const ON_ATTRIBUTE = meaning([
  [r, 'read'],
  [s, 'search'],
  [c, 'compare'],
  [a, 'add'],
  [z, 'delete'],
  [a | z, 'replace'],
  [m, 'manage'],
]);
const ON_ENTRY = meaning([
  [r | s, 'see'],
  [m, 'manage'],
]);
const BELOW = meaning([[a, 'moveIn']]);

const SEARCH = rightSet('search');
const WRITE = rightSet('add', 'delete', 'replace');

/** First-match lists, one for each kind of object that has rights of its own. */
export function elementLists(steps: readonly SlapdStep[], bits: AttributeBits, report: Report): Element[][] {
  return [
    elementsOf(steps, bits.plain, ON_ATTRIBUTE),
    secretLists(steps, bits, report),
    elementsOf(steps, ENTRY, ON_ENTRY),
    elementsOf(steps, CHILDREN, BELOW),
  ];
}

export function elementsOf(
  steps: readonly SlapdStep[],
  attributes: Attributes,
  rights: Meaning,
): (SlapdStep & Element)[] {
  return withFirst(
    steps.flatMap((step) => {
      const region = { ...step.region, attributes: step.region.attributes & attributes };
      return region.attributes === 0n ? [] : [{ ...step, region, rights: rights(step.privileges) }];
    }),
  );
}

/** Lists for secrets. A line grants rights only on secrets that it names, except writing `userPassword`. */
function secretLists(steps: readonly SlapdStep[], bits: AttributeBits, report: Report): Element[] {
  const untold = new Map<number, string[]>();
  const elements = bits.typesIn(bits.secret).flatMap((type) => {
    const bit = bits.sum([type]);
    const unnamed = type === bits.password ? WRITE : NO_RIGHTS;
    const list = withFirst(
      steps.flatMap((step) => {
        if (!(step.region.attributes & bit)) return [];
        const all = ON_ATTRIBUTE(step.privileges) & ~SEARCH;
        const rights = step.named & bit ? all : all & unnamed;
        return [{ ...step, region: { ...step.region, attributes: bit }, rights, lost: all & ~rights }];
      }),
    );
    const lost = list.find((one) => one.first && one.lost !== NO_RIGHTS && one.inexactReason === undefined)?.origin;
    if (lost && type === bits.password)
      report.add('secrets', lost.line, `'${type.name}' is read and compared by those whom a line that names it lets`);
    else if (lost) untold.set(lost.line, [...(untold.get(lost.line) ?? []), type.name]);
    return list;
  });
  for (const [line, names] of untold)
    report.add('secrets', line, `nothing is given of secrets that no line names: ${names.join(', ')}`);
  return elements;
}

function withFirst<T extends Omit<Element, 'first'> & SlapdStep>(steps: readonly T[]): (T & Element)[] {
  return steps.map((step, i) => {
    let first: WhoSet | undefined = step.who;
    for (const before of steps.slice(0, i)) {
      if (!first) break;
      const isSameName = before.of === step.of && before.isWhoExact;
      if (isSameName || (before.inexactReason === undefined && regionContains(before.region, step.region)))
        first = subtractWho(first, before.who);
    }
    return { ...step, first };
  });
}
