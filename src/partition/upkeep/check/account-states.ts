import type { PlanStep } from '../../../store/contract.js';
import { isDecoyRow, stateOfRow } from '../../model/account-state.js';
import { MASTER, MASTER_TABLE, Q, STATE_TABLE, UUID_BYTES } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { rowProblem } from './row-problem.js';
import type { Survey } from './survey.js';

/** Checks that each account state can be read and belongs to an entry. */
export async function checkAccountStates(survey: Survey): Promise<void> {
  if (!survey.context.hasStates) return;
  if (!survey.isFullyReadable(MASTER_TABLE.name)) survey.noteSkipped('account states of no entry', MASTER_TABLE.name);
  await survey.forEachBatch(STATE_TABLE.name, false, async (keys, rows) => {
    const entries = await survey.getMany(MASTER_TABLE.name, keys);
    for (const [i, key] of keys.entries()) {
      if (isDecoyRow(key)) continue;
      const place = key.length === UUID_BYTES ? uuidText(key) : `key ${key.toString('hex')}`;
      const problem = rowProblem(rows[i]!) ?? stateProblem(rows[i]!);
      const isLost = !entries[i] && survey.isFullyReadable(MASTER_TABLE.name);
      if (!problem && !isLost) continue;
      const message = problem ? `the account state cannot be read: ${problem}` : 'an account state belongs to no entry';
      const absentGuard = { op: 'absent', family: MASTER.treeInfo, qualifier: Q.version } as const;
      const fix: PlanStep[] = [{ table: STATE_TABLE.name, key, deleteRow: true }];
      if (!problem) fix.push({ table: MASTER_TABLE.name, key, guards: [absentGuard] });
      await survey.report('state', place, `${message}; repair removes it`, fix);
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
