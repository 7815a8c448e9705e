import type { Guard, RowStep } from '../../../store/contract.js';
import { cellValue, counterBytes } from '../../../store/row.js';
import {
  MASTER,
  MASTER_TABLE,
  normRdnOf,
  parentIdOf,
  Q,
  ROOT_ID,
  TREE,
  TREE_TABLE,
  treeKey,
} from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { placeSteps, uniqueRdn } from './place.js';
import { type Survey, shown } from './survey.js';

/** Special values in the list of parents by entry number. */
const AT_ROOT = -1;
const MISSING = -2;

/** Checks that parents exist, that no entry is its own ancestor, and that counters are right. */
export async function checkTree(survey: Survey): Promise<void> {
  const parents = await parentNumbers(survey);
  const { oneLevel, subLevel, looped } = countBelow(parents);
  const home = await homeForLost(survey, parents);
  const isWhole = survey.isWhole(MASTER_TABLE.name);
  if (!isWhole) survey.skip('counters of entries', MASTER_TABLE.name);
  for (let i = 0; i < parents.length; i++) {
    if (parents[i] === MISSING && !isWhole) {
      survey.skip('parents that do not exist', MASTER_TABLE.name);
    } else if (parents[i] === MISSING) {
      await reattach(
        survey,
        i,
        home,
        'parent',
        `the entry's parent ${uuidText(survey.ids.parentId(i))} does not exist`,
      );
    } else if (parents[i] === AT_ROOT) {
      await checkSuffix(survey, i, home);
    }
    if (!looped[i] && isWhole) await checkCounters(survey, i, oneLevel[i]!, subLevel[i]!);
    if ((i & 1023) === 0) await survey.progress(0);
  }
  for (const first of loops(parents, looped)) {
    await reattach(survey, first, home, 'cycle', 'the entry is its own ancestor');
  }
}

async function parentNumbers(survey: Survey): Promise<Int32Array> {
  const { ids } = survey;
  const parents = new Int32Array(ids.length);
  for (let i = 0; i < ids.length; i++) {
    const parentId = ids.parentId(i);
    const found = parentId.equals(ROOT_ID) ? AT_ROOT : ids.find(parentId);
    parents[i] = found === -1 && !parentId.equals(ROOT_ID) ? MISSING : found;
    if ((i & 4095) === 0) await survey.progress(0);
  }
  return parents;
}

/** Counts children and descendants by repeated removal of leaves. Entries that remain are in cycles, and `looped`. */
function countBelow(parents: Int32Array): { oneLevel: Uint32Array; subLevel: Uint32Array; looped: Uint8Array } {
  const oneLevel = new Uint32Array(parents.length);
  const subLevel = new Uint32Array(parents.length);
  const looped = new Uint8Array(parents.length).fill(1);
  for (const parent of parents) if (parent >= 0) oneLevel[parent]!++;
  const open = Uint32Array.from(oneLevel);
  const leaves = new Uint32Array(parents.length);
  let last = 0;
  for (let i = 0; i < parents.length; i++) if (open[i] === 0) leaves[last++] = i;
  for (let first = 0; first < last; first++) {
    const i = leaves[first]!;
    looped[i] = 0;
    const parent = parents[i]!;
    if (parent < 0) continue;
    subLevel[parent]! += subLevel[i]! + 1;
    if (--open[parent]! === 0) leaves[last++] = parent;
  }
  return { oneLevel, subLevel, looped };
}

/** Returns one entry of every cycle. */
function loops(parents: Int32Array, looped: Uint8Array): number[] {
  const firsts: number[] = [];
  const seen = new Uint8Array(parents.length);
  for (let i = 0; i < parents.length; i++) {
    if (!looped[i] || seen[i]) continue;
    firsts.push(i);
    for (let at = i; !seen[at]; at = parents[at]!) seen[at] = 1;
  }
  return firsts;
}

/** Returns the entry of the first suffix that has one. Entries without a parent are moved below this entry. */
async function homeForLost(survey: Survey, parents: Int32Array): Promise<Buffer | undefined> {
  const found = new Map<string, Buffer>();
  for (let i = 0; i < parents.length; i++) {
    if (parents[i] !== AT_ROOT) continue;
    const id = survey.ids.id(i);
    const row = survey.unreadable.has(id.toString('latin1')) ? undefined : await survey.get(MASTER_TABLE.name, id);
    if (row) found.set(normRdnOf(row).toString('latin1'), id);
  }
  for (const norm of survey.suffixNorms) if (found.has(norm)) return found.get(norm);
  return undefined;
}

/** Reports a misplaced entry. The fix moves the entry with its subtree below a suffix under a unique name. */
async function reattach(
  survey: Survey,
  number: number,
  home: Buffer | undefined,
  invariant: string,
  what: string,
): Promise<void> {
  const id = survey.ids.id(number);
  const where = uuidText(id);
  const row = await survey.get(MASTER_TABLE.name, id);
  if (!row || survey.unreadable.has(id.toString('latin1'))) return;
  if (!survey.isWhole(MASTER_TABLE.name))
    return survey.report(invariant, where, `${what}; repair moves it once table master can be read whole`);
  if (!home || home.equals(id))
    return survey.report(
      invariant,
      where,
      `${what}, and no suffix has an entry to put it below; add the entry of a suffix, then repair`,
    );
  const rdn = uniqueRdn(survey, id, row);
  const fix = placeSteps(survey, id, row, home, Buffer.from(rdn.text), rdn.norm);
  await survey.report(
    invariant,
    where,
    `${what}; repair puts it, with what is below it, below entry ${uuidText(home)} as '${rdn.text}'`,
    fix,
  );
}

/** Checks that an entry at the root is a suffix. */
async function checkSuffix(survey: Survey, number: number, home: Buffer | undefined): Promise<void> {
  const id = survey.ids.id(number);
  if (survey.unreadable.has(id.toString('latin1'))) return;
  const row = await survey.get(MASTER_TABLE.name, id);
  const norm = row && normRdnOf(row);
  if (!norm || survey.suffixNorms.has(norm.toString('latin1'))) return;
  await reattach(survey, number, home, 'parent', `the entry stands at the root as ${shown(norm)}, which is no suffix`);
}

async function checkCounters(survey: Survey, number: number, one: number, sub: number): Promise<void> {
  const storedOne = survey.oneLevel[number]!;
  const storedSub = survey.subLevel[number]!;
  // An entry without a tree row has no counters to compare.
  if (Number.isNaN(storedOne) || (storedOne === one && storedSub === sub)) return;
  const id = survey.ids.id(number);
  const row = await survey.get(MASTER_TABLE.name, id);
  if (!row) return;
  const key = treeKey(parentIdOf(row), normRdnOf(row));
  const treeRow = await survey.get(TREE_TABLE.name, key);
  const message = `oneLevelCount is ${storedOne} and subLevelCount ${storedSub}, ${one} and ${sub} entries are there; repair sets them`;
  await survey.report('count', uuidText(id), message, [
    ...survey.guards(id, cellValue(row, MASTER.treeInfo, Q.version)),
    counterStep(id, key, treeRow, one, sub),
  ]);
}

/** Returns the step that sets the counters, guarded by the counters that were read. */
function counterStep(id: Buffer, key: Buffer, treeRow: Buffer | undefined, one: number, sub: number): RowStep {
  const same = (qualifier: Buffer): Guard => {
    const value = treeRow && cellValue(treeRow, TREE.treeInfo, qualifier);
    return value
      ? { op: 'equals', family: TREE.treeInfo, qualifier, value }
      : { op: 'absent', family: TREE.treeInfo, qualifier };
  };
  return {
    table: TREE_TABLE.name,
    key,
    guards: [
      { op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: id },
      same(Q.oneLevelCount),
      same(Q.subLevelCount),
    ],
    put: [
      { family: TREE.treeInfo, qualifier: Q.oneLevelCount, value: counterBytes(BigInt(one)) },
      { family: TREE.treeInfo, qualifier: Q.subLevelCount, value: counterBytes(BigInt(sub)) },
    ],
  };
}
