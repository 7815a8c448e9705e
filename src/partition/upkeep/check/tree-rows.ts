import type { Guard, PlanStep } from '../../../store/contract.js';
import { cellValue } from '../../../store/row.js';
import { StoreError } from '../../../store/store-error.js';
import {
  MASTER,
  MASTER_TABLE,
  normRdnOf,
  parentIdOf,
  Q,
  TREE,
  TREE_TABLE,
  treeKey,
  UUID_BYTES,
} from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { dnByRows, lostDn } from '../lost-name.js';
import { rowProblem } from './row-problem.js';
import { printable, type Survey } from './survey.js';

/** Reports tree rows that no entry implies. There are none if the number of rows is the number of implied rows. */
export async function checkTreeRows(survey: Survey): Promise<void> {
  if ((await survey.count(TREE_TABLE.name)) !== survey.treeRowCount || survey.lostIds.size > 0)
    await checkTreeExtras(survey);
}

async function checkTreeExtras(survey: Survey): Promise<void> {
  const isWhole = survey.isFullyReadable(MASTER_TABLE.name);
  if (!isWhole) survey.noteSkipped('tree rows of no entry', MASTER_TABLE.name);
  await survey.forEachBatch(TREE_TABLE.name, false, async (keys, rows) => {
    const ids = rows.map((row) => entryIdOf(row!));
    const isEntry = ids.map((id) => id !== undefined && survey.ids.numberOfId(id) >= 0);
    const masterRows = await survey.getMany(MASTER_TABLE.name, ids.filter((_, i) => isEntry[i]) as Buffer[]);
    let nextMaster = 0;
    for (const [i, key] of keys.entries()) {
      const id = ids[i];
      const masterRow = isEntry[i] ? masterRows[nextMaster++] : undefined;
      if (id && survey.lostIds.has(id.toString('latin1'))) await reportLostName(survey, id, key);
      if (id && survey.unreadableIds.has(id.toString('latin1'))) continue;
      if (survey.foreignTreeKeys.has(key.toString('latin1')) || (masterRow && treeKeyOfRow(masterRow).equals(key)))
        continue;
      if (!isWhole && !masterRow) continue;
      const problem = id
        ? `it leads to ${id.toString('hex')}, which ${masterRow ? 'stands elsewhere' : 'is no entry'}`
        : 'it leads nowhere';
      await survey.report(
        'treeRow',
        `tree ${printable(key)}`,
        `the tree row is no entry's: ${problem}; repair removes it`,
        removalSteps(survey, id, masterRow, key),
      );
    }
  });
}

/** Reports the name, in the tree row, of an entry whose master row is damaged. */
async function reportLostName(survey: Survey, id: Buffer, key: Buffer): Promise<void> {
  const readIntactRow = async (entryId: Buffer): Promise<Buffer | undefined> => {
    const row = await survey.get(MASTER_TABLE.name, entryId);
    return row && !rowProblem(row) ? row : undefined;
  };
  const parentDn = await dnByRows(Buffer.from(key.subarray(0, UUID_BYTES)), readIntactRow);
  const dn = lostDn(survey.context.schema, key, id, parentDn);
  await survey.report('lost', uuidText(id), `the entry whose row is damaged is ${dn}`);
}

function entryIdOf(row: Buffer): Buffer | undefined {
  try {
    const id = cellValue(row, TREE.treeInfo, Q.id);
    return id?.length === UUID_BYTES ? id : undefined;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'corrupt') return undefined;
    throw error;
  }
}

function treeKeyOfRow(master: Buffer): Buffer {
  return treeKey(parentIdOf(master), normRdnOf(master));
}

function removalSteps(survey: Survey, id: Buffer | undefined, master: Buffer | undefined, key: Buffer): PlanStep[] {
  const guards: Guard[] = id ? [{ op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: id }] : [];
  const ownerGuards = id ? survey.guards(id, master && cellValue(master, MASTER.treeInfo, Q.version), true) : [];
  return [...ownerGuards, { table: TREE_TABLE.name, key, guards, deleteRow: true }];
}
