import { LdapError } from '../../../ldap/ldap-error.js';
import type { AttributeDescription, AttributeType } from '../../../schema/schema-types.js';
import type { Maybe } from '../../../store/contract.js';
import { chain } from '../../../store/maybe.js';
import { EMPTY } from '../../../store/row.js';
import { StoreError } from '../../../store/store-error.js';
import { textBytes } from '../../model/change-record.js';
import { isComputed } from '../../model/computed.js';
import { generalizedTime } from '../../model/csn.js';
import type { Access, Actor, AttributeChange, CheckedEntry } from '../../model/directory-types.js';
import type { Draft } from '../../model/draft.js';
import { detachedRow } from '../../model/entry-cells.js';
import { ENTRY_UUID_OID } from '../../model/index-set.js';
import { presentRow } from '../../model/present-row.js';
import { MASTER_TABLE, type Node, upRdnOf } from '../../model/tables.js';
import { uuidTextBytes } from '../../model/uuid.js';
import { HiddenEntry } from '../../tree/locate.js';
import { ROOT } from '../../tree/nodes.js';
import { type Change, changedTypes, type Rule, type Target, type Verdict, type WriteContext } from '../context.js';

/** Checks the actor's rights to the request and to the change. Actors without `access` may do everything. */
export const ACCESS: Rule = {
  name: 'access',

  checkRequest(_, asked) {
    return asked.actor.access?.checkRequest(asked);
  },

  checkTarget(context, asked, target) {
    const { access } = asked.actor;
    if (access?.version === undefined) return undefined;
    return chain(entryForRights(context, access, target), (entry) => {
      requireSeen(access, entry);
      return access.checkTarget(asked, entry);
    });
  },

  checkChange(context, change) {
    const { access } = change.actor;
    if (access?.version === undefined) return undefined;
    if (change.op === 'add') return toVerdict(access.checkNewEntry(requestOf(change), addedEntry(change)));
    return change.op === 'rename' ? checkMove(context, access, change) : undefined;
  },
};

function toVerdict(refuse: ReturnType<Access['checkTarget']>): Verdict {
  return refuse && { refuse };
}

export function requireSeen({ viewer }: Access, { node, row }: CheckedEntry): void {
  if (node === ROOT || !viewer.sightOf) return;
  if (!viewer.sightOf({ id: node.id, parent: node.parent ?? ROOT, row })) throw new HiddenEntry(node);
}

/** Returns the entry with a row that has all values that rights depend on. */
function entryForRights(context: WriteContext, { viewer }: Access, { node, stored }: Target): Maybe<CheckedEntry> {
  if (node === ROOT) return { node, row: EMPTY };
  const isComplete =
    stored && (viewer.looksInto === undefined || stored.draft.attributes.every(({ unread }) => !unread));
  return isComplete ? { node, row: presentRow(context, stored.row) } : readCheckedEntry(context, node);
}

function readCheckedEntry(context: WriteContext, node: Node): Maybe<CheckedEntry> {
  return chain(context.store.get(MASTER_TABLE.name, node.id), (row) => {
    if (!row) throw new StoreError('guard', 'the entry has been deleted meanwhile');
    return { node, row: presentRow(context, row) };
  });
}

/** Returns the request that adds a restored or new entry, with all its attributes and its RDN. */
function requestOf({ op, actor, after, place }: Change): Parameters<Access['checkNewEntry']>[0] {
  const changes = (after?.attributes ?? []).map(({ description }) => ({ operation: 'add', description }) as const);
  return { op: op === 'delete' ? 'delete' : op, actor, changes, rdn: place.rdn };
}

function addedEntry({ after, place }: Change): CheckedEntry {
  return { node: place.to!, row: detachedRow(after!) };
}

function checkMove(context: WriteContext, access: Access, change: Change): Maybe<Verdict> {
  const { before, place } = change;
  const { from, to } = place as { from: Node; to: Node };
  const entry = entryForRights(context, access, { node: from, stored: before });
  const superior = from.parent!.id.equals(to.parent!.id) ? undefined : readCheckedEntry(context, to.parent!);
  return chain(entry, (movedEntry) =>
    chain(superior, (newParent) => {
      const isRenamed = !from.normRdn.equals(to.normRdn) || !place.upRdn.equals(upRdnOf(before!.row));
      return toVerdict(
        access.checkMove({ entry: movedEntry, isRenamed, superior: newParent, changes: rdnChanges(change) }),
      );
    }),
  );
}

function rdnChanges(change: Change): AttributeChange[] {
  const changes: AttributeChange[] = [];
  for (const type of changedTypes(change)) {
    for (const { description } of change.after!.ofType(type))
      if (hasFurtherValues(change.after!, change.before!.draft, description))
        changes.push({ operation: 'add', description });
    for (const { description } of change.before!.draft.ofType(type))
      if (hasFurtherValues(change.before!.draft, change.after!, description))
        changes.push({ operation: 'delete', description });
  }
  return changes;
}

/** Whether `draft` has values of the description that the other draft lacks. */
function hasFurtherValues(draft: Draft, other: Draft, description: AttributeDescription): boolean {
  const otherValues = other.get(description)?.values ?? [];
  return (
    draft.get(description)?.values.some(({ bytes }) => !otherValues.some((value) => value.bytes.equals(bytes))) ?? false
  );
}

/**
 * Refuses writes of attributes that only the server writes (RFC 4512 §4.1.2, NO-USER-MODIFICATION), in RDNs, too. Sets
 * entryUUID, entryCSN, times and names of actors.
 */
export const SERVER_KEPT: Rule = {
  name: 'server-kept attributes',

  checkRequest(_, { op, actor, changes, rdn }) {
    for (const {
      description: { type },
    } of changes) {
      if (isServerKept(type, actor)) return serverKeptError(type.name, 'be written');
      if (op === 'modify' && type.oid === ENTRY_UUID_OID)
        return new LdapError('constraintViolation', 'entryUUID is what the entry is known by and never changes');
    }
    const ava = rdn?.avas.find(({ type }) => isServerKept(type, actor));
    return ava && serverKeptError(ava.type.name, 'be chosen by a name');
  },

  checkChange(context, change) {
    const { id, actor, before, after, op, obstacle, completeNew } = change;
    if (!after) return undefined;
    if (actor.isRelaxed && before) return relaxedVerdict(context, change, after);
    // With an obstacle the change fails, and nobody has to hash its passwords.
    if (!completeNew || obstacle)
      return { amend: (draft) => (before || op === 'restore' ? stampModify : stampCreate)(context, draft, actor, id) };
    return chain(completeNew({ id, row: detachedRow(after) }), (attributes) => ({
      amend: (draft) => {
        stampCreate(context, draft, actor, id);
        for (const { type, values } of attributes) {
          const description = context.schema.requireDescription(type);
          if (description.type.secret) draft.replace(description, type, values);
          else draft.setDefault(description, type, values[0]!);
        }
      },
    }));
  },
};

/** The attributes that a client may set under relaxed rules (draft-zeilenga-ldap-relax-03 §3). */
const RELAXED = ['createTimestamp', 'creatorsName', 'modifyTimestamp', 'modifiersName', 'entryUUID'];

/** Stamps a modify under relaxed rules, but for what it sets itself. */
function relaxedVerdict(context: WriteContext, change: Change, after: Draft): Verdict {
  const setNames = [...changedTypes(change)].map(({ name }) => name).filter((name) => RELAXED.includes(name));
  const lost = setNames.find((name) => !after.firstValue(name));
  if (lost !== undefined) return { refuse: serverKeptError(lost, 'be removed; replace it') };
  const kept = setNames.map((name) => ({ name, value: after.firstValue(name)! }));
  return {
    amend: (draft) => {
      stampModify(context, draft, change.actor);
      for (const { name, value } of kept) setAttribute(context, draft, name, value);
    },
  };
}

/** Whether the actor may not write the type. Computed attributes are never stored, also not for privileged actors. */
function isServerKept(type: AttributeType, actor: Actor): boolean {
  if (!type.noUserModification || (actor.isRelaxed && RELAXED.includes(type.name))) return false;
  return !actor.system || isComputed(type);
}

function serverKeptError(name: string, problem: string): LdapError {
  return new LdapError('constraintViolation', `attribute '${name}' is kept by the server and cannot ${problem}`);
}

function stampModify(context: WriteContext, draft: Draft, actor: Actor): void {
  setAttribute(context, draft, 'entryCSN', context.csn.nextCsnBytes(draft.valueText('entryCSN')));
  setAttribute(context, draft, 'modifyTimestamp', textBytes(generalizedTime(Date.now())));
  if (actor.dn) setAttribute(context, draft, 'modifiersName', textBytes(actor.dn));
}

function setAttribute({ schema }: WriteContext, draft: Draft, name: string, value: Buffer): void {
  draft.replace(schema.requireDescription(name), name, [value]);
}

/** Sets these attributes in a new entry. Keeps values from a privileged writer. */
function stampCreate(context: WriteContext, draft: Draft, actor: Actor, id: Buffer): void {
  const timeText = textBytes(generalizedTime(Date.now()));
  setDefault(context, draft, 'entryUUID', uuidTextBytes(id));
  setDefault(context, draft, 'entryCSN', context.csn.nextCsnBytes());
  setDefault(context, draft, 'createTimestamp', timeText);
  setDefault(context, draft, 'modifyTimestamp', timeText);
  if (actor.dn) {
    const actorDn = textBytes(actor.dn);
    setDefault(context, draft, 'creatorsName', actorDn);
    setDefault(context, draft, 'modifiersName', actorDn);
  }
}

function setDefault({ schema }: WriteContext, draft: Draft, name: string, value: Buffer): void {
  draft.setDefault(schema.requireDescription(name), name, value);
}
