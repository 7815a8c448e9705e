import { LdapError } from '../../ldap/ldap-error.js';
import { MAX_DN, MAX_RDNS } from '../../schema/dn.js';
import type { AttributeType, Dn, Rdn } from '../../schema/schema-types.js';
import { isPromise } from '../../store/maybe.js';
import { cellValue } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import type { Actor, WriteOptions } from '../model/directory-types.js';
import type { Draft } from '../model/draft.js';
import { cutNorm, MASTER_TABLE, type Node, Q, TREE, TREE_TABLE, treeKey } from '../model/tables.js';
import { findEntry, throwNoSuchObject } from '../tree/locate.js';
import { isWithin, joinDn, nodeTreeKey, ROOT } from '../tree/nodes.js';
import { specialClass } from '../tree/specials.js';
import { write } from './attempt.js';
import { completeRdn } from './complete.js';
import type { Change, StoredEntry, WriteContext } from './context.js';
import { LargeValueWriter } from './large-ahead.js';
import { findWhole, loadLarge } from './open.js';
import { requireSeen } from './rules/access.js';

export interface RenameTarget {
  readonly newRdn: string;
  readonly deleteOldRdn: boolean;
  readonly newSuperior: string | undefined;
}

/**
 * Renames or moves an entry with its subtree (RFC 4511 §4.9). The cost does not depend on the size of the subtree,
 * because children refer to the entryUUID of their parent. The plan writes one tree row, one master row and the
 * counters of the old and new ancestors.
 */
export async function rename(
  context: WriteContext,
  dn: Dn,
  target: RenameTarget,
  actor: Actor,
  options: WriteOptions = {},
): Promise<void> {
  const { schema, shared } = context;
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be renamed');
  const rdn = schema.parseRdn(target.newRdn);
  const superior = target.newSuperior === undefined ? undefined : schema.parseDn(target.newSuperior);
  if (superior && superior.rdns.length >= MAX_RDNS)
    throw new LdapError('invalidDNSyntax', `the new DN has more than ${MAX_RDNS} RDNs`);
  const largeWriter = new LargeValueWriter(context.store, MASTER_TABLE.name);
  const change = await write(context, {
    lockKey: dn.norm,
    request: { op: 'rename', actor, changes: [], rdn },
    largeWriter,
    attachedSteps: options.attached,
    observer: options.observer,
    find: () => findWhole(context, dn, options),
    async change({ node, stored }) {
      if (shared.isSuffix(dn)) {
        throw new LdapError(
          'unwillingToPerform',
          'a suffix cannot be renamed; export it and import it under the new name',
        );
      }
      const parent = superior ? await requireSuperior(context, superior, actor, options) : node.parent!;
      refuseMove(node, node.parent!, parent);
      const { before, after } = await renamedDraft(context, node, stored, dn.rdns[0]!, rdn, target.deleteOldRdn);
      return renameOf(context, node, before, after, parent, rdn, actor);
    },
  });
  context.nodes.clear();
  const { from, to: place } = change.place;
  const dnChange = { from: from!.dn.toString(), to: place!.dn.toString() };
  context.references.onNameChanged({ id: change.id.toString('hex'), ...dnChange, formerKey: nodeTreeKey(from!) });
}

async function requireSuperior(
  context: WriteContext,
  superior: Dn,
  { access }: Actor,
  { manageDsaIT = false }: WriteOptions,
): Promise<Node> {
  if (superior.rdns.length === 0)
    throw new LdapError('unwillingToPerform', 'an entry cannot be moved to the root; only suffixes stand there');
  const maybeParent = findEntry(context, context.store, superior);
  const parent = isPromise(maybeParent) ? await maybeParent : maybeParent;
  if (!parent) return throwNoSuchObject(context, context.store, superior, false, 'the new superior does not exist');
  if (access) requireSeen(access, parent);
  const special = specialClass(context, parent.row);
  if (special === 'alias') throw new LdapError('namingViolation', 'an alias entry has no entries below it');
  if (special === 'referral' && !manageDsaIT)
    throw new LdapError('affectsMultipleDSAs', 'the new superior is held by another server');
  return parent.node;
}

function refuseMove(node: Node, oldParent: Node, parent: Node): void {
  if (isWithin(parent, node)) throw new LdapError('unwillingToPerform', 'an entry cannot be moved below itself');
  if (suffixNode(oldParent) !== suffixNode(parent) && !suffixNode(oldParent).id.equals(suffixNode(parent).id)) {
    throw new LdapError(
      'affectsMultipleDSAs',
      'an entry cannot be moved to another suffix; export it and import it there',
    );
  }
}

function suffixNode(node: Node): Node {
  let top = node;
  while (top.parent && top.parent !== ROOT) top = top.parent;
  return top;
}

/** Returns the entry with the values of the new RDN and, if `deletesOldRdn`, without those of the old one. */
async function renamedDraft(
  context: WriteContext,
  node: Node,
  { row, draft }: StoredEntry,
  oldRdn: Rdn,
  newRdn: Rdn,
  deletesOldRdn: boolean,
): Promise<{ before: StoredEntry; after: Draft }> {
  const rdnTypes = new Set<AttributeType>();
  for (const ava of [...oldRdn.avas, ...newRdn.avas]) rdnTypes.add(ava.type);
  const loadedDraft = await loadLarge(context.store, MASTER_TABLE.name, node.id, draft, (type) => rdnTypes.has(type));
  const after = loadedDraft.copy();
  if (deletesOldRdn) removeRdnValues(context, after, oldRdn);
  completeRdn(after, context.schema, newRdn);
  return { before: { row, draft: loadedDraft }, after };
}

function removeRdnValues(context: WriteContext, draft: Draft, rdn: Rdn): void {
  for (const ava of rdn.avas) {
    // Keep operational attributes: a repaired entry may have its entryUUID as RDN.
    if (ava.type.noUserModification) continue;
    const attribute = draft.get(context.schema.requireDescription(ava.type.name));
    if (!attribute) continue;
    const values = attribute.values.filter((v) => !ava.type.equality?.normalize(v.bytes)?.equals(ava.norm));
    if (values.length === 0) draft.remove(attribute.description);
    else draft.set({ ...attribute, values });
  }
}

/** Returns the change that gives the entry a new name or parent. */
async function renameOf(
  context: WriteContext,
  oldNode: Node,
  before: StoredEntry,
  after: Draft,
  parent: Node,
  rdn: Rdn,
  actor: Actor,
): Promise<Change> {
  const upRdn = Buffer.from(rdn.text);
  const newNode: Node = { id: oldNode.id, parent, normRdn: cutNorm(rdn.norm), dn: joinDn(upRdn, parent.dn) };
  if (newNode.dn.length > MAX_DN)
    throw new LdapError('invalidDNSyntax', `the new DN has ${newNode.dn.length} bytes; at most ${MAX_DN} are allowed`);
  const { treeRow, obstacle } = await findTreeRow(context, oldNode, newNode);
  const place = { from: oldNode, to: newNode, upRdn, rdn, treeRow };
  return { op: 'rename', id: oldNode.id, actor, before, after, place, obstacle };
}

/** Returns the current tree row if the rename replaces it, and an error if the new name is taken. */
async function findTreeRow(
  context: WriteContext,
  oldNode: Node,
  newNode: Node,
): Promise<{ treeRow?: Buffer; obstacle?: LdapError }> {
  const key = nodeTreeKey(oldNode);
  const newKey = treeKey(newNode.parent!.id, newNode.normRdn);
  if (key.equals(newKey)) return {};
  const maybeTreeRow = context.store.get(TREE_TABLE.name, key);
  const treeRow = isPromise(maybeTreeRow) ? await maybeTreeRow : maybeTreeRow;
  if (!treeRow || !cellValue(treeRow, TREE.treeInfo, Q.id)?.equals(oldNode.id))
    throw new StoreError('guard', 'the entry has been renamed meanwhile');
  const maybeOccupant = context.store.get(TREE_TABLE.name, newKey);
  if (!(isPromise(maybeOccupant) ? await maybeOccupant : maybeOccupant)) return { treeRow };
  return { treeRow, obstacle: new LdapError('entryAlreadyExists', 'there is an entry with the new name already') };
}
