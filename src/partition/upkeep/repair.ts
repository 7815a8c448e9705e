import { LdapError } from '../../ldap/ldap-error.js';
import type { PlanStep } from '../../store/contract.js';
import { guardsHold } from '../../store/store-error.js';
import { addIndex } from '../index/index-admin.js';
import { buildIndexes } from '../index/index-build.js';
import type { Breach } from '../model/directory-types.js';
import { GROUPS_STEP } from '../model/group-rows.js';
import { type Piecework, withFence } from '../model/piecework.js';
import { isDamage } from '../model/store-errors.js';
import { indexTable } from '../model/tables.js';
import { isMadeAnew, missingTables, noteMissing } from '../tree/missing-tables.js';
import type { WriteContext } from '../write/context.js';
import { confirmed, lossOf, survey, surveyTree } from './check/check.js';
import type { BreachReport, ReportBreach } from './check/survey.js';

/** The most passes. Rows that derive from repaired rows are repaired in the next pass. */
const MAX_PASSES = 12;
/** Called for each breach. `isRepaired`: whether it was repaired. */
export type OnRepaired = (breach: Breach, isRepaired: boolean) => void;

const FIX_BATCH = 256;

/**
 * Makes missing tables anew. Rebuilds tree rows, counters, normAttributes and index rows from table master alone.
 * Returns the number of repaired breaches. Never removes entries: an entry without a parent, or in a cycle, is moved
 * below the first suffix under a unique name (docs/operations.md). Writers may continue: every fix guards the rows that
 * it derives from, and an outdated fix is made again in the next pass. A directory without breaches is not changed.
 * ~ If rows cannot be read, nothing that depends on their contents is written. `onBreach` is called for each repaired
 * breach and, at the end, for each remaining one.
 */
export async function repair(
  context: WriteContext,
  onBreach?: OnRepaired,
  onProgress?: (entriesRead: number) => void,
): Promise<number> {
  let repairedCount = await makeTables(context, onBreach);
  for (let pass = 1; ; pass++) {
    const openBreaches: Breach[] = [];
    let pending: BreachReport[] = [];
    let doneCount = 0;
    /** Commits many fixes concurrently, so that they share flushes to disk. */
    const flush = async (): Promise<void> => {
      const reports = pending;
      pending = [];
      const results = await Promise.all(reports.map((finding) => applyFix(context, finding, openBreaches)));
      for (const { breach } of reports.filter((_, i) => results[i])) {
        doneCount++;
        onBreach?.(breach, true);
      }
    };
    const report: ReportBreach = ({ breach, fix }) => {
      if (!fix) openBreaches.push(breach);
      else if (pending.push({ breach, fix }) >= FIX_BATCH) return flush();
    };
    await survey(context, report, onProgress, undefined, true);
    await flush();
    repairedCount += doneCount;
    if (doneCount > 0) context.nodes.clear();
    if (doneCount === 0 || pass === MAX_PASSES) {
      // Invalidate cached memberships, which may derive from wrong rows.
      if (repairedCount > 0) await context.store.commit({ steps: [GROUPS_STEP], decisive: 0 });
      for (const breach of openBreaches) onBreach?.(breach, false);
      return repairedCount;
    }
  }
}

/** Commits a fix. Returns false if it is outdated or, which goes to `openBreaches`, damage prevents it. */
async function applyFix(
  context: WriteContext,
  { breach, fix }: BreachReport,
  openBreaches: Breach[],
): Promise<boolean> {
  try {
    return await guardsHold(context.store.commit({ steps: fix!, decisive: 0 }));
  } catch (error) {
    if (!isDamage(error)) throw error;
    openBreaches.push({ ...breach, message: `${breach.message}: not done, as ${error.message}` });
    return false;
  }
}

/** Makes missing tables anew, and builds the indexes that are lost. Returns the number of tables and indexes. */
async function makeTables(context: WriteContext, onBreach: OnRepaired | undefined): Promise<number> {
  const missing = await missingTables(context.store);
  const vital = missing.find((error) => !isMadeAnew(error));
  if (vital) throw new LdapError('unavailable', lossOf(vital).message);
  const specs = await context.store.tables();
  let count = 0;
  for (const error of missing) {
    if (await noteMissing(context, error)) continue;
    await context.store.createTable(specs.find(({ name }) => name === error.table)!);
    onBreach?.(lossOf(error), true);
    count++;
  }
  const lost = context.shared.indexes.info().filter(({ state }) => state === 'lost');
  for (const { attribute, oid, substring, made = false } of lost) {
    await addIndex(context, attribute, { substring, isMade: made });
    const message = `the index of ${attribute} is lost; repair builds it anew`;
    onBreach?.({ invariant: 'table', where: indexTable(oid).name, message }, true);
  }
  if (lost.length > 0) await buildIndexes(context);
  return count + lost.length;
}

/**
 * Corrects wrong counters of entries (oneLevelCount, subLevelCount), and returns their number. Writers may continue: a
 * counter that changes meanwhile is left to the next run.
 */
export async function recount(context: WriteContext, piecework?: Piecework): Promise<number> {
  const fixes: (readonly PlanStep[])[] = [];
  const proceed = () => piecework?.proceed();
  await confirmed(
    context,
    ({ fix }) => void fixes.push(fix!),
    (report) => {
      const reportCount: ReportBreach = (finding) =>
        finding.breach.invariant === 'count' && finding.fix ? report(finding) : undefined;
      return surveyTree(context, reportCount, proceed);
    },
  );
  let fixedCount = 0;
  for (const steps of fixes) {
    await piecework?.proceed();
    // A guard fails if counters or entry have changed since the survey.
    if (await guardsHold(context.store.commit({ steps: withFence(steps, piecework), decisive: 0 }))) fixedCount++;
  }
  if (fixedCount > 0) context.nodes.clear();
  return fixedCount;
}
