import type { KeyRange, Maybe, PlanStep } from '../../../store/contract.js';
import { isPromise, keysOf } from '../../../store/maybe.js';
import { keyAfter } from '../../../store/tables.js';
import { isDecoyRow, stateOfRow } from '../../model/account-state.js';
import type { Breach } from '../../model/directory-types.js';
import { isComplete } from '../../model/index-set.js';
import type { Piecework } from '../../model/piecework.js';
import { drawRuns, type SampleRuns } from '../../model/sample-runs.js';
import { DELETED_TABLE, MASTER, MASTER_TABLE, Q, STATE_TABLE, TREE_TABLE } from '../../model/tables.js';
import { describeLoss, missingTables } from '../../tree/missing-tables.js';
import { readSharedRow } from '../../tree/shared-row.js';
import type { WriteContext } from '../../write/context.js';
import { checkHistory } from './deleted-rows.js';
import { checkEntries, checkEntriesIn, type EntryRow } from './entries.js';
import { checkIndexRows, reportMissingRows } from './index-table.js';
import { checkLostChunks } from './large-values.js';
import { corruption } from './record.js';
import { checkSettings } from './stored-form.js';
import { type BreachReport, type OnPasswords, type OnProgress, placeOf, type ReportBreach, Survey } from './survey.js';
import { checkTree, checkTreeRows } from './tree.js';
import { checkUnique } from './unique-values.js';

/** The most breaches that are surveyed again, because concurrent writes may explain them. */
const MAX_TRANSIENT = 10_000;

/**
 * Verifies every invariant of the directory (docs/formats/tables.md), and reports each breach. Returns the number of
 * breaches. Reads one snapshot if the engine has snapshots, so that writers may continue. On other engines it looks for
 * breaches twice (`confirmed`). Takes 36 bytes and a few counters of memory per entry.
 * ~ If tables are missing, nothing else is checked. `onPasswords` receives the passwords of each entry that has any.
 */
export async function check(
  context: WriteContext,
  onBreach: (breach: Breach) => void,
  onProgress?: (entriesRead: number, table?: string) => void,
  onPasswords?: OnPasswords,
): Promise<number> {
  const missing = await missingTables(context.store);
  for (const error of missing) onBreach(lossOf(error));
  if (missing.length > 0) return missing.length;
  return confirmed(
    context,
    ({ breach }) => onBreach(breach),
    // Without the fixes, which would take much memory.
    (report, isFirst) =>
      survey(
        context,
        ({ breach }) => report({ breach, fix: undefined }),
        onProgress,
        isFirst ? onPasswords : undefined,
      ),
    MAX_TRANSIENT,
  );
}

/**
 * Runs a survey and reports its breaches. On an engine without snapshots a plan that is only partly applied looks like
 * a breach; if its front end has died, until another one applies it. There the survey runs again after all decided
 * plans are completely applied, and a breach counts only if both surveys find it. More than `limit` breaches are
 * reported at once. Returns the number of breaches.
 */
export async function confirmed(
  context: WriteContext,
  report: ReportBreach,
  run: (report: ReportBreach, isFirst: boolean) => Promise<number>,
  limit = Number.POSITIVE_INFINITY,
): Promise<number> {
  if (context.store.supports.snapshot) return run(report, true);
  const found = new Map<string, BreachReport>();
  const collect = async (finding: BreachReport): Promise<void> => {
    if (found.size > limit) return report(finding);
    found.set(breachText(finding.breach), finding);
    if (found.size > limit) for (const earlier of found.values()) await report(earlier);
  };
  const breachCount = await run(collect, true);
  if (found.size === 0 || found.size > limit) return breachCount;
  await context.store.waitUntilQuiet?.();
  let confirmedCount = 0;
  const reportConfirmed = (finding: BreachReport): Maybe<void> => {
    if (!found.delete(breachText(finding.breach))) return;
    confirmedCount++;
    return report(finding);
  };
  await run(reportConfirmed, false);
  return confirmedCount;
}

export function lossOf({ table, message }: { table: string; message: string }): Breach {
  return { invariant: 'table', where: table, message: `${message}; ${describeLoss(table)}` };
}

function breachText({ invariant, where, message }: Breach): string {
  return `${invariant} ${where}: ${message}`;
}

/**
 * Checks the whole directory once. `report` may repair breaches at once: the survey continues to read the state at its
 * start. `isRepair`: damage is searched for first, so that no repair depends on rows that are hidden by damage.
 */
export async function survey(
  context: WriteContext,
  report: ReportBreach,
  onProgress?: OnProgress,
  onPasswords?: OnPasswords,
  isRepair = false,
): Promise<number> {
  return runSurvey(context, report, onProgress, async (pass) => {
    pass.onPasswords = onPasswords;
    if (isRepair) await pass.findDamage([MASTER_TABLE.name, TREE_TABLE.name, DELETED_TABLE.name]);
    await checkSettings(pass);
    await pass.runPart('entries', checkEntries);
    for (const table of [MASTER_TABLE.name, DELETED_TABLE.name])
      await pass.runPart('large values', () => checkLostChunks(pass, table));
    await pass.runPart('tree', checkTree);
    await pass.runPart('tree rows', checkTreeRows);
    await pass.runPart('index rows', checkIndexRows);
    await pass.runPart('history', checkHistory);
    await pass.runPart('account states', checkAccountStates);
    await pass.runPart('unique values', checkUnique);
    await pass.reportSkipped();
  });
}

/** Checks the entries, their positions in the tree, and the counters. */
export function surveyTree(context: WriteContext, report: ReportBreach, onProgress: OnProgress): Promise<number> {
  return runSurvey(context, report, onProgress, async (pass) => {
    await pass.findDamage([MASTER_TABLE.name, TREE_TABLE.name]);
    await pass.runPart('entries', checkEntries);
    await pass.runPart('tree', checkTree);
  });
}

/** Runs the checks of `look` on one snapshot. Returns the number of breaches. */
export async function runSurvey(
  context: WriteContext,
  report: ReportBreach,
  onProgress: OnProgress | undefined,
  look: (pass: Survey) => Promise<void>,
): Promise<number> {
  const maybeRefresh = context.shared.refresh();
  if (isPromise(maybeRefresh)) await maybeRefresh;
  const snapshot = context.store.snapshot();
  try {
    const maybeRow = readSharedRow(snapshot, context.schema);
    const pass = new Survey(context, snapshot, isPromise(maybeRow) ? await maybeRow : maybeRow, report, onProgress);
    await look(pass);
    return pass.breachCount;
  } finally {
    snapshot.close();
  }
}

/** Checks that each account state can be read and belongs to an entry. */
async function checkAccountStates(survey: Survey): Promise<void> {
  if (!survey.context.hasStates) return;
  if (!survey.isFullyReadable(MASTER_TABLE.name)) survey.noteSkipped('account states of no entry', MASTER_TABLE.name);
  await survey.forEachBatch(STATE_TABLE.name, false, async (keys, rows) => {
    const entries = await survey.getMany(MASTER_TABLE.name, keys);
    for (const [i, key] of keys.entries()) {
      if (isDecoyRow(key)) continue;
      const problem = corruption(() => stateOfRow(rows[i]!));
      const isLost = !entries[i] && survey.isFullyReadable(MASTER_TABLE.name);
      if (!problem && !isLost) continue;
      const message = problem ? `the account state cannot be read: ${problem}` : 'an account state belongs to no entry';
      const absentGuard = { op: 'absent', family: MASTER.treeInfo, qualifier: Q.version } as const;
      const fix: PlanStep[] = [{ table: STATE_TABLE.name, key, deleteRow: true }];
      if (!problem) fix.push({ table: MASTER_TABLE.name, key, guards: [absentGuard] });
      await survey.report('state', placeOf(key), `${message}; repair removes it`, fix);
    }
  });
}

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
  const breaches: Breach[] = [];
  /** The entryUUIDs (Latin-1) of checked entries, as runs may overlap. */
  const checkedIds = new Set<string>();
  await confirmed(
    context,
    ({ breach }) => void breaches.push(breach),
    (report) => {
      checkedIds.clear();
      return checkRuns(context, runs, checkedIds, report, piecework);
    },
  );
  return { entryCount: checkedIds.size, breaches };
}

function checkRuns(
  context: WriteContext,
  { keys, runLength }: SampleRuns,
  checkedIds: Set<string>,
  report: ReportBreach,
  piecework: Piecework | undefined,
): Promise<number> {
  return runSurvey(
    context,
    report,
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
  for (const index of survey.indexes.list.filter(isComplete)) {
    const implying = entries.map(({ id, row, impliedRows }) => {
      const rows = impliedRows?.rows.filter((implied) => implied.index === index) ?? [];
      return { id, row, prefixes: rows.map(({ keyPrefix }) => keyPrefix) };
    });
    await reportMissingRows(survey, index, implying);
  }
}
