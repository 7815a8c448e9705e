import { LdapError } from '../../ldap/ldap-error.js';
import type { PlanStep } from '../../store/contract.js';
import { batchesOf, isPromise } from '../../store/maybe.js';
import { cellValue, MARK } from '../../store/row.js';
import { isGuardFailure, StoreError } from '../../store/store-error.js';
import { keyAfter } from '../../store/tables.js';
import type { Draft } from '../model/draft.js';
import { draftFromRow } from '../model/entry-cells.js';
import { draftWithLarge, ImpliedRows, implyType } from '../model/implied.js';
import { type Index, isComplete, type MissingIndex } from '../model/index-set.js';
import { largeOffsetsOf, readAllLarge, retryWhileReplaced } from '../model/large.js';
import { countEntries, drawRuns } from '../model/sample-runs.js';
import { indexTable, MASTER, MASTER_TABLE, Q, UUID_BYTES } from '../model/tables.js';
import { retryWithFreshState, type WriteContext } from '../write/context.js';
import {
  buildCell,
  claimedStep,
  claimQualifier,
  claimUnfinished,
  cursorQualifier,
  indexRecords,
  sweepClaims,
} from './index-admin.js';

/** The most entries per plan: a plan delays other writers and the event loop by a few milliseconds. */
const ENTRIES_PER_PLAN = 256;
const ROWS_PER_PLAN = 2000;
/** Attempts to write a chunk of entries as one plan. After that, each entry gets a plan of its own. */
const CHUNK_ATTEMPTS = 3;
const ENTRY_ATTEMPTS = 1000;

/**
 * Completes all unfinished indexes. Writers already update a registered index, so only entries from before are added:
 * entries are read in key order, and the plan for each guards the version that was read. The position is stored, and
 * the next call continues there. Two concurrent builders do the same work twice without harm. `onProgress` receives the
 * number of entries read. If the table of a dropped index still exists, rejects after everything else is done.
 */
export async function buildIndexes(context: WriteContext, onProgress?: (entriesRead: number) => void): Promise<void> {
  const progress = { entryCount: 0, report: onProgress };
  let dropError: StoreError | undefined;
  for (;;) {
    const fresh = context.shared.refresh();
    if (isPromise(fresh)) await fresh;
    dropError ??= await sweepClaims(context);
    const index = context.shared.indexes.list.find((i) => !isComplete(i));
    if (!index && dropError) throw dropError;
    if (!index) return;
    await build(context, index, progress);
  }
}

interface Progress {
  entryCount: number;
  readonly report: ((entriesRead: number) => void) | undefined;
}

interface ClaimedBuild {
  readonly index: Index;
  readonly claim: Buffer;
}

/** Builds one index. Returns early if the index is dropped meanwhile, or built again from the start. */
async function build(context: WriteContext, index: Index, progress: Progress): Promise<void> {
  const claim = await buildCell(context, claimQualifier(index.type.oid));
  if (!claim) return claimUnfinished(context, index.type);
  const claimedBuild = { index, claim };
  const lastId = await buildCell(context, cursorQualifier(index.type.oid));
  const scan = context.store.scan(MASTER_TABLE.name, lastId ? { from: keyAfter(lastId) } : {});
  for await (const batch of batchesOf(scan)) {
    if (!(await buildBatch(context, claimedBuild, batch.keys, batch.rows))) return;
    progress.entryCount += batch.keys.length;
    progress.report?.(progress.entryCount);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await finish(context, claimedBuild);
}

/** Returns whether this process still has the claim. */
async function buildBatch(
  context: WriteContext,
  claimedBuild: ClaimedBuild,
  keys: readonly Buffer[],
  rows: readonly (Buffer | undefined)[],
): Promise<boolean> {
  let steps: PlanStep[] = [];
  let start = 0;
  for (let i = 0; i < keys.length; i++) {
    steps.push(...(await entrySteps(context, claimedBuild.index, keys[i]!, rows[i])));
    const isFull = steps.length >= ROWS_PER_PLAN || i + 1 - start >= ENTRIES_PER_PLAN;
    if (!isFull && i + 1 < keys.length) continue;
    if (!(await commitChunk(context, claimedBuild, keys.slice(start, i + 1), steps))) return false;
    steps = [];
    start = i + 1;
  }
  return true;
}

/** Returns the index rows of one entry, guarded by its version. Empty if the entry has no rows in the index. */
async function entrySteps(
  context: WriteContext,
  index: Index,
  id: Buffer,
  row: Buffer | undefined,
): Promise<PlanStep[]> {
  return retryWhileReplaced(async (isRetry) => {
    const currentRow = isRetry ? await context.store.get(MASTER_TABLE.name, id) : row;
    return currentRow ? rowSteps(context, index, id, currentRow) : [];
  });
}

async function rowSteps(context: WriteContext, index: Index, id: Buffer, row: Buffer): Promise<PlanStep[]> {
  const cells = largeOffsetsOf(context.descriptions, row, new Set([index.type]));
  const large = await readAllLarge(context.store, MASTER_TABLE.name, id, row, cells);
  const attributes = draftWithLarge(context, row, large).ofType(index.type);
  const implied = new ImpliedRows();
  implyType(index.type, attributes, index, implied);
  if (implied.rows.length === 0) return [];
  const version = cellValue(row, MASTER.treeInfo, Q.version);
  if (!version) throw new StoreError('corrupt', `entry ${id.toString('hex')} has no version; run \`rowan check\``);
  const steps: PlanStep[] = [
    {
      table: MASTER_TABLE.name,
      key: id,
      guards: [{ op: 'equals', family: MASTER.treeInfo, qualifier: Q.version, value: version }],
    },
  ];
  for (const { keyPrefix: prefix } of implied.rows)
    steps.push({ table: index.table, key: Buffer.concat([prefix, id]), put: [MARK] });
  return steps;
}

/** Writes the rows of some entries; reads changed entries again. Returns whether the process still has the claim. */
async function commitChunk(
  context: WriteContext,
  claimedBuild: ClaimedBuild,
  keys: readonly Buffer[],
  firstSteps: PlanStep[],
): Promise<boolean> {
  const { index, claim } = claimedBuild;
  const cursor = { family: 0, qualifier: cursorQualifier(index.type.oid), value: keys.at(-1)! };
  let steps = firstSteps;
  for (let attempts = 1; ; attempts++) {
    try {
      await context.store.commit({ steps: [claimedStep(index.type.oid, claim, [cursor]), ...steps], decisive: 0 });
      return true;
    } catch (error) {
      if (!isGuardFailure(error)) throw error;
      if (!(await buildCell(context, claimQualifier(index.type.oid)))?.equals(claim)) return false;
      if (keys.length > 1 && attempts === CHUNK_ATTEMPTS) {
        for (const key of keys)
          if (!(await commitChunk(context, claimedBuild, [key], await readSteps(context, index, [key])))) return false;
        return true;
      }
      if (attempts === ENTRY_ATTEMPTS)
        throw new LdapError('busy', 'an entry keeps changing while it is indexed; try again', { cause: error });
      steps = await readSteps(context, index, keys);
    }
  }
}

async function readSteps(context: WriteContext, index: Index, keys: readonly Buffer[]): Promise<PlanStep[]> {
  const pendingRows = context.store.getMany(MASTER_TABLE.name, keys);
  const rows = isPromise(pendingRows) ? await pendingRows : pendingRows;
  const steps: PlanStep[] = [];
  for (const [i, key] of keys.entries()) steps.push(...(await entrySteps(context, index, key, rows[i])));
  return steps;
}

/** Marks the index as complete, unless another builder has finished or restarted it. */
async function finish(context: WriteContext, { index, claim }: ClaimedBuild): Promise<void> {
  const { oid } = index.type;
  await retryWithFreshState(context, async () => {
    const currentClaim = await buildCell(context, claimQualifier(oid));
    if (!currentClaim?.equals(claim)) return;
    const records = indexRecords(context).map((r) =>
      r.oid === oid ? { oid, substring: r.substring, ready: true, made: r.made } : r,
    );
    const cells = [claimQualifier(oid), cursorQualifier(oid)].map((qualifier) => ({ family: 0, qualifier }));
    await context.shared.setIndexes(records, [{ ...claimedStep(oid, claim), delete: cells }]);
  });
}

/** Number of entries from which the cost is estimated. */
const SAMPLE_ENTRIES = 500;

/** Rows and key bytes that an index would have. */
export interface IndexCost {
  readonly rows: number;
  readonly bytes: number;
}

/** Estimates the costs of indexes from a random sample of entries, in the order of `indexes`. */
export async function estimateCosts(context: WriteContext, indexes: readonly MissingIndex[]): Promise<IndexCost[]> {
  const sums = indexes.map(() => ({ rows: 0, bytes: 0 }));
  let sampleCount = 0;
  const { keys, runLength } = await drawRuns(context.store, indexes.length > 0 ? SAMPLE_ENTRIES : 0);
  for (const from of keys) {
    for await (const { rows } of batchesOf(context.store.scan(MASTER_TABLE.name, { from }, { limit: runLength }))) {
      for (const row of rows) {
        const draft = draftFromRow(context.descriptions, row!, undefined);
        for (const [i, index] of indexes.entries()) addRows(index, draft, sums[i]!);
        sampleCount++;
      }
    }
  }
  const factor = sampleCount === 0 ? 0 : (await countEntries(context.store)) / sampleCount;
  return sums.map(({ rows, bytes }) => ({ rows: Math.round(rows * factor), bytes: Math.round(bytes * factor) }));
}

function addRows(
  { type, substring: hasSubstrings }: MissingIndex,
  draft: Draft,
  sum: { rows: number; bytes: number },
): void {
  const table = indexTable(type.oid).name;
  const index: Index = {
    ...{ type, table, hasSubstrings, isReady: false, hasAllSubstrings: false, hasPresence: true, isMade: false },
  };
  const implied = new ImpliedRows();
  implyType(type, draft.ofType(type), index, implied);
  sum.rows += implied.rows.length;
  for (const { keyPrefix } of implied.rows) sum.bytes += keyPrefix.length + UUID_BYTES;
}
