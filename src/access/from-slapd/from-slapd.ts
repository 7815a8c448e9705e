import type { Schema } from '../../schema/schema.js';
import { AciReader } from './aci-rules.js';
import { AttributeBits } from './attribute-bits.js';
import type { RuleDraft } from './element.js';
import { FirstMatch } from './first-match.js';
import type { LogicalLine } from './logical-lines.js';
import { EVERYWHERE, type Place } from './place.js';
import { type Remark, Report } from './report.js';
import { readLimits } from './slapd-limits.js';
import { elementLists, type SlapdStep, StepReader } from './slapd-steps.js';
import { WhatReader } from './slapd-what.js';
import { WhoReader } from './slapd-who.js';
import { readSource, type SlapdDatabase } from './source.js';
import { structureLists, TWO_ENTRIES } from './structure.js';
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
