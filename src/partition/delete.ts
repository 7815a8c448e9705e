import { LdapError } from '../ldap/error.js';
import type { Dn } from '../schema/types.js';
import type { PlanStep } from '../store/contract.js';
import { StoreError } from '../store/errors.js';
import { isPromise } from '../store/maybe.js';
import { cellValue } from '../store/row.js';
import { keepSteps } from './deleted.js';
import type { Draft } from './draft.js';
import { draftFromRow, valueQualifier } from './entry.js';
import { formRule } from './implied.js';
import { largeCellsWhere, readAllLarge } from './large.js';
import { carryLarge, LargeAhead, NOTHING_CARRIED } from './large-ahead.js';
import { type Located, refuseReferral, requireHead } from './locate.js';
import { leaveLong } from './long-work.js';
import { nodeTreeKey } from './nodes.js';
import { DELETED_TABLE, largeQualifiers, MASTER, MASTER_TABLE, Q, TREE, TREE_TABLE } from './tables.js';
import type { Actor, WriteOptions } from './types.js';
import { isWhole } from './wide.js';
import {
  changeStep,
  commitSteps,
  countSteps,
  impliedOf,
  indexSteps,
  isSpecial,
  retrying,
  type WriteContext,
} from './write.js';

/** Deletes a leaf entry (RFC 4511 §4.8). Its rows are kept in table `deleted` until they are restored or purged. */
export async function remove(context: WriteContext, dn: Dn, actor: Actor, options: WriteOptions = {}): Promise<void> {
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be deleted');
  const ahead = new LargeAhead(context.store, DELETED_TABLE.name);
  const attempt = async (): Promise<void> => {
    const head = await requireHead(context, context.store, dn, options.manageDsaIT ?? false);
    const found = await wholeOf(context, head, options.leaveLong ?? false);
    if (!options.manageDsaIT) refuseReferral(context, found, dn);
    await refuseNonLeaf(context, found);
    await commitSteps(context, await deleteSteps(context, found, actor, ahead), 0);
  };
  await retrying(context, attempt, ahead);
}

/** With the whole row; `LongWork` where that is to be left and the entry is long. */
async function wholeOf(context: WriteContext, { node, row: head }: Located, leave: boolean): Promise<Located> {
  leaveLong(leave, head);
  if (isWhole(head)) return { node, row: head };
  const read = context.store.get(MASTER_TABLE.name, node.id);
  const row = isPromise(read) ? await read : read;
  if (!row) throw new StoreError('guard', 'the entry has been deleted meanwhile');
  leaveLong(leave, row);
  return { node, row };
}

async function refuseNonLeaf(context: WriteContext, { node }: Located): Promise<void> {
  const read = context.store.getHead(TREE_TABLE.name, nodeTreeKey(node), true);
  const row = isPromise(read) ? await read : read;
  const count = row && cellValue(row, TREE.treeInfo, Q.oneLevelCount);
  if (count && count.readBigInt64BE() > 0n) {
    throw new LdapError(
      'notAllowedOnNonLeaf',
      `right below the entry there are others (${count.readBigInt64BE()}); delete them first`,
    );
  }
}

async function deleteSteps(
  context: WriteContext,
  { node, row }: Located,
  actor: Actor,
  ahead: LargeAhead,
): Promise<PlanStep[]> {
  const draft = await implyingDraft(context, MASTER_TABLE.name, node.id, row);
  const csn = context.csn.next(draft.text('entryCSN'));
  const carried = largeQualifiers(row)
    ? await carryLarge(context.store, ahead, MASTER_TABLE.name, node.id, row)
    : NOTHING_CARRIED;
  return [
    {
      table: TREE_TABLE.name,
      key: nodeTreeKey(node),
      guards: [
        { op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: node.id },
        { op: 'counterEquals', family: TREE.treeInfo, qualifier: Q.oneLevelCount, value: 0n },
      ],
      deleteRow: true,
    },
    {
      table: MASTER_TABLE.name,
      key: node.id,
      guards: [
        {
          op: 'equals',
          family: MASTER.treeInfo,
          qualifier: Q.version,
          value: cellValue(row, MASTER.treeInfo, Q.version)!,
        },
      ],
      deleteRow: true,
    },
    context.shared.guardStep(isSpecial(draft)),
    ...countSteps(node.parent!, -1n, -1n),
    ...indexSteps(node.id, impliedOf(context, draft).rows, []),
    ...(await keepSteps(context, node, row, carried, actor)),
    changeStep({ op: 'delete', id: node.id, dn: node.dn, by: actor.dn, csn }),
  ];
}

/** The entry with those of its large values that imply more than that they are there. */
export async function implyingDraft(context: WriteContext, table: string, id: Buffer, row: Buffer): Promise<Draft> {
  const cells = largeCellsWhere(context.descriptions, row, (type) => formRule(type) !== undefined);
  return draftWithLarge(context, row, await readAllLarge(context.store, table, id, row, cells));
}

export function draftWithLarge(
  context: Pick<WriteContext, 'descriptions'>,
  row: Buffer,
  large: ReadonlyMap<string, Buffer> | undefined,
): Draft {
  const draft = draftFromRow(context.descriptions, row, undefined);
  if (!large) return draft;
  for (const attribute of [...draft.attributes]) {
    const values = attribute.values.map((v) => {
      const qualifier = valueQualifier(attribute.text, v.index);
      return { bytes: large.get(qualifier.toString('latin1')) ?? v.bytes, index: v.index };
    });
    draft.set({ ...attribute, values });
  }
  return draft;
}
