import type { Schema } from '../../schema/schema.js';
import { type RightSet, rightSet } from '../right.js';
import { AciReader } from './aci-rules.js';
import { AttributeBits, CHILDREN, ENTRY } from './attribute-bits.js';
import type { Element, RuleDraft } from './element.js';
import { FirstMatch } from './first-match.js';
import { EVERYWHERE, intersectPlaces, type Place, parentName } from './place.js';
import { type Remark, Report } from './report.js';
import { readLimits } from './slapd-limits.js';
import { elementLists, elementsOnAttributes, type SlapdStep, StepReader } from './slapd-steps.js';
import { PRIVILEGES } from './slapd-syntax.js';
import { WhatReader } from './slapd-what.js';
import { WhoReader } from './slapd-who.js';
import { type LogicalLine, readSource, type SlapdDatabase } from './source.js';
import { intersectWho, simplifyNonEmpty, type WhoSet } from './who-set.js';
import { RuleWords } from './words.js';
import { formatRules } from './write-rules.js';

export interface Translation {
  /** A rules file for `parseRules`. */
  readonly yaml: string;
  /** Remarks about the source, by line. */
  readonly remarks: readonly Remark[];
  /** Number of `access`, `limits` and `aci` values that were translated. */
  readonly translatedCount: number;
}

/** The translation of a list takes time quadratic in the number of its steps, so longer lists are refused. */
const MAX_STEPS = 2000;

/**
 * Translates `access` and `limits` lines of OpenLDAP (slapd.conf, or cn=config in LDIF) and `aci` values (in LDIF) into
 * rules. The rules grant nothing that the source does not grant, except where a remark says `differs`
 * (docs/from-slapd-acls.md).
 */
export function translate(text: string, schema: Schema): Translation {
  const report = new Report();
  const source = readSource(text, report);
  const notation = new RuleWords(schema);
  const bits = new AttributeBits(schema);
  const whoReader = new WhoReader(notation, report);
  const everywhere = { place: EVERYWHERE, filters: [], attributes: bits.allBits };
  const stepReader = new StepReader(new WhatReader(notation, bits, report), whoReader, everywhere, report);
  const drafts = slapdDrafts(source.databases, stepReader, notation, bits, report);
  const aciReader = new AciReader(notation, bits, report);
  const aciDrafts = aciReader.read(source.acis);
  const limits = readLimits([...new Set(source.databases.flatMap((one) => one.limits))], whoReader, report);
  if (source.databases.length > 1)
    for (const { limits: own } of source.databases)
      if (own[0]) report.add('differs', own[0].line, 'limits hold for all suffixes here');
  const remarks = report.remarks();
  const yaml = formatRules([...drafts, ...aciDrafts], limits, remarks, bits, HEAD);
  return { yaml, remarks, translatedCount: stepReader.lineCount + aciReader.aciCount + limits.length };
}

const HEAD = `Rules made from another server's access lines (rowan access from-slapd).
Read them, run "rowan access diff" and "rowan access test", and then "rowan access apply".`;

function slapdDrafts(
  databases: readonly SlapdDatabase[],
  reader: StepReader,
  notation: RuleWords,
  bits: AttributeBits,
  report: Report,
): RuleDraft[] {
  const steps = databasesInOrder(databases, notation, report).flatMap(({ access, places }) =>
    reader.read(access, places),
  );
  if (steps.length > MAX_STEPS) {
    report.add('left', 1, `${steps.length} steps are too many; at most ${MAX_STEPS} are worked out: part the file`);
    return [];
  }
  return [
    ...elementLists(steps, bits, report).map((list) => new FirstMatch(list, bits, report)),
    ...boundedStructureLists(steps, report).map((list) => new FirstMatch(list, bits, report, TWO_ENTRIES)),
  ].flatMap(({ drafts }) => drafts);
}

function boundedStructureLists(steps: readonly SlapdStep[], report: Report) {
  const lists = structureLists(steps);
  if (lists.every((list) => list.length <= MAX_STEPS)) return lists;
  report.add('left', 1, 'who may make, remove, rename and move entries is too much to be worked out: part the file');
  return [];
}

interface PlacedDatabase {
  readonly access: readonly LogicalLine[];
  readonly places: readonly Place[];
}

/** Returns the databases, deepest suffix first: slapd uses the database with the longest matching suffix. */
function databasesInOrder(databases: readonly SlapdDatabase[], notation: RuleWords, report: Report): PlacedDatabase[] {
  if (databases.length === 1) return [{ access: databases[0]!.access, places: [EVERYWHERE] }];
  const placed = databases.flatMap(({ suffixes, access }) =>
    suffixes.flatMap((suffix) => {
      const base = notation.toName(suffix);
      if (!('why' in base)) return [{ access, places: [{ scope: 'subtree', base }] as const, depth: base.rdns.length }];
      report.add('left', access[0]?.line ?? 1, `the suffix '${suffix}' is no name: ${base.why}`);
      return [];
    }),
  );
  return placed.sort((a, b) => b.depth - a.depth);
}

const { a, z } = PRIVILEGES;
const WRITE = a | z;

/** Remark for slapd conditions on two entries that a rule cannot express. */
const TWO_ENTRIES =
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
function structureLists(steps: readonly SlapdStep[]): Element[][] {
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
