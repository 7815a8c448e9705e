import type { KeyRange, PlanStep } from '../../../store/contract.js';
import { isPromise, keysOf } from '../../../store/maybe.js';
import { keyAfter } from '../../../store/tables.js';
import { isDecoyRow, stateOfRow } from '../../model/account-state.js';
import type { Breach } from '../../model/directory-types.js';
import { isComplete } from '../../model/index-set.js';
import type { Piecework } from '../../model/piecework.js';
import { drawRuns, type SampleRuns } from '../../model/sample-runs.js';
import { DELETED_TABLE, MASTER, MASTER_TABLE, Q, STATE_TABLE, TREE_TABLE } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { describeLoss, missingTables } from '../../tree/missing-tables.js';
import { readSharedRow } from '../../tree/shared-row.js';
import type { WriteContext } from '../../write/context.js';
import { checkHistory } from './deleted-rows.js';
import { checkEntries, checkEntriesIn, type EntryRow } from './entries.js';
import { checkIndexRows } from './index-table.js';
import { checkLostChunks } from './large-values.js';
import { rowProblem } from './record.js';
import { checkSettings } from './stored-form.js';
import { type BreachReport, type OnPasswords, type OnProgress, placeOf, type ReportBreach, Survey } from './survey.js';
import { checkTree, checkTreeRows } from './tree.js';
import { checkUnique } from './unique-values.js';

/** The most breaches that are surveyed again, because concurrent writes may explain them. */
const MAX_TRANSIENT = 10_000;

/**
 * Verifies every invariant of the directory (docs/formats/tables.md), and reports each breach. Returns the number of
 * breaches. Reads one snapshot if the engine has snapshots, so that writers may continue. On other engines a plan that
 * is only partly applied looks like a breach; if its front end has died, until another one applies it. There a breach
 * counts only if a second survey finds it again, after all decided plans are completely applied. Takes 36 bytes and a
 * few counters of memory per entry.
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
  if (context.store.supports.snapshot)
    return survey(context, ({ breach }) => onBreach(breach), onProgress, onPasswords);
  const breachesFound = new Map<string, Breach>();
  const breachCount = await survey(
    context,
    ({ breach }) => {
      if (breachesFound.size > MAX_TRANSIENT) return onBreach(breach);
      breachesFound.set(breachText(breach), breach);
      if (breachesFound.size > MAX_TRANSIENT) for (const earlier of breachesFound.values()) onBreach(earlier);
    },
    onProgress,
    onPasswords,
  );
  if (breachesFound.size === 0 || breachesFound.size > MAX_TRANSIENT) return breachCount;
  await context.store.waitUntilQuiet?.();
  let confirmedCount = 0;
  const reportConfirmed = ({ breach }: BreachReport): void => {
    if (!breachesFound.delete(breachText(breach))) return;
    confirmedCount++;
    onBreach(breach);
  };
  await survey(context, reportConfirmed, onProgress);
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
      const problem = rowProblem(rows[i]!) ?? stateProblem(rows[i]!);
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

function stateProblem(row: Buffer): string | undefined {
  try {
    stateOfRow(row);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
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
  const result = await checkRuns(context, runs, piecework);
  if (result.breaches.length === 0 || context.store.supports.snapshot) return result;
  // A plan that is only partly applied looks like a breach. Check again when all decided plans are applied.
  await context.store.waitUntilQuiet?.();
  const secondResult = await checkRuns(context, runs, piecework);
  const firstTexts = new Set(result.breaches.map(breachText));
  const breaches = secondResult.breaches.filter((breach) => firstTexts.has(breachText(breach)));
  return { entryCount: secondResult.entryCount, breaches };
}

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
