import type { Guard } from '../../../store/contract.js';
import { cellValue, counterBytes } from '../../../store/row.js';
import { DETACHED_ID, MASTER_TABLE, normRdnOf, Q, ROOT_ID, TREE, TREE_TABLE, UUID_BYTES } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { dnByRows, lostDn } from '../lost-name.js';
import { rewriteSteps, rowProblem, storedDraft, treeKeyOfRow, uniqueRdn } from './record.js';
import { printable, type Survey, sameCell } from './survey.js';

/** In place of the entry number of a parent: the entry is at the root, or its parent does not exist. */
const AT_ROOT = -1;
const MISSING = -2;
/** The entry is the top of a tree delete that goes on when a process opens the directory. */
const DETACHED = -3;

/** Checks that all parents exist, that no entry is its own ancestor, and that counters are right. */
export async function checkTree(survey: Survey): Promise<void> {
  const parentNumbers = await findParentNumbers(survey);
  const { oneLevelCounts, subLevelCounts, isInCycle } = countBelow(parentNumbers);
  const rootNorms = await readRoots(survey, parentNumbers);
  const homeId = findHome(survey, rootNorms);
  const isWhole = survey.isFullyReadable(MASTER_TABLE.name);
  if (!isWhole) survey.noteSkipped('counters of entries', MASTER_TABLE.name);
  for (let i = 0; i < parentNumbers.length; i++) {
    if (parentNumbers[i] === MISSING && !isWhole) {
      survey.noteSkipped('parents that do not exist', MASTER_TABLE.name);
    } else if (parentNumbers[i] === MISSING) {
      const problem = `the entry's parent ${uuidText(survey.ids.parentIdOfNumber(i))} does not exist`;
      await reportMisplaced(survey, i, homeId, 'parent', problem);
    } else if (rootNorms.has(i) && !survey.suffixNorms.has(rootNorms.get(i)!)) {
      const problem = `the entry stands at the root as ${printable(Buffer.from(rootNorms.get(i)!, 'latin1'))}, which is no suffix`;
      await reportMisplaced(survey, i, homeId, 'parent', problem);
    }
    if (!isInCycle[i] && isWhole) await checkCounters(survey, i, oneLevelCounts[i]!, subLevelCounts[i]!);
    if ((i & 1023) === 0) await survey.countProgress(0);
  }
  for (const number of cycleMembers(parentNumbers, isInCycle)) {
    await reportMisplaced(survey, number, homeId, 'cycle', 'the entry is its own ancestor');
  }
}

async function findParentNumbers(survey: Survey): Promise<Int32Array> {
  const { ids } = survey;
  const parentNumbers = new Int32Array(ids.length);
  for (let i = 0; i < ids.length; i++) {
    const parentId = ids.parentIdOfNumber(i);
    const parentNumber = parentId.equals(ROOT_ID) ? AT_ROOT : ids.numberOfId(parentId);
    const isMissing = parentNumber === -1 && !parentId.equals(ROOT_ID);
    parentNumbers[i] = !isMissing ? parentNumber : parentId.equals(DETACHED_ID) ? DETACHED : MISSING;
    if ((i & 4095) === 0) await survey.countProgress(0);
  }
  return parentNumbers;
}

/** Counts children and descendants by repeatedly removing leaves. The entries that remain are in cycles. */
function countBelow(parents: Int32Array) {
  const oneLevelCounts = new Uint32Array(parents.length);
  const subLevelCounts = new Uint32Array(parents.length);
  const isInCycle = new Uint8Array(parents.length).fill(1);
  for (const parent of parents) if (parent >= 0) oneLevelCounts[parent]!++;
  const openChildCounts = Uint32Array.from(oneLevelCounts);
  const leaves = new Uint32Array(parents.length);
  let leafCount = 0;
  for (let i = 0; i < parents.length; i++) if (openChildCounts[i] === 0) leaves[leafCount++] = i;
  for (let leafIndex = 0; leafIndex < leafCount; leafIndex++) {
    const i = leaves[leafIndex]!;
    isInCycle[i] = 0;
    const parent = parents[i]!;
    if (parent < 0) continue;
    subLevelCounts[parent]! += subLevelCounts[i]! + 1;
    if (--openChildCounts[parent]! === 0) leaves[leafCount++] = parent;
  }
  return { oneLevelCounts, subLevelCounts, isInCycle };
}

/** Returns one entry of each cycle. */
function cycleMembers(parents: Int32Array, looped: Uint8Array): number[] {
  const members: number[] = [];
  const isVisited = new Uint8Array(parents.length);
  for (let i = 0; i < parents.length; i++) {
    if (!looped[i] || isVisited[i]) continue;
    members.push(i);
    for (let ancestor = i; !isVisited[ancestor]; ancestor = parents[ancestor]!) isVisited[ancestor] = 1;
  }
  return members;
}

/** Returns the normalized names (Latin-1) of the readable entries at the root, by entry number. */
async function readRoots(survey: Survey, parents: Int32Array): Promise<Map<number, string>> {
  const norms = new Map<number, string>();
  for (let i = 0; i < parents.length; i++) {
    if (parents[i] !== AT_ROOT) continue;
    const id = survey.ids.idOfNumber(i);
    const row = survey.unreadableIds.has(id.toString('latin1')) ? undefined : await survey.get(MASTER_TABLE.name, id);
    if (row) norms.set(i, normRdnOf(row).toString('latin1'));
  }
  return norms;
}

/** Returns the entry of the first suffix that exists. Entries without a parent are moved below it. */
function findHome(survey: Survey, rootNorms: ReadonlyMap<number, string>): Buffer | undefined {
  const numbersByNorm = new Map([...rootNorms].map(([number, norm]) => [norm, number]));
  const suffix = [...survey.suffixNorms].find((norm) => numbersByNorm.has(norm));
  return suffix === undefined ? undefined : survey.ids.idOfNumber(numbersByNorm.get(suffix)!);
}

/** Reports an entry in a wrong position. The fix moves it, with its subtree, below a suffix under a unique name. */
async function reportMisplaced(
  survey: Survey,
  number: number,
  home: Buffer | undefined,
  invariant: string,
  problem: string,
): Promise<void> {
  const id = survey.ids.idOfNumber(number);
  const entryId = uuidText(id);
  const row = await survey.get(MASTER_TABLE.name, id);
  if (!row || survey.unreadableIds.has(id.toString('latin1'))) return;
  if (!home || home.equals(id)) {
    const message = `${problem}, and no suffix has an entry to put it below; add the entry of a suffix, then repair`;
    return survey.report(invariant, entryId, message);
  }
  const rdn = uniqueRdn(survey, id, row);
  const message = `${problem}; repair puts it, with what is below it, below entry ${uuidText(home)} as '${rdn.text}'`;
  const entry = { id, row, draft: storedDraft(survey, row) };
  await survey.report(invariant, entryId, message, rewriteSteps(survey, entry, [], { ...rdn, parentId: home }));
}

/** Reports wrong counters. The fix guards the counters that were read. */
async function checkCounters(survey: Survey, number: number, one: number, sub: number): Promise<void> {
  const storedOneLevel = survey.oneLevelCounts[number]!;
  const storedSubLevel = survey.subLevelCounts[number]!;
  // An entry without a tree row has no counters.
  if (Number.isNaN(storedOneLevel) || (storedOneLevel === one && storedSubLevel === sub)) return;
  const id = survey.ids.idOfNumber(number);
  const row = await survey.get(MASTER_TABLE.name, id);
  if (!row) return;
  const key = treeKeyOfRow(row);
  const treeRow = await survey.get(TREE_TABLE.name, key);
  const put = [
    { family: TREE.treeInfo, qualifier: Q.oneLevelCount, value: counterBytes(BigInt(one)) },
    { family: TREE.treeInfo, qualifier: Q.subLevelCount, value: counterBytes(BigInt(sub)) },
  ];
  const guards = [idGuard(id), ...put.map((cell) => sameCell(treeRow, cell))];
  const message = `oneLevelCount is ${storedOneLevel} and subLevelCount ${storedSubLevel}, ${one} and ${sub} entries are there; repair sets them`;
  await survey.report('count', uuidText(id), message, [
    ...survey.guards(id, row),
    { table: TREE_TABLE.name, key, guards, put },
  ]);
}

/** Returns the guard that a tree row is that of the entry. */
function idGuard(id: Buffer): Guard {
  return { op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: id };
}

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
      const message = `the tree row is no entry's: ${problem}; repair removes it`;
      const removal = { table: TREE_TABLE.name, key, guards: id ? [idGuard(id)] : [], deleteRow: true };
      const guards = id ? survey.guards(id, masterRow, true) : [];
      await survey.report('treeRow', `tree ${printable(key)}`, message, [...guards, removal]);
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
  const id = rowProblem(row) ? undefined : cellValue(row, TREE.treeInfo, Q.id);
  return id?.length === UUID_BYTES ? id : undefined;
}
