import type { PlanStep } from '../../../store/contract.js';
import { cellValue, MARK } from '../../../store/row.js';
import {
  CHANGES_TABLE,
  DELETED,
  DELETED_TABLE,
  DELETION,
  PURGE_TABLE,
  purgeKey,
  UUID_BYTES,
} from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { checkLarge } from './large-values.js';
import { rowProblem } from './record.js';
import { placeOf, type Survey, sameCell } from './survey.js';

/** Checks that deleted entries and purge rows agree, and that change records can be read. */
export async function checkHistory(survey: Survey): Promise<void> {
  let matchedCount = 0;
  await survey.forEachBatch(DELETED_TABLE.name, false, async (keys, rows) => {
    for (const [i, key] of keys.entries()) if (await checkDeletedEntry(survey, key, rows[i]!)) matchedCount++;
  });
  if ((await survey.count(PURGE_TABLE.name)) !== matchedCount) await checkPurgeRows(survey);
  await survey.forEachBatch(CHANGES_TABLE.name, false, async (keys, rows) => {
    for (const [i, key] of keys.entries()) {
      const problem = rowProblem(rows[i]!);
      if (problem)
        await survey.report('change', `change ${key.toString('hex')}`, `${problem}; repair removes it`, [
          { table: CHANGES_TABLE.name, key, deleteRow: true },
        ]);
    }
  });
}

/** Checks a deleted entry. Returns whether it has a purge row. */
async function checkDeletedEntry(survey: Survey, key: Buffer, row: Buffer): Promise<boolean> {
  const place = placeOf(key);
  const problem = rowProblem(row) ?? (key.length === UUID_BYTES ? undefined : 'the key is not an entryUUID');
  if (problem) {
    await survey.report('deleted', place, `the deleted entry cannot be read: ${problem}; repair forgets it`, [
      { table: DELETED_TABLE.name, key, deleteRow: true },
    ]);
    return false;
  }
  const time = cellValue(row, DELETED.deletion, DELETION.time);
  if (time?.length !== 8 || !cellValue(row, DELETED.deletion, DELETION.dn)) {
    const message =
      'the deleted entry has no DN or time; repair sets the time to now, so that it can still be restored';
    await survey.report('deleted', place, message, setTimeSteps(key));
    return false;
  }
  const timeGuardStep: PlanStep = {
    table: DELETED_TABLE.name,
    key,
    guards: [sameCell(row, { family: DELETED.deletion, qualifier: DELETION.time })],
  };
  try {
    await checkLarge(survey, DELETED_TABLE.name, key, row, [timeGuardStep]);
  } catch (error) {
    await survey.reportDamage(error, { table: DELETED_TABLE.name, key, isRowIntact: true });
  }
  const keyInPurge = purgeKey(time, key);
  if (await survey.get(PURGE_TABLE.name, keyInPurge)) return true;
  if (!survey.isFullyReadable(PURGE_TABLE.name)) {
    survey.noteSkipped('purge rows of deleted entries', PURGE_TABLE.name);
    return false;
  }
  await survey.report('purge', place, 'the deleted entry has no purge row and would be kept for ever; repair puts it', [
    timeGuardStep,
    { table: PURGE_TABLE.name, key: keyInPurge, put: [MARK] },
  ]);
  return false;
}

function setTimeSteps(key: Buffer): PlanStep[] {
  const time = Buffer.allocUnsafe(8);
  time.writeBigUInt64BE(BigInt(Date.now()));
  return [
    {
      table: DELETED_TABLE.name,
      key,
      put: [
        { family: DELETED.deletion, qualifier: DELETION.time, value: time },
        { family: DELETED.deletion, qualifier: DELETION.dn, value: Buffer.from(`entryUUID=${uuidText(key)}`) },
      ],
    },
    { table: PURGE_TABLE.name, key: purgeKey(time, key), put: [MARK] },
  ];
}

async function checkPurgeRows(survey: Survey): Promise<void> {
  if (!survey.isFullyReadable(DELETED_TABLE.name))
    return survey.noteSkipped('purge rows of no entry', DELETED_TABLE.name);
  await survey.forEachBatch(PURGE_TABLE.name, true, async (keys) => {
    const ids = keys.map((key) => key.subarray(key.length - UUID_BYTES));
    const rows = await survey.getMany(DELETED_TABLE.name, ids);
    for (const [i, key] of keys.entries()) {
      const row = rows[i];
      const time = row && !rowProblem(row) ? cellValue(row, DELETED.deletion, DELETION.time) : undefined;
      if (time && purgeKey(time, ids[i]!).equals(key)) continue;
      const message = 'a purge row belongs to no deleted entry of its time; repair removes it';
      const fix = [{ table: PURGE_TABLE.name, key, deleteRow: true }];
      await survey.report('purge', uuidText(ids[i]!), message, fix);
    }
  });
}
