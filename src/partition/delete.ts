import { LdapError } from '../ldap/error.js';
import type { Dn } from '../schema/types.js';
import type { PlanStep } from '../store/contract.js';
import { isPromise } from '../store/maybe.js';
import { cellValue, unpackRow } from '../store/row.js';
import { keepSteps } from './deleted.js';
import type { Draft } from './draft.js';
import { draftFromRow, valueQualifier } from './entry.js';
import { formRule } from './implied.js';
import { largeCellsWhere, readAllLarge } from './large.js';
import { type Located, requireEntry } from './locate.js';
import { nodeTreeKey } from './nodes.js';
import { largeQualifiers, MASTER, MASTER_TABLE, Q, TREE, TREE_TABLE } from './tables.js';
import type { Actor, WriteOptions } from './types.js';
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
  await retrying(context, async () => {
    const found = await requireEntry(context, context.store, dn, options.manageDsaIT ?? false);
    await refuseNonLeaf(context, found);
    await commitSteps(context, await deleteSteps(context, found, actor), 0);
  });
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

async function deleteSteps(context: WriteContext, { node, row }: Located, actor: Actor): Promise<PlanStep[]> {
  const { store } = context;
  const draft = await implyingDraft(context, { node, row });
  const csn = context.csn.next(draft.text('entryCSN'));
  const large = largeQualifiers(row) && store.getCells(MASTER_TABLE.name, node.id, MASTER.largeValues, Buffer.alloc(0));
  const chunks = large === undefined ? undefined : isPromise(large) ? await large : large;
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
    ...indexSteps(node.id, impliedOf(context, draft), undefined),
    ...(await keepSteps(context, node, [...unpackRow(row), ...(chunks ? unpackRow(chunks) : [])], actor)),
    changeStep({ op: 'delete', id: node.id, dn: node.dn, by: actor.dn, csn }),
  ];
}

/** The entry with those of its large values that imply more than that they are there. */
async function implyingDraft(context: WriteContext, { node, row }: Located): Promise<Draft> {
  const cells = largeCellsWhere(context.descriptions, row, (type) => formRule(type) !== undefined);
  const large = await readAllLarge(context.store, MASTER_TABLE.name, node.id, row, cells);
  return draftWithLarge(context, row, large);
}

export function draftWithLarge(
  context: Pick<WriteContext, 'descriptions'>,
  row: Buffer,
  large: ReadonlyMap<string, Buffer> | undefined,
): Draft {
  const draft = draftFromRow(context.descriptions, row, undefined);
  if (!large) return draft;
  for (const attribute of draft.attributes) {
    attribute.values = attribute.values.map((v) => {
      const qualifier = valueQualifier(attribute.text, v.index);
      return { bytes: large.get(qualifier.toString('latin1')) ?? v.bytes, index: v.index };
    });
  }
  return draft;
}
