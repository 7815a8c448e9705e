import { isPromise } from '../../../store/maybe.js';
import type { Breach } from '../../model/directory-types.js';
import { DELETED_TABLE, MASTER_TABLE, TREE_TABLE } from '../../model/tables.js';
import { readShared } from '../../tree/shared-row.js';
import type { WriteContext } from '../../write/context.js';
import { checkAccountStates } from './account-states.js';
import { checkHistory } from './deleted-rows.js';
import { checkEntries } from './entries.js';
import { checkIndexRows } from './index-table.js';
import { checkLostChunks } from './large-values.js';
import { checkSettings } from './stored-values.js';
import { type Finding, type OnPasswords, type OnProgress, type Report, Survey } from './survey.js';
import { checkTree } from './tree.js';
import { checkTreeRows } from './tree-rows.js';
import { checkUnique } from './unique-values.js';

/** More breaches than that are no writes that go on meanwhile. */
const PASSING = 10_000;

/**
 * Verifies every invariant of the directory (docs/formats/tables.md) and tells each breach; resolves with their number.
 * Reads one state where the engine offers it, so writers may go on meanwhile. On an engine without snapshots a plan
 * that is half done shows as breaches, those of a front end that has died until others finish them: what is found there
 * counts when it is still so after all that was decided until then is done. Holds 36 bytes and a few counters an entry
 * in memory.
 * `onPasswords` gets the passwords of each entry that has some.
 */
export async function check(
  context: WriteContext,
  onBreach: (breach: Breach) => void,
  onProgress?: (done: number, table?: string) => void,
  onPasswords?: OnPasswords,
): Promise<number> {
  if (context.store.supports.snapshot)
    return survey(context, ({ breach }) => onBreach(breach), onProgress, onPasswords);
  const found = new Map<string, Breach>();
  const breaches = await survey(
    context,
    ({ breach }) => {
      if (found.size > PASSING) return onBreach(breach);
      found.set(textOf(breach), breach);
      if (found.size > PASSING) for (const one of found.values()) onBreach(one);
    },
    onProgress,
    onPasswords,
  );
  if (found.size === 0 || found.size > PASSING) return breaches;
  await context.store.quiet?.();
  let left = 0;
  const again = ({ breach }: Finding): void => {
    if (!found.delete(textOf(breach))) return;
    left++;
    onBreach(breach);
  };
  await survey(context, again, onProgress);
  return left;
}

function textOf({ invariant, where, message }: Breach): string {
  return `${invariant} ${where}: ${message}`;
}

/**
 * One pass; a report may mend what it is told at once: what follows in the same pass still sees the state it began
 * with. `mends`: damage is looked for first, so that nothing is mended by what the damage hides.
 */
export async function survey(
  context: WriteContext,
  report: Report,
  onProgress?: OnProgress,
  onPasswords?: OnPasswords,
  mends = false,
): Promise<number> {
  return surveying(context, report, onProgress, async (pass) => {
    pass.onPasswords = onPasswords;
    if (mends) await pass.findDamage([MASTER_TABLE.name, TREE_TABLE.name, DELETED_TABLE.name]);
    await checkSettings(pass);
    await pass.part('entries', checkEntries);
    for (const table of [MASTER_TABLE.name, DELETED_TABLE.name])
      await pass.part('large values', () => checkLostChunks(pass, table));
    await pass.part('tree', checkTree);
    await pass.part('tree rows', checkTreeRows);
    await pass.part('index rows', checkIndexRows);
    await pass.part('history', checkHistory);
    await pass.part('account states', checkAccountStates);
    await pass.part('unique values', checkUnique);
    await pass.tellLeftOut();
  });
}

/** One pass over the entries and how they stand below each other, counters included. */
export function surveyTree(context: WriteContext, report: Report, onProgress: OnProgress): Promise<number> {
  return surveying(context, report, onProgress, async (pass) => {
    await pass.findDamage([MASTER_TABLE.name, TREE_TABLE.name]);
    await pass.part('entries', checkEntries);
    await pass.part('tree', checkTree);
  });
}

/** One pass in which `look` does what is to be done; resolves with the number of breaches. */
export async function surveying(
  context: WriteContext,
  report: Report,
  onProgress: OnProgress | undefined,
  look: (pass: Survey) => Promise<void>,
): Promise<number> {
  const fresh = context.shared.refresh();
  if (isPromise(fresh)) await fresh;
  const snapshot = context.store.snapshot();
  try {
    const shared = readShared(snapshot, context.schema);
    const pass = new Survey(context, snapshot, isPromise(shared) ? await shared : shared, report, onProgress);
    await look(pass);
    return pass.breaches;
  } finally {
    snapshot.close();
  }
}
