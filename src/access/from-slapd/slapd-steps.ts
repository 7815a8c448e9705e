import { NO_RIGHTS, type Right, type RightSet, rightSet } from '../right.js';
import { type AttributeBits, type Attributes, CHILDREN, ENTRY } from './attribute-bits.js';
import type { Element, Origin } from './element.js';
import { intersectPlaces, type Place, type Region, regionContains } from './place.js';
import type { Report } from './report.js';
import { PRIVILEGES, parseClause, type SlapdBy, type SlapdClause, SlapdSyntaxError } from './slapd-syntax.js';
import type { WhatReader } from './slapd-what.js';
import type { WhoReader } from './slapd-who.js';
import type { LogicalLine } from './source.js';
import { areDisjoint, EVERYBODY, subtractWho, type WhoSet } from './who-set.js';

/** A step of a first-match list with the privileges of slapd, before they are converted to rights. */
export interface SlapdStep {
  readonly region: Region;
  readonly namedAttributes: Attributes;
  readonly who: WhoSet;
  readonly privileges: number;
  readonly inexactReason: string | undefined;
  /** Identifies the region of the `access` line. All steps of one line and region have the same object. */
  readonly sourceRegion: object;
  readonly isWhoExact: boolean;
  readonly origin: Origin;
}

const READ = PRIVILEGES.d | PRIVILEGES.x | PRIVILEGES.c | PRIVILEGES.s | PRIVILEGES.r;
const MAX_TEXT = 100;

/** Translates the lines of a database into steps for the entries of the database, if its suffixes are known. */
export class StepReader {
  readonly #whatReader: WhatReader;
  readonly #whoReader: WhoReader;
  readonly #report: Report;
  readonly #everywhere: Region;
  readonly #parsedLines = new Set<number>();

  constructor(what: WhatReader, who: WhoReader, everything: Region, report: Report) {
    this.#whatReader = what;
    this.#whoReader = who;
    this.#everywhere = everything;
    this.#report = report;
  }

  get lineCount(): number {
    return this.#parsedLines.size;
  }

  read(lines: readonly LogicalLine[], places: readonly Place[]): SlapdStep[] {
    const clauses = lines.map((line) => this.#parseClause(line));
    const steps = clauses.flatMap((clause, i) => {
      const hasPassedOn = clauses.slice(0, i).some((before) => !before || before.by.some(passesPrivileges));
      return clause ? this.#clauseSteps(clause, hasPassedOn) : [this.#unknownStep(lines[i]!)];
    });
    if (lines.length === 0) steps.push(this.#stepForAll(READ, { line: 1, text: 'no lines: all may read' }));
    return places.flatMap((place) => [
      ...steps.flatMap((step) => clipStep(step, place)),
      {
        ...this.#stepForAll(0, { line: lines.at(-1)?.line ?? 1, text: 'the end' }),
        region: { ...this.#everywhere, place },
      },
    ]);
  }

  #stepForAll(privileges: number, origin: Origin): SlapdStep {
    const region = this.#everywhere;
    return {
      region,
      namedAttributes: 0n,
      who: EVERYBODY,
      privileges,
      inexactReason: undefined,
      sourceRegion: origin,
      isWhoExact: true,
      origin,
    };
  }

  #parseClause(line: LogicalLine): SlapdClause | undefined {
    try {
      const clause = parseClause(line);
      this.#parsedLines.add(line.line);
      return clause;
    } catch (error) {
      if (!(error instanceof SlapdSyntaxError)) throw error;
      this.#report.add('left', line.line, `it cannot be read: ${error.message}`);
      return undefined;
    }
  }

  /** Returns the step for a line that cannot be parsed. Later steps grant nothing, since this line may decide. */
  #unknownStep({ line, text }: LogicalLine): SlapdStep {
    return { ...this.#stepForAll(0, { line, text }), inexactReason: 'it cannot be read' };
  }

  /** `hasPassedOn`: whether earlier lines may have passed on privileges, to which this line adds. */
  #clauseSteps({ line, what, by }: SlapdClause, hasPassedOn: boolean): SlapdStep[] {
    const regions = this.#whatReader.read(what, line);
    if (regions.length === 0) return [];
    const passingClauses: { who: WhoSet; inexactReason: string | undefined }[] = [];
    const steps: SlapdStep[] = [];
    let mayAddPrivileges = hasPassedOn;
    const pushSteps = (requesters: WhoSet, privileges: number, reason: string | undefined, text: string) => {
      const unsureClause = passingClauses.find(
        ({ who, inexactReason }) => inexactReason !== undefined && !areDisjoint(who, requesters),
      );
      let who: WhoSet | undefined = requesters;
      for (const one of passingClauses) if (who && one.inexactReason === undefined) who = subtractWho(who, one.who);
      if (!who) return;
      for (const sourceRegion of regions) {
        const { namedAttributes, inexactReason, ...region } = sourceRegion;
        const whoReason = reason ?? unsureClause?.inexactReason;
        const origin = { line, text };
        steps.push({
          region,
          namedAttributes,
          who,
          privileges,
          inexactReason: inexactReason ?? whoReason,
          sourceRegion,
          isWhoExact: whoReason === undefined,
          origin,
        });
      }
    };
    for (const byClause of by) {
      const { who, inexactReason } = this.#whoReader.read(byClause.who, line);
      const text = truncate(`to ${what.text} by ${byClause.text}`);
      if (who && byClause.control === 'break') passingClauses.push({ who, inexactReason });
      else if (who && byClause.control === 'stop')
        pushSteps(who, this.#grantedPrivileges(byClause, mayAddPrivileges, line), inexactReason, text);
      if (byClause.control !== 'stop') mayAddPrivileges ||= passesPrivileges(byClause);
    }
    pushSteps(EVERYBODY, 0, undefined, truncate(`to ${what.text} by * none`));
    this.#reportInexact(regions, steps);
    return steps;
  }

  #grantedPrivileges({ text, access }: SlapdBy, hasCarriedPrivileges: boolean, line: number): number {
    const { operator, privileges, coversOwnValues } = access;
    if (privileges & PRIVILEGES.x && privileges <= (PRIVILEGES.d | PRIVILEGES.x))
      this.#report.add('said', line, `'${text}': binding needs no right here, so this gives nothing`);
    if (coversOwnValues && privileges > 0) {
      this.#report.add('left', line, `'${text}': no rule is about the values alone that are the DN of who asks`);
      return 0;
    }
    if (operator !== '=' && hasCarriedPrivileges && (operator === '-' || privileges > 0 || access.operator === '+'))
      this.#report.add('less', line, `'${text}': what lines before it leave to be added to is not added`);
    return operator === '-' ? 0 : privileges;
  }

  #reportInexact(
    regions: readonly { readonly inexactReason: string | undefined }[],
    steps: readonly SlapdStep[],
  ): void {
    const line = steps[0]?.origin.line;
    for (const { inexactReason } of regions)
      if (inexactReason !== undefined && line !== undefined) this.#report.add('left', line, inexactReason);
    for (const { inexactReason, origin } of steps)
      if (inexactReason !== undefined) this.#report.add('left', origin.line, inexactReason);
  }
}

/** Whether the `by` clause may pass privileges on to later clauses. */
function passesPrivileges({ control, access }: SlapdBy): boolean {
  return control !== 'stop' && access.operator !== '-' && access.privileges > 0;
}

function clipStep(step: SlapdStep, place: Place): SlapdStep[] {
  const intersection = intersectPlaces(step.region.place, place);
  return intersection ? [{ ...step, region: { ...step.region, place: intersection } }] : [];
}

function truncate(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}…`;
}

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
