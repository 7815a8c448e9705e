import { LdapError } from '../../../ldap/ldap-error.js';
import type { Schema } from '../../../schema/schema.js';
import type { Dn, Rdn } from '../../../schema/schema-types.js';
import type { Cell, PlanStep } from '../../../store/contract.js';
import { cellValue } from '../../../store/row.js';
import { cutNorm, MASTER, MASTER_TABLE, Q, ROOT_ID, upRdnOf } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { editedCells, repairRecord } from './record.js';
import { nextVersion, type Survey } from './survey.js';

/** Returns the name in `upRdn`, normalized and as written; undefined if it is not a valid name. */
export function parseName(survey: Survey, parentId: Buffer, upRdn: Buffer): { norm: Buffer; text: string } | undefined {
  const dn = parsedDn(survey.context.schema, upRdn);
  if (!dn) return undefined;
  const { rdns, norm, text } = dn;
  if (parentId.equals(ROOT_ID)) return rdns.length > 0 ? { norm: cutNorm(norm), text } : undefined;
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
  const cellsAfter = editedCells(row, () => false, put);
  return [
    ...survey.guards(id, version, true),
    { table: MASTER_TABLE.name, key: id, put },
    repairRecord(survey, id, row, cellsAfter, { op: 'rename', newDn: upRdn, attributes: [] }),
  ];
}
