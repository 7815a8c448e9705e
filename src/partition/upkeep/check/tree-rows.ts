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
import { type Survey, shown } from './survey.js';

/** Reports tree rows that no entry implies. If the number of rows is the number of implied rows, there are none. */
export async function checkTreeRows(survey: Survey): Promise<void> {
  if ((await survey.count(TREE_TABLE.name)) !== survey.treeRows || survey.lost.size > 0) await checkTreeExtras(survey);
}

async function checkTreeExtras(survey: Survey): Promise<void> {
  const isWhole = survey.isWhole(MASTER_TABLE.name);
  if (!isWhole) survey.skip('tree rows of no entry', MASTER_TABLE.name);
  await survey.forEachBatch(TREE_TABLE.name, false, async (keys, rows) => {
    const ids = rows.map((row) => idOf(row!));
    const known = ids.map((id) => id !== undefined && survey.ids.find(id) >= 0);
    const masters = await survey.getMany(MASTER_TABLE.name, ids.filter((_, i) => known[i]) as Buffer[]);
    let next = 0;
    for (const [i, key] of keys.entries()) {
      const id = ids[i];
      const master = known[i] ? masters[next++] : undefined;
      if (id && survey.lost.has(id.toString('latin1'))) await reportName(survey, id, key);
      if (id && survey.unreadable.has(id.toString('latin1'))) continue;
      if (survey.foreign.has(key.toString('latin1')) || (master && placeOf(master).equals(key))) continue;
      if (!isWhole && !master) continue;
      const what = id
        ? `it leads to ${id.toString('hex')}, which ${master ? 'stands elsewhere' : 'is no entry'}`
        : 'it leads nowhere';
      await survey.report(
        'treeRow',
        `tree ${shown(key)}`,
        `the tree row is no entry's: ${what}; repair removes it`,
        removal(survey, id, master, key),
      );
    }
  });
}

/** Reports the name of an entry whose master row is damaged. */
async function reportName(survey: Survey, id: Buffer, key: Buffer): Promise<void> {
  const rowOf = async (at: Buffer): Promise<Buffer | undefined> => {
    const row = await survey.get(MASTER_TABLE.name, at);
    return row && !rowProblem(row) ? row : undefined;
  };
  const above = await dnByRows(Buffer.from(key.subarray(0, UUID_BYTES)), rowOf);
  const dn = lostDn(survey.context.schema, key, id, above);
  await survey.report('lost', uuidText(id), `the entry whose row is damaged is ${dn}`);
}

function idOf(row: Buffer): Buffer | undefined {
  try {
    const id = cellValue(row, TREE.treeInfo, Q.id);
    return id?.length === UUID_BYTES ? id : undefined;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'corrupt') return undefined;
    throw error;
  }
}

function placeOf(master: Buffer): Buffer {
  return treeKey(parentIdOf(master), normRdnOf(master));
}

function removal(survey: Survey, id: Buffer | undefined, master: Buffer | undefined, key: Buffer): PlanStep[] {
  const guards: Guard[] = id ? [{ op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: id }] : [];
  const owner = id ? survey.guards(id, master && cellValue(master, MASTER.treeInfo, Q.version), true) : [];
  return [...owner, { table: TREE_TABLE.name, key, guards, deleteRow: true }];
}
