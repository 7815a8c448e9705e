import { LdapError } from '../../../ldap/ldap-error.js';
import type { Dn, Rdn } from '../../../schema/schema-types.js';
import type { Cell, PlanStep } from '../../../store/contract.js';
import { cellValue } from '../../../store/row.js';
import { cutNorm, MASTER, MASTER_TABLE, Q, ROOT_ID, upRdnOf } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { editedCells, repairRecord } from './record.js';
import { nextVersion, type Survey } from './survey.js';

/** The name, normalized and as it is written, that an entry's `upRdn` says; undefined when that is no name. */
export function nameOf(survey: Survey, parentId: Buffer, upRdn: Buffer): { norm: Buffer; text: string } | undefined {
  const dn = parsedDn(survey, upRdn);
  if (!dn) return undefined;
  const { rdns, norm, text } = dn;
  if (parentId.equals(ROOT_ID)) return rdns.length > 0 ? { norm: cutNorm(norm), text } : undefined;
  return rdns.length === 1 ? { norm: cutNorm(rdns[0]!.norm), text } : undefined;
}

/** The DN in `upRdn`; undefined when it is none. */
export function parsedDn(survey: Survey, upRdn: Buffer): Dn | undefined {
  try {
    return survey.context.schema.parseDnBytes(upRdn);
  } catch (error) {
    if (error instanceof LdapError) return undefined;
    throw error;
  }
}

/**
 * Gives an entry a name that no other can have: its own RDN and its entryUUID (`cn=a+entryUUID=…`), or the entryUUID
 * alone where its RDN is no name.
 */
export function uniqueRdn(survey: Survey, id: Buffer, row: Buffer): Rdn {
  const { schema } = survey.context;
  const uuid = `entryUUID=${uuidText(id)}`;
  try {
    const own = schema.parseDnBytes(upRdnOf(row)).rdns[0];
    if (own?.avas.some((ava) => ava.type.name.toLowerCase() === 'entryuuid')) return own;
    return schema.parseRdn(own ? `${own.text}+${uuid}` : uuid);
  } catch (error) {
    if (error instanceof LdapError) return schema.parseRdn(uuid);
    throw error;
  }
}

/** Gives an entry another place: its master row alone; the rows that follow from it are mended in the next pass. */
export function placeSteps(
  survey: Survey,
  id: Buffer,
  row: Buffer,
  parentId: Buffer,
  upRdn: Buffer,
  normRdn: Buffer,
): PlanStep[] {
  const version = cellValue(row, MASTER.treeInfo, Q.version);
  const treeInfo = (qualifier: Buffer, value: Buffer): Cell => ({ family: MASTER.treeInfo, qualifier, value });
  const put = [
    treeInfo(Q.normRdn, normRdn),
    treeInfo(Q.parentId, parentId),
    treeInfo(Q.upRdn, upRdn),
    treeInfo(Q.version, nextVersion(version?.length === 8 ? version : undefined)),
  ];
  const after = editedCells(row, () => false, put);
  return [
    ...survey.guards(id, version, true),
    { table: MASTER_TABLE.name, key: id, put },
    repairRecord(survey, id, row, after, { op: 'rename', newDn: upRdn, attributes: [] }),
  ];
}
