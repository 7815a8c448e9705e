import type { KeyRange, PlanStep } from '../../../store/contract.js';
import { cellValue, unpackRow } from '../../../store/row.js';
import { INDEX_BYTES } from '../../model/descriptions.js';
import { draftWithLarge, ImpliedRows, implyEntry, normRule } from '../../model/implied.js';
import { secretAttributeOf } from '../../model/secrets.js';
import {
  cutNorm,
  DETACHED_ID,
  MASTER,
  MASTER_TABLE,
  normRdnOf,
  parentIdOf,
  Q,
  ROOT_ID,
  TREE,
  TREE_TABLE,
  UUID_BYTES,
  upRdnOf,
} from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { normCellChanges } from '../../write/differences.js';
import { checkLarge } from './large-values.js';
import {
  type CheckedEntry,
  corruption,
  parsedDn,
  rewriteSteps,
  rowProblem,
  storedDraft,
  treeKeyOfRow,
  uniqueRdn,
} from './record.js';
import { checkStoredForm } from './stored-form.js';
import { placeOf, printable, type Survey } from './survey.js';

/** An entry, with what derives from it. */
export interface EntryRow extends CheckedEntry {
  readonly number: number;
  readonly treeKey: Buffer;
  /** The implied rows; undefined if a large value is lost. */
  readonly impliedRows: ImpliedRows | undefined;
}

/** Number of entries whose tree rows are read at once. */
const GROUP_SIZE = 64;

/**
 * Checks every master row and its tree row. Adds the index rows that they imply to `expectedFingerprints`, which are
 * later compared with those of the index tables.
 */
export async function checkEntries(survey: Survey): Promise<void> {
  await checkEntriesIn(survey, {}, async (entries) => {
    for (const { id, impliedRows } of entries)
      for (const { index, keyPrefix: prefix } of impliedRows?.rows ?? [])
        survey.expectedFingerprints.get(index)!.add(prefix, id);
  });
}

/** Checks the entries in a range of entryUUIDs. Calls `visit` with those that are readable. */
export async function checkEntriesIn(
  survey: Survey,
  range: KeyRange,
  visit: (entries: readonly EntryRow[]) => Promise<void>,
): Promise<void> {
  const checkBatch = async (keys: readonly Buffer[], rows: readonly (Buffer | undefined)[]): Promise<void> => {
    for (let start = 0; start < keys.length; start += GROUP_SIZE) {
      const entries: EntryRow[] = [];
      for (let i = start; i < Math.min(start + GROUP_SIZE, keys.length); i++) {
        const entry = await readOrReportEntry(survey, keys[i]!, rows[i]!);
        if (entry) entries.push(entry);
      }
      const treeRows = await survey.getMany(
        TREE_TABLE.name,
        entries.map((entry) => entry.treeKey),
      );
      for (const [i, entry] of entries.entries()) await checkTreeRow(survey, entry, treeRows[i]);
      await visit(entries);
      await survey.countProgress(0);
    }
  };
  await survey.forEachBatch(MASTER_TABLE.name, false, checkBatch, range);
}

/** Like `readEntry`. If data that belongs to the row is damaged, reports that and returns undefined. */
async function readOrReportEntry(survey: Survey, key: Buffer, row: Buffer): Promise<EntryRow | undefined> {
  try {
    return await readEntry(survey, key, row);
  } catch (error) {
    await survey.reportDamage(error, { table: MASTER_TABLE.name, key, isRowIntact: true });
    return undefined;
  }
}

async function readEntry(survey: Survey, key: Buffer, row: Buffer): Promise<EntryRow | undefined> {
  const place = placeOf(key);
  if (key.length !== UUID_BYTES) {
    await survey.report('row', place, 'a key of table master is not an entryUUID; nothing can be made of it');
    return undefined;
  }
  const rowFault = rowProblem(row);
  const parentId = rowFault ? ROOT_ID : parentIdOf(row);
  // An unreadable entry is recorded with its parent, too, so that the entries below it do not count as lost.
  const number = survey.ids.append(key, parentId.length === UUID_BYTES ? parentId : ROOT_ID);
  survey.oneLevelCounts[number] = Number.NaN;
  const problem = rowFault ?? contentProblem(survey, row);
  if (problem) {
    survey.unreadableIds.add(key.toString('latin1'));
    const message = `${problem}; repair leaves it and what belongs to it alone: restore it from a backup`;
    await survey.report('row', place, message);
    return undefined;
  }
  const entry = { id: key, row, draft: storedDraft(survey, row) };
  await checkName(survey, entry);
  const { descriptions } = survey.context;
  const hasNormalForm = (qualifier: Buffer): boolean =>
    normRule(descriptions.intern(qualifier, 0, qualifier.length - INDEX_BYTES).description.type) !== undefined;
  const largeValues = await checkLarge(survey, MASTER_TABLE.name, key, row, survey.guards(key, row), hasNormalForm);
  if (largeValues?.hasLostValue) survey.unreadableIds.add(key.toString('latin1'));
  await checkStoredForm(survey, entry);
  const impliedRows = largeValues?.hasLostValue ? undefined : new ImpliedRows();
  const draft = largeValues ? draftWithLarge(survey.context, row, largeValues.values) : entry.draft;
  if (impliedRows) implyEntry(draft, survey.indexes, impliedRows);
  return { ...entry, number, treeKey: treeKeyOfRow(row), impliedRows };
}

/** Returns the reason why the cells of a master row cannot be read; undefined if they can. */
function contentProblem(survey: Survey, row: Buffer): string | undefined {
  if (parentIdOf(row).length !== UUID_BYTES) return 'the master row has no parentId of 16 bytes';
  if (cellValue(row, MASTER.treeInfo, Q.version)?.length !== 8) return 'the master row has no version of 8 bytes';
  for (const { family, qualifier } of unpackRow(row))
    if (family === MASTER.upAttributes && qualifier.length <= 4)
      return `cell ${printable(qualifier)} names no attribute`;
  return corruption(() => storedDraft(survey, row));
}

/** Checks that the normalized name is that of `upRdn`, that it holds no secret, and that root entries have names. */
async function checkName(survey: Survey, entry: CheckedEntry): Promise<void> {
  const { id, row } = entry;
  const parentId = parentIdOf(row);
  const upRdn = upRdnOf(row);
  // The top of a tree delete that goes on has its whole name, too.
  const isAtRoot = parentId.equals(ROOT_ID) || parentId.equals(DETACHED_ID);
  const dn = parsedDn(survey.context.schema, upRdn);
  const secret = dn?.rdns.map(secretAttributeOf).find((name) => name !== undefined);
  if (secret !== undefined) {
    const message = `attribute '${secret}', which holds secrets, names the entry, so that everybody reads its value: rename the entry, and change what the value has given away`;
    await survey.report('secret', uuidText(id), message);
  }
  if (!dn || dn.rdns.length === 0 || (dn.rdns.length > 1 && !isAtRoot)) {
    if (isAtRoot) {
      const message = `the entry stands at the root under '${printable(upRdn)}', which is no name; add the suffix it belongs to and import it`;
      return survey.report('parent', uuidText(id), message);
    }
    const rdn = uniqueRdn(survey, id, row);
    const message = `'${printable(upRdn)}' is not an RDN; repair names the entry '${rdn.text}'`;
    return survey.report('name', uuidText(id), message, rewriteSteps(survey, entry, [], { ...rdn, parentId }));
  }
  const makeFix = () => rewriteSteps(survey, entry, [], { ...dn, parentId });
  if (!cutNorm(dn.norm).equals(normRdnOf(row))) {
    const message = `normRdn ${printable(normRdnOf(row))} is not the normal form of '${printable(upRdn)}'; repair sets it`;
    await survey.report('name', uuidText(id), message, makeFix());
  } else if (!Buffer.from(dn.text).equals(upRdn)) {
    const message = `'${printable(upRdn)}' is not written as RFC 4514 does; repair writes '${dn.text}'`;
    await survey.report('spelling', uuidText(id), message, makeFix());
  }
}

async function checkTreeRow(survey: Survey, entry: EntryRow, row: Buffer | undefined): Promise<void> {
  const { id, treeKey: key } = entry;
  const entryId = uuidText(id);
  const problem = row ? rowProblem(row) : 'the entry has no tree row, so its name does not find it';
  if (!row || problem) {
    if (row) survey.foreignTreeKeys.add(key.toString('latin1'));
    return survey.report('treeRow', entryId, `${problem}; repair makes it anew`, rebuildSteps(survey, entry));
  }
  const ownerId = cellValue(row, TREE.treeInfo, Q.id);
  if (!ownerId?.equals(id)) return checkForeignTreeRow(survey, entry, ownerId);
  survey.treeRowCount++;
  survey.oneLevelCounts[entry.number] = counterValue(row, Q.oneLevelCount);
  survey.subLevelCounts[entry.number] = counterValue(row, Q.subLevelCount);
  if (!entry.impliedRows) return;
  const storedCells = unpackRow(row).filter(({ family }) => family === TREE.normAttributes);
  const { removedCells, writtenCells } = normCellChanges(storedCells, entry.impliedRows.cells);
  if (removedCells.length + writtenCells.length === 0) return;
  const firstCell = [...writtenCells, ...removedCells][0]!;
  const message = `${writtenCells.length} cells of normAttributes are missing or wrong and ${removedCells.length} are too many, the first is ${printable(firstCell.qualifier)}`;
  await survey.report('normAttributes', entryId, `${message}; repair sets them as the entry implies`, [
    ...survey.guards(id, entry.row),
    {
      table: TREE_TABLE.name,
      key,
      guards: [{ op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: id }],
      delete: removedCells,
      put: writtenCells,
    },
  ]);
}

/** Handles a tree row with this entry's name and another's id: they share the name, or the row is wrong. */
async function checkForeignTreeRow(survey: Survey, entry: EntryRow, owner: Buffer | undefined): Promise<void> {
  const entryId = uuidText(entry.id);
  const ownerRow = owner?.length === UUID_BYTES ? await survey.get(MASTER_TABLE.name, owner) : undefined;
  // The name of the other entry is unknown, since its master row is damaged.
  if (owner && survey.lostIds.has(owner.toString('latin1'))) return;
  if (!ownerRow || !treeKeyOfRow(ownerRow).equals(entry.treeKey)) {
    survey.foreignTreeKeys.add(entry.treeKey.toString('latin1'));
    const message = `the tree row of the entry's name leads to ${owner ? owner.toString('hex') : 'no id'}; repair makes it anew`;
    return survey.report('id', entryId, message, rebuildSteps(survey, entry));
  }
  const parentId = parentIdOf(entry.row);
  const message = `the entry has the same name as entry ${uuidText(owner!)}, which its name leads to`;
  if (parentId.equals(ROOT_ID))
    return survey.report('name', entryId, `${message}; a suffix has only one entry: repair cannot rename it`);
  const rdn = uniqueRdn(survey, entry.id, entry.row);
  const fix = rewriteSteps(survey, entry, [], { ...rdn, parentId });
  await survey.report('name', entryId, `${message}; repair renames it to '${rdn.text}'`, fix);
}

/** Returns the value of a counter; -1 if it is malformed. */
function counterValue(row: Buffer, qualifier: Buffer): number {
  const value = cellValue(row, TREE.treeInfo, qualifier);
  if (!value) return 0;
  return value.length === 8 ? Number(value.readBigInt64BE()) : -1;
}

/** Returns the steps that rebuild a tree row from the entry. The next pass corrects its counters. */
function rebuildSteps(survey: Survey, entry: EntryRow): readonly PlanStep[] | undefined {
  if (!entry.impliedRows) return undefined;
  const put = [{ family: TREE.treeInfo, qualifier: Q.id, value: entry.id }, ...entry.impliedRows.cells];
  return [
    ...survey.guards(entry.id, entry.row, true),
    { table: TREE_TABLE.name, key: entry.treeKey, deleteRow: true, put },
  ];
}
