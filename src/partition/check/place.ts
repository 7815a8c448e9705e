import { LdapError } from '../../ldap/error.js';
import type { Rdn } from '../../schema/types.js';
import type { Cell, PlanStep } from '../../store/contract.js';
import { cellValue } from '../../store/row.js';
import { cutNorm, MASTER, MASTER_TABLE, Q, ROOT_ID, upRdnOf } from '../tables.js';
import { uuidText } from '../uuid.js';
import { changeStep } from '../write.js';
import { nextVersion, type Survey } from './survey.js';

/** What an entry's place in the tree should be, as its own `upRdn` says; undefined when that is no name. */
export function nameOf(survey: Survey, parentId: Buffer, upRdn: Buffer): Buffer | undefined {
  const { schema } = survey.context;
  try {
    const dn = schema.parseDnBytes(upRdn);
    if (parentId.equals(ROOT_ID)) return dn.rdns.length > 0 ? cutNorm(dn.norm) : undefined;
    return dn.rdns.length === 1 ? cutNorm(dn.rdns[0]!.norm) : undefined;
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
  return [
    ...survey.guards(id, version, true),
    {
      table: MASTER_TABLE.name,
      key: id,
      put: [
        treeInfo(Q.parentId, parentId),
        treeInfo(Q.upRdn, upRdn),
        treeInfo(Q.normRdn, normRdn),
        treeInfo(Q.version, nextVersion(version?.length === 8 ? version : undefined)),
      ],
    },
    changeStep({ op: 'rename', id, dn: upRdnOf(row), newDn: upRdn, by: '', csn: survey.context.csn.next() }),
  ];
}
