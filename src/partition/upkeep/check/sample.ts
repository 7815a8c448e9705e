import { keysOf } from '../../../store/batches.js';
import type { KeyRange } from '../../../store/contract.js';
import { keyAfter } from '../../../store/tables.js';
import type { Breach } from '../../model/directory-types.js';
import { isComplete } from '../../model/index-set.js';
import type { Piecework } from '../../model/piecework.js';
import { drawRuns, type SampleRuns } from '../../model/sample-runs.js';
import { MASTER_TABLE } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import type { WriteContext } from '../../write/context.js';
import { runSurvey } from './check.js';
import { checkEntriesIn, type EntryRow } from './entries.js';
import type { Survey } from './survey.js';

export interface SampleResult {
  readonly entryCount: number;
  readonly breaches: readonly Breach[];
}

/**
 * Checks a random sample of entries: each entry with its tree row, large values and index rows, as `check` does.
 * Counters are not checked. The sample consists of runs of 50 entries. An entry in several runs counts once.
 */
export async function sampleCheck(
  context: WriteContext,
  entries: number,
  piecework?: Piecework,
): Promise<SampleResult> {
  const runs = await drawRuns(context.store, entries);
  const result = await checkRuns(context, runs, piecework);
  if (result.breaches.length === 0 || context.store.supports.snapshot) return result;
  // A plan that is only partly applied looks like a breach. Check again when all decided plans are applied.
  await context.store.waitUntilQuiet?.();
  const secondResult = await checkRuns(context, runs, piecework);
  const firstTexts = new Set(result.breaches.map(breachText));
  const breaches = secondResult.breaches.filter((breach) => firstTexts.has(breachText(breach)));
  return { entryCount: secondResult.entryCount, breaches };
}

const breachText = ({ invariant, where, message }: Breach): string => `${invariant} ${where}: ${message}`;

async function checkRuns(
  context: WriteContext,
  { keys, runLength }: SampleRuns,
  piecework: Piecework | undefined,
): Promise<SampleResult> {
  const breaches: Breach[] = [];
  /** The entryUUIDs (Latin-1) of checked entries, as runs may overlap. */
  const checkedIds = new Set<string>();
  await runSurvey(
    context,
    ({ breach }) => void breaches.push(breach),
    () => piecework?.proceed(),
    async (pass) => {
      for (const place of keys) {
        await piecework?.proceed();
        const checkedCount = await checkRun(pass, { from: place }, runLength, checkedIds);
        // Continue at the first entry after the last one, so that all entries are equally likely to be drawn.
        if (checkedCount < runLength) await checkRun(pass, { to: place }, runLength - checkedCount, checkedIds);
      }
    },
  );
  return { entryCount: checkedIds.size, breaches };
}

/** Checks at most `limit` entries of a range, from its start. Returns their number. */
async function checkRun(survey: Survey, range: KeyRange, limit: number, checkedIds: Set<string>): Promise<number> {
  const keys = await keysOf(survey.reader.scan(MASTER_TABLE.name, range, { limit, keysOnly: true }));
  if (keys.length === 0) return 0;
  for (const key of keys) checkedIds.add(key.toString('latin1'));
  const checkedRange = { from: keys[0]!, to: keyAfter(keys.at(-1)!) };
  await checkEntriesIn(survey, checkedRange, (entries) => checkPostings(survey, entries));
  return keys.length;
}

/** Checks that the index rows of the entries exist in all complete indexes. */
async function checkPostings(survey: Survey, entries: readonly EntryRow[]): Promise<void> {
  for (const { id, impliedRows } of entries) {
    const rows = (impliedRows?.rows ?? []).filter(({ index }) => isComplete(index));
    const rowCounts = await Promise.all(
      rows.map(({ index, keyPrefix: prefix }) => {
        const key = Buffer.concat([prefix, id]);
        return survey.reader.count(index.table, { from: key, to: keyAfter(key) }, 1);
      }),
    );
    for (const [i, { index }] of rows.entries())
      if (rowCounts[i] === 0)
        await survey.report('index', uuidText(id), `an index row of '${index.type.name}' is missing; repair adds it`);
  }
}
