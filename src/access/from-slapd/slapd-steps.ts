import type { Attributes } from './attribute-bits.js';
import type { Origin } from './element.js';
import type { LogicalLine } from './logical-lines.js';
import { intersectPlaces, type Place } from './place.js';
import type { Region } from './region.js';
import type { Report } from './report.js';
import { PRIVILEGES, parseClause, type SlapdBy, type SlapdClause, SlapdSyntaxError } from './slapd-syntax.js';
import type { WhatReader } from './slapd-what.js';
import type { WhoReader } from './slapd-who.js';
import { areDisjoint, EVERYBODY, subtractWho, type WhoSet } from './who-set.js';

/** A step of a first-match list with slapd's privileges. */
export interface SlapdStep {
  readonly region: Region;
  readonly named: Attributes;
  readonly who: WhoSet;
  readonly privileges: number;
  readonly inexactReason: string | undefined;
  /** The region of the clause. Within a region, steps with `isWhoExact` match exactly the requesters of the source. */
  readonly of: object;
  readonly isWhoExact: boolean;
  readonly origin: Origin;
}

const READ = PRIVILEGES.d | PRIVILEGES.x | PRIVILEGES.c | PRIVILEGES.s | PRIVILEGES.r;
const MAX_TEXT = 100;

/** Translates the lines of a database into steps, limited to the entries of the database if its suffixes are known. */
export class StepReader {
  readonly #what: WhatReader;
  readonly #who: WhoReader;
  readonly #report: Report;
  readonly #everything: Region;
  /** Numbers of the lines that were parsed. */
  readonly #lines = new Set<number>();

  constructor(what: WhatReader, who: WhoReader, everything: Region, report: Report) {
    this.#what = what;
    this.#who = who;
    this.#everything = everything;
    this.#report = report;
  }

  /** Number of lines that were parsed. */
  get count(): number {
    return this.#lines.size;
  }

  read(lines: readonly LogicalLine[], within: readonly Place[]): SlapdStep[] {
    const clauses = lines.map((line) => this.#clause(line));
    const steps = clauses.flatMap((clause, i) => {
      const isCarried = clauses.slice(0, i).some((before) => !before || before.by.some(carriesOn));
      return clause ? this.#steps(clause, isCarried) : [this.#unknownStep(lines[i]!)];
    });
    if (lines.length === 0) steps.push(this.#stepForAll(READ, { line: 1, text: 'no lines: all may read' }));
    return within.flatMap((place) => [
      ...steps.flatMap((step) => clip(step, place)),
      {
        ...this.#stepForAll(0, { line: lines.at(-1)?.line ?? 1, text: 'the end' }),
        region: { ...this.#everything, place },
      },
    ]);
  }

  #stepForAll(privileges: number, origin: Origin): SlapdStep {
    const region = this.#everything;
    return {
      region,
      named: 0n,
      who: EVERYBODY,
      privileges,
      inexactReason: undefined,
      of: origin,
      isWhoExact: true,
      origin,
    };
  }

  #clause(line: LogicalLine): SlapdClause | undefined {
    try {
      const clause = parseClause(line);
      this.#lines.add(line.line);
      return clause;
    } catch (error) {
      if (!(error instanceof SlapdSyntaxError)) throw error;
      this.#report.add('left', line.line, `it cannot be read: ${error.message}`);
      return undefined;
    }
  }

  /** A step with unknown content: the following steps cannot be sure. */
  #unknownStep({ line, text }: LogicalLine): SlapdStep {
    return { ...this.#stepForAll(0, { line, text }), inexactReason: 'it cannot be read' };
  }

  /** `isCarried`: whether earlier lines may leave privileges that this line adds to. */
  #steps({ line, what, by }: SlapdClause, isCarried: boolean): SlapdStep[] {
    const regions = this.#what.read(what, line);
    if (regions.length === 0) return [];
    const passed: { who: WhoSet; inexactReason: string | undefined }[] = [];
    const steps: SlapdStep[] = [];
    let carried = isCarried;
    const push = (given: WhoSet, privileges: number, why: string | undefined, text: string) => {
      const held = passed.find(({ who, inexactReason }) => inexactReason !== undefined && !areDisjoint(who, given));
      let who: WhoSet | undefined = given;
      for (const one of passed) if (who && one.inexactReason === undefined) who = subtractWho(who, one.who);
      if (!who) return;
      for (const of of regions) {
        const { named, inexactReason, ...region } = of;
        const unsureWho = why ?? held?.inexactReason;
        const origin = { line, text };
        steps.push({
          region,
          named,
          who,
          privileges,
          inexactReason: inexactReason ?? unsureWho,
          of,
          isWhoExact: unsureWho === undefined,
          origin,
        });
      }
    };
    for (const one of by) {
      const { who, inexactReason } = this.#who.read(one.who, line);
      const text = truncate(`to ${what.text} by ${one.text}`);
      if (who && one.control === 'break') passed.push({ who, inexactReason });
      else if (who && one.control === 'stop') push(who, this.#privileges(one, carried, line), inexactReason, text);
      if (one.control !== 'stop') carried ||= carriesOn(one);
    }
    push(EVERYBODY, 0, undefined, truncate(`to ${what.text} by * none`));
    this.#reportInexact(regions, steps);
    return steps;
  }

  #privileges({ text, access }: SlapdBy, carried: boolean, line: number): number {
    const { how, privileges, ownValues } = access;
    if (privileges & PRIVILEGES.x && privileges <= (PRIVILEGES.d | PRIVILEGES.x))
      this.#report.add('said', line, `'${text}': binding needs no right here, so this gives nothing`);
    if (ownValues && privileges > 0) {
      this.#report.add('left', line, `'${text}': no rule is about the values alone that are the DN of who asks`);
      return 0;
    }
    if (how !== '=' && carried && (how === '-' || privileges > 0 || access.how === '+'))
      this.#report.add('less', line, `'${text}': what lines before it leave to be added to is not added`);
    return how === '-' ? 0 : privileges;
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

/** Whether the `by` clause passes privileges on to later clauses. */
function carriesOn({ control, access }: SlapdBy): boolean {
  return control !== 'stop' && access.how !== '-' && access.privileges > 0;
}

function clip(step: SlapdStep, place: Place): SlapdStep[] {
  const both = intersectPlaces(step.region.place, place);
  return both ? [{ ...step, region: { ...step.region, place: both } }] : [];
}

function truncate(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}…`;
}
