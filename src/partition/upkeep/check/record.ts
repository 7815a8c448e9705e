import { LdapError } from '../../../ldap/ldap-error.js';
import type { Schema } from '../../../schema/schema.js';
import type { Dn, Rdn } from '../../../schema/schema-types.js';
import type { PlanStep } from '../../../store/contract.js';
import { counterBytes } from '../../../store/row.js';
import { cellChanges, checkRow } from '../../../store/row-edit.js';
import { StoreError } from '../../../store/store-error.js';
import { encodeBeforeImage } from '../../model/before-image.js';
import { changeCells, changeTime } from '../../model/change-record.js';
import type { Draft } from '../../model/draft.js';
import { draftFromRow, entryCells } from '../../model/entry-cells.js';
import { implyingDraft } from '../../model/implied.js';
import { retryWhileReplaced } from '../../model/large.js';
import {
  CHANGES_TABLE,
  cutNorm,
  largeQualifiers,
  MASTER_TABLE,
  normRdnOf,
  parentIdOf,
  treeKey,
  upRdnOf,
  versionOf,
} from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import type { Survey } from './survey.js';

/** An entry with a readable master row. */
export interface CheckedEntry {
  readonly id: Buffer;
  readonly row: Buffer;
  /** Has the pointers of large values. */
  readonly draft: Draft;
}

export function storedDraft({ context }: Survey, row: Buffer): Draft {
  return draftFromRow(context.descriptions, row, largeQualifiers(row));
}

/** Returns the draft that implies the other rows of an entry; undefined if the entry was deleted meanwhile. */
export function readImplyingDraft(survey: Survey, id: Buffer, row: Buffer): Promise<Draft | undefined> {
  const source = { store: survey.reader, descriptions: survey.context.descriptions };
  return retryWhileReplaced(async (isRetry) => {
    const currentRow = isRetry ? await survey.get(MASTER_TABLE.name, id) : row;
    return currentRow && implyingDraft(source, MASTER_TABLE.name, id, currentRow);
  });
}

/** A position in the tree with a name, normalized (not cut) and as written. */
interface Place {
  readonly parentId: Buffer;
  readonly norm: Buffer;
  readonly text: string;
}

/**
 * Returns the steps that write the master row of an entry from `draft`, under `place` if it is given, with a change
 * record if attributes or place change. The next pass repairs the rows that derive from it.
 */
export function rewriteSteps(
  survey: Survey,
  { id, row, draft }: CheckedEntry,
  attributes: readonly string[],
  place?: Place,
): PlanStep[] {
  const { csn, descriptions } = survey.context;
  const info = place
    ? { parentId: place.parentId, normRdn: cutNorm(place.norm), upRdn: Buffer.from(place.text) }
    : { parentId: parentIdOf(row), normRdn: normRdnOf(row), upRdn: upRdnOf(row) };
  const version = counterBytes(versionOf(row) + 1n);
  const changes = cellChanges(row, entryCells(draft, { ...info, version }, Number.POSITIVE_INFINITY).cells);
  const steps: PlanStep[] = [
    ...survey.guards(id, row, place !== undefined),
    { table: MASTER_TABLE.name, key: id, delete: changes.removedCells, put: changes.writtenCells },
  ];
  if (!place && attributes.length === 0) return steps;
  const beforeImage = encodeBeforeImage(descriptions, row, changes);
  const change = place ? ({ op: 'rename', newDn: info.upRdn } as const) : ({ op: 'modify' } as const);
  const writer = { writerDn: '', csn: csn.nextCsn(), time: changeTime() };
  const record = { ...change, ...writer, id, dn: upRdnOf(row), attributes, beforeImage };
  return [...steps, { table: CHANGES_TABLE.name, append: changeCells(record) }];
}

/** Returns the reason why the bytes are not a valid packed row; undefined if they are. */
export function rowProblem(row: Buffer): string | undefined {
  return corruption(() => checkRow(row));
}

/** Returns the reason why `read` finds its bytes corrupt; undefined if it can read them. */
export function corruption(read: () => unknown): string | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'corrupt') return error.message;
    throw error;
  }
}

/** Returns the key of the tree row that a master row implies. */
export function treeKeyOfRow(row: Buffer): Buffer {
  return treeKey(parentIdOf(row), normRdnOf(row));
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
  const rdn = parsedDn(schema, upRdnOf(row))?.rdns[0];
  if (rdn?.avas.some((ava) => ava.type.name.toLowerCase() === 'entryuuid')) return rdn;
  try {
    return schema.parseRdn(rdn ? `${rdn.text}+${uuid}` : uuid);
  } catch (error) {
    if (error instanceof LdapError) return schema.parseRdn(uuid);
    throw error;
  }
}
