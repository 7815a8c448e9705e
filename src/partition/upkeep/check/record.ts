import { LdapError } from '../../../ldap/ldap-error.js';
import type { Schema } from '../../../schema/schema.js';
import type { Dn, Rdn } from '../../../schema/schema-types.js';
import type { AppendStep, Cell, CellName, PlanStep } from '../../../store/contract.js';
import { compareCells, unpackRow } from '../../../store/row.js';
import { cellChanges, checkRow } from '../../../store/row-edit.js';
import { StoreError } from '../../../store/store-error.js';
import { encodeBeforeImage } from '../../model/before-image.js';
import { changeCells, changeTime } from '../../model/change-record.js';
import type { Draft, DraftAttribute } from '../../model/draft.js';
import { valueQualifier } from '../../model/entry-cells.js';
import { CHANGES_TABLE, cutNorm, DETACHED_ID, MASTER, MASTER_TABLE, Q, ROOT_ID, upRdnOf } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { nextVersion, type Survey, versionOf } from './survey.js';

/** An entry with a readable master row. */
export interface CheckedEntry {
  readonly id: Buffer;
  readonly row: Buffer;
  readonly version: Buffer;
  readonly draft: Draft;
}

/** Returns the names of the cells that have the values. */
export function valueCells({ text, values }: Pick<DraftAttribute, 'text' | 'values'>): CellName[] {
  return values.map(({ index }) => ({ family: MASTER.upAttributes, qualifier: valueQualifier(text, index) }));
}

function versionCell(version: Buffer | undefined): Cell {
  return { family: MASTER.treeInfo, qualifier: Q.version, value: nextVersion(version) };
}

/** Returns the steps that change cells of an entry. */
export function entryFix(
  survey: Survey,
  { id, version }: CheckedEntry,
  removed: readonly CellName[],
  put: readonly Cell[] = [],
): PlanStep[] {
  const step = { table: MASTER_TABLE.name, key: id, delete: removed, put: [...put, versionCell(version)] };
  return [...survey.guards(id, version), step];
}

/** Returns the steps that change cells of attributes, with a change record. */
export function recordedFix(
  survey: Survey,
  entry: CheckedEntry,
  changed: readonly DraftAttribute[],
  removed: readonly CellName[],
  put: readonly Cell[],
): PlanStep[] {
  const { id, row, version } = entry;
  const isRemoved = (cell: CellName) =>
    removed.some((name) => name.family === cell.family && name.qualifier.equals(cell.qualifier));
  const cellsAfter = editedCells(row, isRemoved, [...put, versionCell(version)]);
  const attributes = [...new Set(changed.map(({ description }) => description.type.name))];
  return [
    ...entryFix(survey, entry, removed, put),
    repairRecord(survey, id, row, cellsAfter, { op: 'modify', attributes }),
  ];
}

/** Returns the change record for a repair of a master row. `newCells`: its new cells, sorted by name. */
function repairRecord(
  survey: Survey,
  id: Buffer,
  row: Buffer,
  newCells: readonly Cell[],
  change: { readonly op: 'modify' | 'rename'; readonly newDn?: Buffer; readonly attributes: readonly string[] },
): AppendStep {
  const { csn, descriptions } = survey.context;
  const beforeImage = encodeBeforeImage(descriptions, row, cellChanges(row, newCells));
  const record = { ...change, id, dn: upRdnOf(row), writerDn: '', csn: csn.nextCsn(), time: changeTime(), beforeImage };
  return { table: CHANGES_TABLE.name, append: changeCells(record) };
}

/** Returns the sorted cells of a row without those that `isGone` selects and with those in `put`. */
function editedCells(row: Buffer, isGone: (cell: Cell) => boolean, put: readonly Cell[]): Cell[] {
  const isReplaced = (cell: Cell) => put.some((c) => c.family === cell.family && c.qualifier.equals(cell.qualifier));
  const keptCells = unpackRow(row).filter((cell) => !isGone(cell) && !isReplaced(cell));
  return [...keptCells, ...put].sort(compareCells);
}

/** Returns the reason why the bytes are not a valid packed row; undefined if they are. */
export function rowProblem(row: Buffer): string | undefined {
  try {
    checkRow(row);
    return undefined;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'corrupt') return error.message;
    throw error;
  }
}

/** A name, normalized and as written. */
type Name = Pick<Rdn, 'norm' | 'text'>;

/** Returns the name in `upRdn`; undefined if it is not a valid name. */
export function parseName(survey: Survey, parentId: Buffer, upRdn: Buffer): Name | undefined {
  const dn = parsedDn(survey.context.schema, upRdn);
  if (!dn) return undefined;
  const { rdns, norm, text } = dn;
  if (parentId.equals(ROOT_ID) || parentId.equals(DETACHED_ID))
    return rdns.length > 0 ? { norm: cutNorm(norm), text } : undefined;
  return rdns.length === 1 ? { norm: cutNorm(rdns[0]!.norm), text } : undefined;
}

/** Parses a DN in UTF-8; undefined if it is not valid. */
export function parsedDn(schema: Schema, dn: Buffer): Dn | undefined {
  try {
    return schema.parseDnBytes(dn);
  } catch (error) {
    if (error instanceof LdapError) return undefined;
    throw error;
  }
}

/**
 * Returns an RDN that no other entry can have: the RDN of the entry with its entryUUID added (`cn=a+entryUUID=…`), or
 * the entryUUID alone if the RDN is not valid.
 */
export function uniqueRdn(survey: Survey, id: Buffer, row: Buffer): Rdn {
  const { schema } = survey.context;
  const uuid = `entryUUID=${uuidText(id)}`;
  try {
    const rdn = schema.parseDnBytes(upRdnOf(row)).rdns[0];
    if (rdn?.avas.some((ava) => ava.type.name.toLowerCase() === 'entryuuid')) return rdn;
    return schema.parseRdn(rdn ? `${rdn.text}+${uuid}` : uuid);
  } catch (error) {
    if (error instanceof LdapError) return schema.parseRdn(uuid);
    throw error;
  }
}

/** Returns the steps that move an entry in its master row. The next pass repairs the rows that derive from it. */
export function placeSteps(survey: Survey, id: Buffer, row: Buffer, parentId: Buffer, rdn: Name): PlanStep[] {
  const version = versionOf(row);
  const upRdn = Buffer.from(rdn.text);
  const treeInfo = (qualifier: Buffer, value: Buffer): Cell => ({ family: MASTER.treeInfo, qualifier, value });
  const put = [
    treeInfo(Q.normRdn, rdn.norm),
    treeInfo(Q.parentId, parentId),
    treeInfo(Q.upRdn, upRdn),
    versionCell(version?.length === 8 ? version : undefined),
  ];
  const cellsAfter = editedCells(row, () => false, put);
  return [
    ...survey.guards(id, version, true),
    { table: MASTER_TABLE.name, key: id, put },
    repairRecord(survey, id, row, cellsAfter, { op: 'rename', newDn: upRdn, attributes: [] }),
  ];
}
