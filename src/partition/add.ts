import { LdapError } from '../ldap/error.js';
import { utf8Bytes } from '../ldap/text.js';
import type { PartialAttribute } from '../ldap/types.js';
import type { Dn } from '../schema/types.js';
import type { PlanStep } from '../store/contract.js';
import { isPromise } from '../store/maybe.js';
import { counterBytes } from '../store/row.js';
import { completeClasses, completeRdn } from './complete.js';
import { generalizedTime } from './csn.js';
import { type Draft, draftFromAttributes } from './draft.js';
import { entryCells } from './entry.js';
import { LARGE_VALUE } from './large.js';
import { LargeAhead, newLarge, type WrittenAhead } from './large-ahead.js';
import { findEntry, specialClass, tail, throwNoSuchObject } from './locate.js';
import { joinDn, type Node, nodeTreeKey, ROOT } from './nodes.js';
import { cutNorm, MASTER_TABLE, Q, ROOT_ID, TREE, TREE_TABLE } from './tables.js';
import type { Actor, WriteOptions } from './types.js';
import { newUuid, parseUuid, uuidTextBytes } from './uuid.js';
import {
  changeStep,
  checkDraft,
  commitSteps,
  countSteps,
  impliedOf,
  indexSteps,
  isSpecial,
  refuseServerAttributes,
  refuseServerNames,
  retrying,
  setDefault,
  type WriteContext,
} from './write.js';

/** Adds an entry (RFC 4511 §4.7) and resolves with its entryUUID. */
export async function add(
  context: WriteContext,
  dn: Dn,
  given: readonly PartialAttribute[],
  actor: Actor,
  options: WriteOptions = {},
): Promise<Buffer> {
  const { schema } = context;
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be added');
  const draft = draftFromAttributes(schema, given);
  refuseServerAttributes(draft.attributes, actor);
  refuseServerNames(dn.rdns[0]!, actor);
  prepareEntry(context, draft, dn, actor);
  return addPrepared(context, draft, dn, actor, options);
}

/** Adds an entry that `prepareEntry` has completed and checked. */
export async function addPrepared(
  context: WriteContext,
  draft: Draft,
  dn: Dn,
  actor: Actor,
  options: WriteOptions = {},
): Promise<Buffer> {
  const id = entryId(draft);
  const large = newLarge(draft);
  const ahead = large && new LargeAhead(context.store, MASTER_TABLE.name);
  let tries = 0;
  const attempt = async (): Promise<Buffer> => {
    if (++tries > 1) await refuseTakenId(context, id);
    const parent = await placeFor(context, dn, options);
    const written = ahead && (await ahead.write(id, large));
    await commitSteps(context, addSteps(context, draft, dn, parent, id, actor, written), 0);
    return id;
  };
  return retrying(context, attempt, ahead);
}

/** The key of a new entry: its entryUUID. */
export function entryId(draft: Draft): Buffer {
  if (draft.id) return draft.id;
  const id = parseUuid(draft.text('entryUUID')!);
  if (id.equals(ROOT_ID)) throw new LdapError('constraintViolation', 'the nil UUID cannot be an entryUUID');
  return id;
}

/** A guard failed: is the entryUUID, which a privileged writer may bring, another entry's? */
async function refuseTakenId(context: WriteContext, id: Buffer): Promise<void> {
  const row = context.store.get(MASTER_TABLE.name, id);
  if (isPromise(row) ? await row : row)
    throw new LdapError('entryAlreadyExists', 'there is an entry with this entryUUID already');
}

/** Completes a new entry (superclasses, RDN values, operational attributes) and checks all of it. */
export function prepareEntry(context: WriteContext, draft: Draft, dn: Dn, actor: Actor): void {
  const rdn = dn.rdns[0]!;
  completeClasses(context.schema, draft);
  completeRdn(draft, context.schema, rdn);
  // What follows is made here, and right.
  checkDraft(context, draft, rdn);
  const now = generalizedTime(Date.now());
  if (!draft.value('entryUUID')) {
    draft.id = newUuid(context.store.supports.spread);
    setDefault(context, draft, 'entryUUID', uuidTextBytes(draft.id));
  }
  setDefault(context, draft, 'entryCSN', context.csn.nextBytes());
  setDefault(context, draft, 'createTimestamp', now);
  setDefault(context, draft, 'modifyTimestamp', now);
  if (actor.dn) {
    setDefault(context, draft, 'creatorsName', actor.dn);
    setDefault(context, draft, 'modifiersName', actor.dn);
  }
}

/** The parent under which `dn` may be added; refuses a name that is taken or has no parent. */
async function placeFor(context: WriteContext, dn: Dn, options: WriteOptions): Promise<Node> {
  const { store, shared } = context;
  const existing = findEntry(context, store, dn);
  if (isPromise(existing) ? await existing : existing)
    throw new LdapError('entryAlreadyExists', 'there is an entry with this name already');
  if (shared.isSuffix(dn)) return ROOT;
  const found = findEntry(context, store, tail(dn, 1));
  const parent = isPromise(found) ? await found : found;
  if (!parent) {
    const message = `the entry above it, '${tail(dn, 1).text}', does not exist; add it first`;
    return throwNoSuchObject(context, store, dn, options.manageDsaIT, message);
  }
  const special = specialClass(context, parent.row);
  if (special === 'alias')
    throw new LdapError('namingViolation', 'an alias entry has no entries below it', {
      matchedDN: parent.node.dn.toString(),
    });
  // A referral object takes the place of what would be below it (RFC 3296 §5.3).
  if (special === 'referral' && !options.manageDsaIT) return throwNoSuchObject(context, context.store, dn);
  return parent.node;
}

/** Where a new entry will stand. */
export function newNode(dn: Dn, parent: Node, id: Buffer): { node: Node; upRdn: Buffer } {
  const isSuffix = parent === ROOT;
  const rdn = dn.rdns[0]!;
  const upRdn = utf8Bytes(isSuffix ? dn.text : rdn.text);
  return { node: { id, parent, normRdn: cutNorm(isSuffix ? dn.norm : rdn.norm), dn: joinDn(upRdn, parent.dn) }, upRdn };
}

/** The plan of one add. Its first step decides: the name is free and now taken. */
export function addSteps(
  context: WriteContext,
  draft: Draft,
  dn: Dn,
  parent: Node,
  id: Buffer,
  actor: Actor,
  ahead?: WrittenAhead,
): PlanStep[] {
  const { node, upRdn } = newNode(dn, parent, id);
  const implied = impliedOf(context, draft);
  const info = { parentId: parent.id, normRdn: node.normRdn, upRdn, version: counterBytes(1n) };
  const { cells, separate } = entryCells(draft, info, LARGE_VALUE, ahead?.pointers);
  const absent = { op: 'absent', family: TREE.treeInfo, qualifier: Q.parentId } as const;
  return [
    {
      table: TREE_TABLE.name,
      key: nodeTreeKey(node),
      guards: [{ op: 'absent', family: TREE.treeInfo, qualifier: Q.id }],
      put: [{ family: TREE.treeInfo, qualifier: Q.id, value: id }, ...implied.cells],
    },
    context.shared.guardStep(isSpecial(draft)),
    ...countSteps(parent, 1n, 1n),
    {
      table: MASTER_TABLE.name,
      key: id,
      guards: ahead ? [absent, ahead.guard] : [absent],
      ...(ahead && { delete: [ahead.mark] }),
      put: [...cells, ...separate],
    },
    ...indexSteps(id, [], implied.rows),
    changeStep({ op: 'add', id, dn: node.dn, by: actor.dn, csn: draft.text('entryCSN')! }),
  ];
}
